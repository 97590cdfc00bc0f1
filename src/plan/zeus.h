// The baselines that other planners are compared with. Each gives a stage one clock for the whole iteration. Where a
// profile has power limits, in place of clocks or beside them, Zeus's planners give it one limit, too: "clock" below is
// the pair.
#pragma once

#include <memory>

#include "plan/planner.h"

namespace flyball {

// Planner `max`: every computation runs at the highest clock, as it does without a plan. The frontier has one point.
[[nodiscard]] std::unique_ptr<Planner> make_max();

// Planner `uniform`: every computation runs at the energy valley of its stage (EnvPipe section 6.1, Uniform). The
// frontier has one point.
[[nodiscard]] std::unique_ptr<Planner> make_uniform();

// Planner `zeus-global`: all stages run at one clock; every measured clock is tried (Perseus section 6.4, ZeusGlobal,
// with clocks in place of power limits). An operation that was not measured at a clock runs at the nearest clock at
// which it was.
[[nodiscard]] std::unique_ptr<Planner> make_zeus_global();

// Planner `zeus-per-stage`: all stages are given a common forward time, and each runs at the lowest clock whose forward
// meets it. Every measured forward time is tried, from the fastest that the slowest stage can reach (Perseus section
// 6.4, ZeusPerStage). This balances the forwards of the stages, and disregards backwards and the critical path. A stage
// without a `forward` that has a choice of clocks stays at its highest clocks.
[[nodiscard]] std::unique_ptr<Planner> make_zeus_per_stage();

}  // namespace flyball
