// Draws timelines (timeline_picture.cpp), for the picture in a file of its own and for the one that a page can zoom
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

// The option's energy over its time; zero for options that take no time.
[[nodiscard]] Watts mean_power(const ClockOption& option);

// A scale that covers every operation that occupies a stage, under both plans.
[[nodiscard]] PowerScale power_scale(const ReportInput& input);

// "F12" of an operation that is called "F12 stage 3".
[[nodiscard]] std::string short_label(const ComputationDag& dag, int operation);

// "perseus: 5.432 s, 6 543 J (+0.1 % time, -13.2 % energy)"; without the changes if `than` is null.
[[nodiscard]] std::string plan_heading(const RealisedPlan& plan, const RealisedPlan* than);

// "blocking, 75 W", or the range if stages differ.
[[nodiscard]] std::string blocking_label(const PlanProblem& problem);

// The median time of the operations that occupy a stage, under this plan; one second if there are none.
[[nodiscard]] Seconds median_operation(const RealisedPlan& plan);

// The rows of a page's timeline, which show the whole iteration; the page zooms them.
struct TimelineRows {
  static constexpr double kHeight = 26.0;  // px, as are the others
  static constexpr double kPitch = 30.0;
  static constexpr double kOperation = 30.0;  // the width of an operation of median time
  static constexpr int kStretch = 5000;       // how many labels are shown or hidden together
  static constexpr double kMostZoom = 3.0;    // by then every label is shown
  double longest;                             // s, of the axis
  double seconds_per_px;
};

// One plan's rows with labels and axis as inlined SVG, and the rows' names beside them. For the page's script: a group
// with data-from and data-to is shown at zooms from the one to below the other, a group with data-x is placed there,
// and the rectangle "lit" frames the operation that is pointed at.
[[nodiscard]] std::string timeline_rows(const RealisedPlan& plan, const Timeline& timeline, const PowerScale& power,
                                        const TimelineRows& rows);
[[nodiscard]] SvgCanvas timeline_names(const ComputationDag& dag);

// The timelines before and after as an element of a page, with the data that web/timeline.js shows for the operation
// that is pointed at. Without scripts the element can still be scrolled.
[[nodiscard]] std::string timeline_view(const ReportInput& input);

}  // namespace flyball
