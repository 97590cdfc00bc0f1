// What the planners of one clock per stage share: finding a clock among an operation's options, the energy valley, and
// replaying a plan.
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

// The option measured at exactly this clock, or none.
[[nodiscard]] std::optional<std::uint16_t> option_at(const OperationType& type, Megahertz clock);

// Clocks measured by every operation type with a choice on the stage, highest first. Empty when there are none.
[[nodiscard]] std::vector<Megahertz> common_clocks(const ComputationDag& dag, int stage);

// The valley (EnvPipe section 4.2): per stage the clock at which one iteration's computations together take the least
// gross energy, forward and backward under one clock as an online profiler measures them; the higher clock among
// equals. Where the types of a stage share no clock, each has its own valley.
[[nodiscard]] TypeOptions valley_options(const ComputationDag& dag);

// Every operation at its type's option.
[[nodiscard]] ClockPlan plan_of_types(const ComputationDag& dag, std::span<const std::uint16_t> options);

// What a plan really gives on a DAG with the measured options: iteration time and energy net of blocking. No bound.
[[nodiscard]] FrontierPoint replay(const ComputationDag& dag, std::span<const Watts> blocking, const ClockPlan& plan);

}  // namespace flyball
