// Writes the tables of the report as HTML.
#pragma once

#include <string>

#include "report/report.h"

namespace flyball {

// Compares all-maximum clocks with the chosen plan: time, energy and its parts, power, clock changes.
[[nodiscard]] std::string before_after_table(const ReportInput& input);
// Shows the plan that each planner proposes. The text is empty with fewer than two planners.
[[nodiscard]] std::string planner_table(const ReportInput& input);
// Shows about twenty points of the chosen planner's frontier, among them T_min, T* and other points that have a name.
[[nodiscard]] std::string frontier_table(const ReportInput& input);
// Shows the chosen clocks per stage and instruction, and how often each is used.
[[nodiscard]] std::string clock_table(const ReportInput& input);
// Shows the rows of ReportInput::summary.
[[nodiscard]] std::string summary_table(const ReportInput& input);

}  // namespace flyball
