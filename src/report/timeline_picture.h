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

// Of the longer iteration; positive.
[[nodiscard]] Seconds longest_iteration(const ReportInput& input);

// What pictures give the width of an operation to: the median of the baseline's that occupy a stage, but no less than
// the longer iteration shared out among them. No picture is then wider than all of them side by side, however uneven.
[[nodiscard]] Seconds usual_operation(const ReportInput& input);

// How the rows of a page's timeline are drawn: the whole iteration as wide as it is long, zoomed by the page.
//
// The operations bound the page's bytes, whatever they take: under each plan an outline, a label and two corners of the
// critical path each at most, and some 2 * kMostTicks ticks at most for all zooms together.
struct TimelineRows {
  static constexpr double kHeight = 26.0;  // px, as are the others
  static constexpr double kPitch = 30.0;
  static constexpr double kOperation = 30.0;  // a usual operation's width
  static constexpr int kStretch = 5000;       // of labels that are shown or hidden together
  static constexpr int kMostTicks = 1000;     // of one zoom; from there on they stay as far apart as they are
  // The greatest zoom makes the shortest operation as wide as a usual one, so that it has its label, but is
  static constexpr double kEveryZoom = 3.0;          // no less than this, which even pages have;
  static constexpr double kMostZoom = 300.0;         // no more than hundredths of a pixel allow, which shapes come in;
  static constexpr double kMostWidth = 8'388'608.0;  // no wider than single precision tells half a pixel: browsers' own

  explicit TimelineRows(const ReportInput& input);

  double longest;         // s, of the axis
  double seconds_per_px;  // at zoom 1
  double most_zoom;       // a whole number
};

// One plan's rows with labels and axis, inlined, and the names of the rows beside them. Groups with data-from, data-to
// are for zooms from the one to below the other, those with data-x stand from there on, and those with data-border have
// borders from that zoom on; the rectangle "lit" frames what is pointed at.
[[nodiscard]] std::string timeline_rows(const RealisedPlan& plan, const Timeline& timeline, const PowerScale& power,
                                        const TimelineRows& rows);
[[nodiscard]] SvgCanvas timeline_names(const ComputationDag& dag);

// The timelines before and after as an element of a page, with the data that web/timeline.js shows for the operation
// that is pointed at. Without scripts the element can still be scrolled.
[[nodiscard]] std::string timeline_view(const ReportInput& input);

}  // namespace flyball
