// From plan to bill: what a planned pipeline's whole run takes against all-maximum clocks, and what a simulated
// cluster's jobs took.
#pragma once

#include <optional>
#include <string>
#include <CLI/CLI.hpp>

#include "base/units.h"
#include "forecast/bill.h"

namespace flyball {

struct PlanBillOptions {
  std::optional<std::string> file;
  std::optional<int> point;
  std::optional<double> slower_pct;
  std::optional<double> iterations;
  std::optional<int> pipelines;
  std::optional<int> tensor_parallel;
};

void add_plan_options(CLI::App& command, PlanBillOptions& options);
// Throws UsageError for options that contradict each other.
void check_plan_options(const PlanBillOptions& options);

[[nodiscard]] EnergySheet sheet_of_plan(const PlanBillOptions& options);

// Of `flyball cluster simulate --format json`: policy, energy_j, makespan_s; per policy where there are several.
[[nodiscard]] EnergySheet sheet_of_cluster(const std::string& file);

}  // namespace flyball
