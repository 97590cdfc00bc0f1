// Timelines: the picture in a file of its own (timeline_picture.cpp), and the data of the one that a page draws
// (timeline_view.cpp).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "draw/svg_canvas.h"
#include "report/report.h"

namespace flyball {

// Returns the option at which an operation runs under a plan.
[[nodiscard]] const ClockOption& option_of(const RealisedPlan& plan, int operation);

// Returns what an option sets, "1410 MHz, sm=12"; empty if it has neither clock nor labels.
[[nodiscard]] std::string setting_text(const OperationType& type, std::size_t option);

// Returns the option's energy over its time; zero for options that take no time.
[[nodiscard]] Watts mean_power(const ClockOption& option);

// Returns "F12" for an operation that is called "F12 stage 3".
[[nodiscard]] std::string short_label(const ComputationDag& dag, int operation);

// Returns "perseus: 5.432 s, 6 543 J (+0.10 % time, -13.2 % energy)", compared with `than`; without the comparison if
// `than` is null.
[[nodiscard]] std::string plan_heading(const RealisedPlan& plan, const RealisedPlan* than);

// Returns "blocking, 75 W", or the range of powers if they differ between stages or clocks.
[[nodiscard]] std::string blocking_label(const PlanProblem& problem);

// Returns the time of the longer of the two iterations, at least a nanosecond.
[[nodiscard]] Seconds longest_iteration(const ReportInput& input);

// Returns the timelines before and after as an element of a page, which draws these and those of the other plans on the
// frontiers (web/plan_timeline.js). It needs scripts; timeline_picture() does not.
[[nodiscard]] std::string timeline_view(const ReportInput& input);

}  // namespace flyball
