// The files, other than RUN.toml, that a forecast is made from: a plan, whose whole run is compared with one at maximum
// clocks; the result of a simulated cluster; and a power trace.
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

// Reads what `flyball cluster simulate --format json` prints: policy, energy_j, makespan_s. `against`, where given, is
// another such result of the same jobs, for example under another policy; it becomes the baseline of the sheet.
[[nodiscard]] EnergySheet sheet_of_cluster(const std::string& file, const std::optional<std::string>& against);

// Reads a power trace in any form that `flyball account` reads. Throws InputError where readings are missing for more
// than one per cent of a device's time, or a power is negative.
[[nodiscard]] Recording read_recording(const std::string& file);

}  // namespace flyball
