// What the still timeline (timeline_picture.cpp) and the one that can be zoomed (timeline_view.cpp) have in common.
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

// The still picture.
[[nodiscard]] SvgCanvas timeline_canvas(const ReportInput& input, int width);

// The timeline as a block of HTML with its data: zoomed and moved by timeline_script(), and the still picture where
// scripts do not run.
[[nodiscard]] std::string timeline_view(const ReportInput& input);
[[nodiscard]] std::string_view timeline_script();

}  // namespace flyball
