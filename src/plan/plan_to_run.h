// A plan as a job runs it that did not have it made: what each stage is to set, read from a plan file, and whether that
// fits the job. Record 64 says what is run of a plan's labels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "pipeline/computation_dag.h"
#include "pipeline/pipeline_spec.h"
#include "plan/frontier.h"
#include "plan/stage_orders.h"

namespace flyball {

struct PlannedComputation {
  std::string instruction;  // as frameworks announce it, without a chunk's suffix
  int microbatch = 0;       // of a list of clocks only after fit_to_job(), and so the chunk
  int chunk = 0;
  int clock_mhz = 0;            // 0: leaves the clock as it is
  PostedTransfers transfers{};  // before it, of those that occupy both stages (stage_orders.h); all 0: none is known

  bool operator==(const PlannedComputation&) const = default;
};

struct PlanToRun {
  struct Stage {
    std::vector<PlannedComputation> computations;  // in the order in which the stage runs them
    std::optional<Watts> power_limit;              // that all of them have
  };
  std::string source;  // the file, for messages
  std::vector<Stage> stages;
  std::size_t point = 0;         // of the file's frontier
  bool knows_operations = true;  // false of a list of clocks: it has instructions in their order, and nothing else
  // Of an iteration by the plan and with everything at its highest clock, in the plan's order; 0: the file does not
  // say.
  Seconds time;
  Seconds max_clock_time;
  Joules energy;
  // 0 for the order of the job's schedule, see fit_to_job(); else a number that all stages have for this order.
  std::int64_t order = 0;
};

// Reads the point of a plan file (plan_file.h) that is marked as selected, or its first, or a list of clocks as Zeus
// runs it and Perseus and Kareus write it (zeus_frequencies.h), which says nothing of time and energy. Throws
// InputError where the text is neither, where it has no point, and where computations of a stage have different power
// limits: a board may take longer to obey a limit than computations last.
[[nodiscard]] PlanToRun read_plan_to_run(const std::string& source, std::string_view text);
[[nodiscard]] PlanToRun read_plan_to_run(const std::filesystem::path& path);

// What a job can run of a plan in another order than its schedule's.
struct OrderAbility {
  bool executes_order = false;    // computations in that order
  bool places_transfers = false;  // and transfers that occupy both stages where the plan posts them
};

// Compares the plan with what the job runs: its schedule, stages, microbatches and chunks. A plan in another order gets
// the number of that order. Throws InputError, which says what is different or what the job cannot run.
void fit_to_job(PlanToRun& plan, const PipelineSpec& job, const OrderAbility& can);

// Returns the plan as one of the DAG's options, for what it will take on another profile: at each computation's clock
// and its stage's power limit, of several such options the fastest. Throws InputError where the profile has no such
// option, or the DAG other computations.
[[nodiscard]] ClockPlan plan_on(const PlanToRun& plan, const ComputationDag& dag);

// The least and the highest power limit that may be set on a board.
struct PowerLimitBounds {
  Watts minimum;
  Watts maximum;
};

// Throws InputError where the stage's board cannot be set to a clock of the plan (`clocks` has those that can be,
// highest first; empty: unknown), or to its power limit.
void check_board(const PlanToRun& plan, int stage, std::span<const Megahertz> clocks,
                 const std::optional<PowerLimitBounds>& limits);

}  // namespace flyball
