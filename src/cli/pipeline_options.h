// The options that say what is to be planned: a profile, a pipeline, and how finely. The commands that plan share them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "pipeline/computation_dag.h"
#include "pipeline/pipeline_spec.h"
#include "plan/expected_saving.h"
#include "plan/planner.h"
#include "profile/profile.h"

namespace flyball {

struct PipelineOptions {
  std::string profile;
  std::optional<std::string> pipeline_file;
  std::optional<int> microbatches;
  std::optional<std::string> schedule;
  std::optional<int> chunks;
  std::optional<double> split_backward;
  std::optional<ClocksAsked> clocks_asked;
  std::optional<std::vector<Watts>> blocking_power;
  std::optional<std::vector<int>> memory_limit;
  std::optional<int> data_parallel;
  std::optional<int> tensor_parallel;
  std::optional<Seconds> unit_time;
  std::optional<std::string> cost_model;
  std::optional<double> noise_pct;
};

// Adds the options to a command; `options` must outlive its parsing.
void add_pipeline_options(const Command& command, PipelineOptions& options);

// A profile and the pipeline that runs it, ready to be planned. Not movable: the problem points at the DAG.
struct LoadedPipeline {
  LoadedPipeline(Profile measured, PipelineSpec stated, const PipelineOptions& options);
  LoadedPipeline(const LoadedPipeline&) = delete;
  LoadedPipeline& operator=(const LoadedPipeline&) = delete;

  Profile profile;
  PipelineSpec spec;
  ComputationDag dag;
  PlanProblem problem;
  MeasurementNoise noise;

  // Returns "gpt3.csv: 4 stages, 128 microbatches, 1f1b", for headings.
  [[nodiscard]] std::string title() const;
};

// Reads the files; an option on the command line overrides what the pipeline file says. Throws UsageError for options
// that contradict each other or the pipeline file, and what the readers throw.
[[nodiscard]] std::unique_ptr<LoadedPipeline> load_pipeline(const PipelineOptions& options,
                                                            const InterruptGuard& guard);

// Returns the pipeline in 1F1B's order with whole backwards, if it has backwards in two parts and the profile can tell
// what whole ones take; else null. Memory is not limited.
[[nodiscard]] std::unique_ptr<LoadedPipeline> load_whole_backwards(const LoadedPipeline& pipeline,
                                                                   const PipelineOptions& options);

// Reads a profile by its path; "-" is standard input. Throws what the reader throws, and Interrupted.
[[nodiscard]] Profile load_profile(const std::string& path, const InterruptGuard& guard);

}  // namespace flyball
