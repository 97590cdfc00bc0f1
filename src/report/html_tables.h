// The tables of the report, as HTML.
#pragma once

#include <string>

#include "report/report.h"

namespace flyball {

// All-maximum clocks and the chosen plan: time, energy and its parts, power, clock switches.
[[nodiscard]] std::string before_after_table(const ReportInput& input);
// The plan that each planner proposes. Empty with fewer than two planners.
[[nodiscard]] std::string planner_table(const ReportInput& input);
// About twenty points of the chosen planner's frontier, among them T_min, T* and other points that have a name.
[[nodiscard]] std::string frontier_table(const ReportInput& input);
// The chosen clocks per stage and instruction, and how often each is used.
[[nodiscard]] std::string clock_table(const ReportInput& input);
[[nodiscard]] std::string summary_table(const ReportInput& input);

}  // namespace flyball
