// How often true energies lie inside of the intervals that the accounting states.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "account/attribution_method.h"
#include "support/memory_traces.h"
#include "support/unkind_truth.h"

namespace flyball::testing {

struct Coverage {
  int rows = 0;
  int inside = 0;
  int regressed = 0;  // programs on which the regression stood
  int grouped = 0;    // rows that are in a group
  int groups = 0;
  int groups_inside = 0;
  std::vector<double> widths;        // half of the interval, relative to the energy
  std::vector<double> errors;        // relative to the truth
  std::vector<double> sweep_errors;  // the same by the sweep

  [[nodiscard]] double inside_share() const { return static_cast<double>(inside) / rows; }
  [[nodiscard]] double median_width() const { return median(widths); }
  [[nodiscard]] double median_error() const { return median(errors); }
  [[nodiscard]] double median_sweep_error() const { return median(sweep_errors); }

  static double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  }
};

inline RegressedAttribution account_of(const UnkindTruth& truth, AccountMethod method) {
  const Traces traces = [&truth](const TracePass& pass) {
    MemoryEvents events(truth.events);
    MemoryPower power(truth.readings);
    pass(events, power);
  };
  return attribute_by_method(
      traces,
      {.attribution = {.window = ProfiledWindow{0, truth.readings.back().end}}, .method = method, .sensor_window = {}});
}

inline void add_coverage(Coverage& coverage, const UnkindTruth& truth) {
  const RegressedAttribution account = account_of(truth, AccountMethod::kAuto);
  const RegressedAttribution sweep = account_of(truth, AccountMethod::kSweep);
  if (account.attribution.devices.front().method != AccountMethod::kSweep) ++coverage.regressed;
  std::map<std::uint32_t, double> true_sums;
  for (std::size_t i = 0; i < account.attribution.operations.size(); ++i) {
    const OperationShare& share = account.attribution.operations[i];
    const double energy = truth.energy[share.operation];
    const double off = std::abs(share.energy.value() - energy);
    ++coverage.rows;
    if (off <= share.error.value()) ++coverage.inside;
    coverage.widths.push_back(share.error.value() / energy);
    coverage.errors.push_back(off / energy);
    coverage.sweep_errors.push_back(std::abs(sweep.attribution.operations[i].energy.value() - energy) / energy);
    if (share.group == 0) continue;
    ++coverage.grouped;
    true_sums[share.group] += energy;
  }
  for (const GroupShare& group : account.attribution.groups) {
    ++coverage.groups;
    if (std::abs(group.energy.value() - true_sums[group.group]) <= group.error.value()) ++coverage.groups_inside;
  }
}

// Over `programs` programs of this shape, with other operations each, of the seeds from `first_seed` on.
inline Coverage coverage_of(const UnkindShape& shape, int programs, std::uint64_t first_seed = 1) {
  Coverage coverage;
  for (int i = 0; i < programs; ++i) {
    add_coverage(coverage, make_unkind_truth(shape, first_seed + static_cast<std::uint64_t>(i)));
  }
  return coverage;
}

}  // namespace flyball::testing
