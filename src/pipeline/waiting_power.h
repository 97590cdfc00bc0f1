// What stages draw while they wait, as build_dag() puts it into a DAG.
#pragma once

#include <vector>

#include "base/units.h"
#include "pipeline/computation_dag.h"
#include "pipeline/pipeline_spec.h"
#include "profile/profile.h"

namespace flyball {

// Returns the power at a clock, on straight lines between the measured ones and constant beyond. Requires that there is
// one, and that their clocks rise.
[[nodiscard]] Watts power_at(const std::vector<PowerAtClock>& measured, Megahertz clock);

// Throws UsageError where the blocking powers are neither one nor one for each stage.
void check_blocking(const PipelineSpec& spec, int stages);

// Adds what waiting draws above the blocking power after each operation. If powers are stated, or waiting takes the
// same at all clocks, there is nothing to add. An operation without a choice keeps the clock, unless its stage has no
// other.
void add_waiting_above(ComputationDag& dag, const PipelineSpec& spec, const Profile& profile);

}  // namespace flyball
