// Helpers of the planners: finding a clock among an operation's options, the clock of least energy of each stage, and
// replaying a plan. All functions are pure.
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

// Returns the option that was measured at exactly this clock, or none; the fastest where labels make several.
[[nodiscard]] std::optional<std::uint16_t> option_at(const OperationType& type, Megahertz clock);

// Return the fastest option at the next higher or the next lower clock than an option's, or none.
[[nodiscard]] std::optional<std::uint16_t> one_clock_up(const OperationType& type, std::uint16_t option);
[[nodiscard]] std::optional<std::uint16_t> one_clock_down(const OperationType& type, std::uint16_t option);

// Returns the clocks at which every operation type of the stage with a choice was measured, highest first. There may be
// none.
[[nodiscard]] std::vector<Megahertz> common_clocks(const ComputationDag& dag, int stage);

// Returns the valley of every stage (EnvPipe section 4.2): the clock at which all its computations of one iteration
// together take the least energy, blocking power not taken off. Of clocks with equal energy it is the higher. Forward
// and backward get the same clock, as an online profiler measures them. Where the types of a stage share no clock, each
// type gets the option of its own least energy.
[[nodiscard]] TypeOptions valley_options(const ComputationDag& dag);

// The plan in which every operation runs at the option of its type.
[[nodiscard]] ClockPlan plan_of_types(const ComputationDag& dag, std::span<const std::uint16_t> options);

// Replays a plan with the measured options and returns its iteration time and its energy net of blocking, waiting above
// P_blocking included. The lower bound stays unknown. `blocking` holds one power per stage. Cost: O(nodes + edges).
[[nodiscard]] FrontierPoint replay(const ComputationDag& dag, std::span<const Watts> blocking, const ClockPlan& plan);

// Returns the frontier with the energy that waiting takes above P_blocking (OperationType::waiting_above) added to its
// points, for planners whose own energies leave it out. Plans that another one then beats are dropped. Cost: a replay
// of each plan where some type has such a power, otherwise nothing.
[[nodiscard]] Frontier with_waiting(const ComputationDag& dag, std::span<const Watts> blocking, Frontier frontier);

}  // namespace flyball
