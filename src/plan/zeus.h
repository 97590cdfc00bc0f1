// The simple planners that others are measured against: one clock per stage for the whole iteration.
#pragma once

#include <memory>

#include "plan/planner.h"

namespace flyball {

// `max`: every computation at the highest clock, the default mode of operation. One point.
[[nodiscard]] std::unique_ptr<Planner> make_max();

// `uniform`: every computation at its stage's energy valley (EnvPipe section 6.1, Uniform). One point.
[[nodiscard]] std::unique_ptr<Planner> make_uniform();

// `zeus-global`: one clock for all stages, scanned over all measured clocks (Perseus section 6.4, ZeusGlobal, with
// clocks in place of power limits). An operation that was not measured at the clock takes its nearest.
[[nodiscard]] std::unique_ptr<Planner> make_zeus_global();

// `zeus-per-stage`: per stage the lowest clock whose forward keeps within a common time, scanned over all measured
// forward times from the slowest stage's fastest on (Perseus section 6.4, ZeusPerStage). Balances the stages'
// forwards but knows neither backwards nor the critical path. Requires an operation `forward` on every stage; a stage
// without one stays at its highest clocks.
[[nodiscard]] std::unique_ptr<Planner> make_zeus_per_stage();

}  // namespace flyball
