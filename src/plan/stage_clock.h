// What planners share that give each stage one clock: finding a clock among an operation's options, the energy valley,
// and replaying a plan.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/units.h"
#include "pipeline/computation_dag.h"
#include "pipeline/timeline.h"
#include "plan/frontier.h"
#include "plan/planner.h"

namespace flyball {

// One option index for every operation type of a DAG.
using TypeOptions = std::vector<std::uint16_t>;

// The option that was measured at exactly this clock, or none.
[[nodiscard]] std::optional<std::uint16_t> option_at(const OperationType& type, Megahertz clock);

// The clocks at which every operation type of the stage that has a choice was measured, highest first; may be empty.
[[nodiscard]] std::vector<Megahertz> common_clocks(const ComputationDag& dag, int stage);

// The valley (EnvPipe section 4.2): for each stage, the clock at which all computations of one iteration together take
// the least gross energy; of equal clocks the higher. Forward and backward get one clock, as an online profiler
// measures them. Where the types of a stage share no clock, each type gets its own valley.
[[nodiscard]] TypeOptions valley_options(const ComputationDag& dag);

// The plan in which every operation runs at the option of its type.
[[nodiscard]] ClockPlan plan_of_types(const ComputationDag& dag, std::span<const std::uint16_t> options);

// Replays a plan with the measured options: iteration time and energy net of blocking. The lower bound stays unknown.
[[nodiscard]] FrontierPoint replay(const ComputationDag& dag, std::span<const Watts> blocking, const ClockPlan& plan);

// Returns the frontier with what waiting takes above P_blocking (OperationType::waiting_above), for planners whose own
// energies leave it out. Plans that another one then beats are dropped. Cost: a replay of each plan, if there is any
// such power.
[[nodiscard]] Frontier with_waiting(const ComputationDag& dag, std::span<const Watts> blocking, Frontier frontier);

}  // namespace flyball
