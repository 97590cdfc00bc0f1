// From plan to bill: what a planned pipeline's whole run takes against all-maximum clocks, and what a simulated
// cluster's jobs took. And what of a power trace a forecast reads.
#pragma once

#include <optional>
#include <string>
#include <CLI/CLI.hpp>

#include "base/units.h"
#include "forecast/bill.h"
#include "forecast/recording.h"

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

// Of what `flyball cluster simulate --format json` prints: policy, energy_j, makespan_s. With `against`, the result of
// the same jobs otherwise, the sheet has a baseline.
[[nodiscard]] EnergySheet sheet_of_cluster(const std::string& file, const std::optional<std::string>& against);

// A power trace in any form that account reads. Throws InputError where readings are missing for more than one per cent
// of a device's time, or are of negative power.
[[nodiscard]] Recording read_recording(const std::string& file);

}  // namespace flyball
