// A pipeline as the user states it (command line or TOML), and the DAG that follows from it and a profile.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "pipeline/computation_dag.h"
#include "pipeline/schedule.h"
#include "profile/profile.h"

namespace flyball {

// The power of a blocked GPU where it is neither stated nor measured; it is about 70-75 W on the data-centre boards of
// the Zeus manual.
inline constexpr Watts kDefaultBlockingPower{75.0};

// A higher power is taken for a mistaken unit, in pipeline files and wherever else powers are read.
inline constexpr double kMostBlockingWatts = 1e6;

// Something that takes the same time whatever the clock.
struct ConstantOperation {
  explicit ConstantOperation(Seconds everywhere, std::optional<Joules> whole = std::nullopt) : time{everywhere} {
    if (whole) energy = {*whole};
  }
  ConstantOperation(std::vector<Seconds> times, std::vector<Joules> energies)
      : time(std::move(times)), energy(std::move(energies)) {}

  // One time for all, or one per stage; of transfers, one per link (link k joins stages k and k + 1; the one back from
  // the last stage to the first, which only chunks need, comes last). Among several, 0 s says that there is none.
  std::vector<Seconds> time;
  // Energy of the GPU while it runs, likewise. Where it is not stated, a transfer takes none of its own (its stage is
  // charged as blocking meanwhile), and any other operation draws the stage's blocking power.
  std::vector<Joules> energy;
};

// Reads a memory limit: a number of microbatches ("9"), or the memory that a stage has for activations, a slash, and
// the memory that the activations of one microbatch take ("60GB/6.4GB", which gives 9). Returns nullopt where it is
// neither, or where not one fits or more than kMostOperations do.
[[nodiscard]] std::optional<int> parse_memory_limit(std::string_view text);

// The share of a backward's time and energy that is taken for the gradient of the weights if a profile has whole
// backwards. The products of a transformer's layers cost the same for either gradient; attention and recomputation
// belong to that of the activations and make the share smaller (Zero Bubble, ICLR'24, table 1).
inline constexpr double kUsualWeightShare = 0.5;

struct PipelineSpec {
  ScheduleKind schedule = ScheduleKind::k1f1b;
  int stages = 0;  // 0: as many as the profile has
  int microbatches = 0;
  int chunks = 1;
  // As stated: one for all stages, or one per stage; empty where it is not.
  std::vector<Watts> blocking_power;
  // The share of each backward's time and energy that its weight gradient takes, above 0 and below 1, at every clock.
  // Operations "backward_input" and "backward_weight" that a profile has are taken as they are. Where a share is
  // stated, 1F1B runs backwards in these two parts, too, back to back.
  std::optional<double> split_backward;
  // Microbatches whose activations fit into a stage's memory: one for all stages, or one per stage; empty where
  // unknown.
  std::vector<int> memory_limit;
  int data_parallel = 1;
  int tensor_parallel = 1;
  // Constant-time operations; where one is not given, the profile's rows of the same name count.
  std::optional<ConstantOperation> p2p;             // on every edge between stages
  std::optional<ConstantOperation> data_load;       // before every forward of the first stage, or of those named
  std::optional<ConstantOperation> gradient_sync;   // after the last backward of every stage
  std::optional<ConstantOperation> optimizer_step;  // after gradient_sync
  // When the engine that runs the plan asks for clocks; this says at which clock stages wait.
  ClocksAsked clocks_asked = ClocksAsked::kWhenFree;
  // Whether a transfer occupies the stage that sends as well as the one that receives: it begins when both have come to
  // it, and both go on when it has ended. Otherwise it delays the receiver alone.
  bool transfers_occupy_both = false;
  // Explicit DAG (JSON) in place of a schedule; empty when unused.
  std::string dag_file;

  // Returns the power of a stage while it waits: as stated, else the lowest that was measured with the profile, else
  // the default. What higher clocks take above the lowest is in the DAG (OperationType::waiting_above).
  [[nodiscard]] Watts blocking(int stage, const Profile& profile) const;
  // Returns the same for all stages. Throws UsageError where another number of powers is stated.
  [[nodiscard]] std::vector<Watts> blocking_powers(int stages, const Profile& profile) const;
};

// What a GPU draws while it waits, by the clock that it holds: on A100s 127 to 145 W at the highest clock and some 95 W
// at planned ones (docs/measured-tables.md).
struct PowerAtClock {
  Megahertz clock;
  Watts power;
};

// Returns the stage's rows `waiting` in the profile by rising clock, smoothed so that power never falls with the clock
// (isotonic regression, by pooling adjacent violators): noise makes no clock cheap. Where a row has no clock (0 MHz),
// the mean of all, at 0 MHz. Empty where there are no such rows.
[[nodiscard]] std::vector<PowerAtClock> measured_waiting(const Profile& profile, int stage);

// Returns sentences on odd blocking powers: one that is stated differs by more than 5 % from the measured one, or a
// waiting GPU would draw more than an operation does.
[[nodiscard]] std::vector<std::string> blocking_warnings(const PipelineSpec& spec, const Profile& profile,
                                                         const ComputationDag& dag);

// Reads a pipeline file; docs/formats/pipeline-file.md gives its keys. A relative dag_file is taken relative to `path`.
// Keys that the file does not have keep their default: microbatches then stay 0, and the caller must ask for them.
// Throws InputError with line and column for unknown keys, wrong types and values out of range. Files are limited to 1
// MiB.
[[nodiscard]] PipelineSpec read_pipeline_file(const std::filesystem::path& path);
[[nodiscard]] PipelineSpec read_pipeline(const std::string& source, std::string_view text);

// Makes the DAG of one iteration. A whole backward that the profile lacks is made of its two parts, where it has both
// without labels: at each clock that both were measured at, it takes the sum. Throws InputError when the profile lacks
// an operation that the schedule needs, UsageError for shapes that the schedule does not allow (make_schedule), for
// chunks with transfers that occupy both, for constant operations that state neither one time nor one for each stage or
// link, for a split_backward with other schedules than 1F1B and ZB-H1.
[[nodiscard]] ComputationDag build_dag(const PipelineSpec& spec, const Profile& profile);

// Tells whether build_dag() runs backwards in two parts, of which the gradient of the activations goes ahead.
[[nodiscard]] bool splits_backward(const PipelineSpec& spec);
// Returns whether it does so, the profile has whole ones, and no share is stated by which to split them.
[[nodiscard]] bool lacks_weight_share(const PipelineSpec& spec, const Profile& profile);

// Returns the pipeline in 1F1B's order with whole backwards, as most frameworks run it.
[[nodiscard]] PipelineSpec with_whole_backwards(PipelineSpec spec);

// Reads an explicit DAG: {"stages": N, "computations": [{"name", "stage", "instruction", "microbatch"?, "chunk"?,
// "after"?: [name, ...]}]} with options from the profile by (stage, instruction); docs/formats/dag.md has the details.
// A stage runs its computations in the order in which they are listed; "p2p" operations do not occupy it and are free
// of that order. Throws InputError (line and column of the JSON, and the name of the computation) for syntax errors,
// unknown or repeated names, computations that depend on themselves, cycles, operations that the profile lacks, more
// than kMostOperations computations or dependencies. Cost: linear in the text.
[[nodiscard]] ComputationDag read_dag(const std::string& source, std::string_view json, const Profile& profile);

}  // namespace flyball
