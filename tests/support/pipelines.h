// Small profiles and pipelines for planner tests.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "pipeline/computation_dag.h"
#include "pipeline/pipeline_spec.h"
#include "plan/planner.h"
#include "profile/profile.h"

namespace flyball::testing {

// {MHz, s, J}, highest clock first.
using OptionRow = std::array<double, 3>;

inline OperationProfile operation(int stage, std::string instruction, const std::vector<OptionRow>& rows) {
  OperationProfile profile{stage, std::move(instruction), {}, 0};
  for (const OptionRow& row : rows) profile.options.push_back({Megahertz(row[0]), Seconds(row[1]), Joules(row[2])});
  return profile;
}

inline Profile profile_of(std::vector<OperationProfile> operations) {
  Profile profile{"test profile", 0, std::move(operations)};
  for (const OperationProfile& op : profile.operations) profile.stages = std::max(profile.stages, op.stage + 1);
  return profile;
}

// A compute-bound operation on a made-up GPU of 1410 MHz in steps of 15: time t0 / x and power 180 W + 120 W * x^8 at
// x = clock / 1410 MHz. Gross energy is least at x = (180 / (7 * 120))^(1/8) = 0.825, a stretch of 21 %, where it is
// 16 % below that at the maximum.
inline OperationProfile modelled_operation(int stage, std::string instruction, double seconds_at_max) {
  std::vector<OptionRow> rows;
  for (int mhz = 1410; mhz >= 705; mhz -= 15) {
    const double x = mhz / 1410.0;
    const double time = seconds_at_max / x;
    rows.push_back({static_cast<double>(mhz), time, (180.0 + 120.0 * std::pow(x, 8)) * time});
  }
  return operation(stage, std::move(instruction), rows);
}

// A stage per entry: its forward takes that long at the maximum clock, its backward twice as long.
inline Profile modelled_profile(const std::vector<double>& forward_seconds) {
  std::vector<OperationProfile> operations;
  for (std::size_t s = 0; s < forward_seconds.size(); ++s) {
    operations.push_back(modelled_operation(static_cast<int>(s), "forward", forward_seconds[s]));
    operations.push_back(modelled_operation(static_cast<int>(s), "backward", 2.0 * forward_seconds[s]));
  }
  return profile_of(std::move(operations));
}

inline ComputationDag dag_of(const Profile& profile, int microbatches, ScheduleKind schedule = ScheduleKind::k1f1b) {
  PipelineSpec spec;
  spec.schedule = schedule;
  spec.microbatches = microbatches;
  return build_dag(spec, profile);
}

inline PlanProblem problem_of(const ComputationDag& dag, Watts blocking = kDefaultBlockingPower) {
  return make_problem(dag, std::vector<Watts>(static_cast<std::size_t>(dag.stages()), blocking), 1'000'000,
                      CostModel::kHull);
}

// ZB-H1 of a profile with whole backwards, of which this share is the weight gradient.
inline ComputationDag split_dag_of(const Profile& profile, int microbatches, double share = 0.5,
                                   ScheduleKind schedule = ScheduleKind::kZbH1) {
  PipelineSpec spec;
  spec.schedule = schedule;
  spec.microbatches = microbatches;
  spec.split_backward = share;
  return build_dag(spec, profile);
}

// The operation's number, by what it does; -1 when there is none.
inline int find_operation(const ComputationDag& dag, int stage, std::string_view instruction, int microbatch) {
  for (int i = 0; i < dag.size(); ++i) {
    if (dag.type_of(i).stage == stage && dag.type_of(i).instruction == instruction && dag[i].microbatch == microbatch) {
      return i;
    }
  }
  return -1;
}

// A stage's order as "F0 F1 B0 B1", with I and W for the gradients of activations and weights.
inline std::string order_of(const ComputationDag& dag, int stage) {
  std::string text;
  for (const int i : dag.stage_order(stage)) {
    if (!text.empty()) text += ' ';
    const std::string& instruction = dag.type_of(i).instruction;
    text += instruction == "forward"           ? 'F'
            : instruction == "backward_input"  ? 'I'
            : instruction == "backward_weight" ? 'W'
                                               : 'B';
    text += std::to_string(dag[i].microbatch);
  }
  return text;
}

}  // namespace flyball::testing
