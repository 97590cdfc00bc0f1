// One drawing of timelines (timeline_picture.cpp), for the picture that stands alone and for the one that a page zooms
// (timeline_view.cpp).
#pragma once

#include <string>
#include <string_view>

#include "draw/palette.h"
#include "draw/svg_canvas.h"
#include "report/report.h"

namespace flyball {

// The option of an operation under a realised plan.
[[nodiscard]] const ClockOption& option_of(const RealisedPlan& plan, int operation);

// Zero for options that take no time.
[[nodiscard]] Watts mean_power(const ClockOption& option);

// Covers every operation that occupies a stage, under both plans.
[[nodiscard]] PowerScale power_scale(const ReportInput& input);

// "F12", from "F12 stage 3".
[[nodiscard]] std::string short_label(const ComputationDag& dag, int operation);

// "perseus: 5.432 s, 6 543 J (+0.1 % time, -13.2 % energy)"; the changes only where `than` is given.
[[nodiscard]] std::string plan_heading(const RealisedPlan& plan, const RealisedPlan* than);

// "blocking, 75 W", or the range where stages differ.
[[nodiscard]] std::string blocking_label(const PlanProblem& problem);

// Of those that occupy a stage, under this plan; one second where there are none.
[[nodiscard]] Seconds median_operation(const RealisedPlan& plan);

// How the rows of a page's timeline are drawn: the whole iteration as wide as it is long, zoomed by the page.
struct TimelineRows {
  static constexpr double kHeight = 26.0;  // px, as are the others
  static constexpr double kPitch = 30.0;
  static constexpr double kOperation = 30.0;  // a usual operation's width
  static constexpr int kStretch = 5000;       // of labels that are shown or hidden together
  static constexpr double kMostZoom = 3.0;    // no label waits for more
  double longest;                             // s, of the axis
  double seconds_per_px;
};

// One plan's rows with labels and axis, inlined, and the names of the rows beside them. Groups with data-from, data-to
// are for zooms from the one to below the other, and those with data-x stand from there on; the rectangle "lit" frames
// what is pointed at.
[[nodiscard]] std::string timeline_rows(const RealisedPlan& plan, const Timeline& timeline, const PowerScale& power,
                                        const TimelineRows& rows);
[[nodiscard]] SvgCanvas timeline_names(const ComputationDag& dag);

// The timelines before and after as an element of a page, with the data that web/timeline.js tells when it is pointed
// at. Where scripts do not run, it can be scrolled.
[[nodiscard]] std::string timeline_view(const ReportInput& input);

}  // namespace flyball
