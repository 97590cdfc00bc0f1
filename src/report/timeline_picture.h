// Draws timelines: the picture in a file of its own (timeline_picture.cpp), and the one in a page, which can be zoomed
// (timeline_view.cpp).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "draw/palette.h"
#include "draw/svg_canvas.h"
#include "report/report.h"

namespace flyball {

// Returns the option at which an operation runs under a plan.
[[nodiscard]] const ClockOption& option_of(const RealisedPlan& plan, int operation);

// Returns what an option sets, "1410 MHz, sm=12"; empty if it has neither clock nor labels.
[[nodiscard]] std::string setting_text(const OperationType& type, std::size_t option);

// Returns the option's energy over its time; zero for options that take no time.
[[nodiscard]] Watts mean_power(const ClockOption& option);

// Returns a scale that covers the mean power of every operation that occupies a stage, under both plans.
[[nodiscard]] PowerScale power_scale(const ReportInput& input);

// Returns "F12" for an operation that is called "F12 stage 3".
[[nodiscard]] std::string short_label(const ComputationDag& dag, int operation);

// Returns "perseus: 5.432 s, 6 543 J (+0.10 % time, -13.2 % energy)", compared with `than`; without the comparison if
// `than` is null.
[[nodiscard]] std::string plan_heading(const RealisedPlan& plan, const RealisedPlan* than);

// Returns "blocking, 75 W", or the range of powers if they differ between stages or clocks.
[[nodiscard]] std::string blocking_label(const PlanProblem& problem);

// Returns the time of the longer of the two iterations, at least a nanosecond.
[[nodiscard]] Seconds longest_iteration(const ReportInput& input);

// Returns the duration that pictures draw as wide as an operation should be: the median duration of the baseline's
// operations that occupy a stage, but no less than the longer iteration divided by their number. However uneven the
// operations are, no picture is then wider than so many of them side by side.
[[nodiscard]] Seconds usual_operation(const ReportInput& input);

// How the rows of a page's timeline are drawn. The picture shows the whole iteration, and the page zooms it.
//
// The page's bytes are bounded by the number of operations, however long these take: under each plan an operation adds
// at most an outline, a label and two corners of the critical path. All zooms together add some 2 * kMostTicks ticks.
struct TimelineRows {
  static constexpr double kHeight = 26.0;     // of a row, in pixels, as are the next three
  static constexpr double kLowered = 6.0;     // what a forward is lower than the others, at its top
  static constexpr double kPitch = 30.0;      // from one row to the next
  static constexpr double kOperation = 30.0;  // the width of a usual operation at zoom 1
  static constexpr int kStretch = 5000;       // the width in which labels are shown or hidden together
  static constexpr int kMostTicks = 1000;     // of one zoom; beyond it the ticks move apart instead
  // The greatest zoom makes the shortest operation as wide as a usual one, so that its label fits, within these bounds:
  static constexpr double kEveryZoom = 3.0;          // the least, for operations that are all alike
  static constexpr double kMostZoom = 300.0;         // the most that shapes rounded to hundredths of a pixel allow
  static constexpr double kMostWidth = 8'388'608.0;  // px; up to here a browser's single precision tells half a pixel

  explicit TimelineRows(const ReportInput& input);

  double longest;         // s, of the axis
  double seconds_per_px;  // at zoom 1
  double most_zoom;       // a whole number
};

// timeline_rows() draws one plan's rows with labels and axis as a part of a page; timeline_names() draws the names of
// the rows, which stand beside them. The page's script reads attributes of groups. It shows a group at zooms from
// data-from to below data-to; the texts of a group with data-x stand in the kStretch pixels from there on; the outlines
// of a group with data-border have borders from that zoom on. The rectangle "lit" frames the operation pointed at.
[[nodiscard]] std::string timeline_rows(const RealisedPlan& plan, const Timeline& timeline, const PowerScale& power,
                                        const TimelineRows& rows);
[[nodiscard]] SvgCanvas timeline_names(const ComputationDag& dag);

// Returns the timelines before and after as an element of a page, with the data that web/timeline.js shows for the
// operation pointed at. Without scripts the element can still be scrolled.
[[nodiscard]] std::string timeline_view(const ReportInput& input);

}  // namespace flyball
