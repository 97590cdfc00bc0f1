// The options that say which cluster runs which jobs; the commands of flyball cluster share them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cluster/ground_truth.h"
#include "cluster/job_trace.h"
#include "cluster/measurements.h"
#include "cluster/pipeline_jobs.h"
#include "cluster/simulator.h"
#include "profile/gpu_model.h"

namespace flyball {

struct ClusterOptions {
  SimulationSetup setup;  // what has no option of its own below
  std::string trace;
  std::optional<std::string> table;
  std::optional<std::string> pipelines;
  std::optional<PipelineSpeeds> pipeline_speeds;
  std::optional<double> eta;
  std::optional<Knowledge> knowledge;
  std::optional<Seconds> profiling;
  std::optional<Seconds> wake;
  std::optional<Seconds> off_after;
  bool no_node_shutdown = false;
  std::optional<double> clock;
  std::optional<double> zeus_eta;
  bool no_packing = false;
};

void add_cluster_options(const Command& command, ClusterOptions& options);

struct ClusterInput {
  SimulationSetup setup;
  GroundTruth truth;
  JobTrace trace;
  PolicyOptions policy;
};

// Reads the files that the options name. Throws what the readers throw.
[[nodiscard]] ClusterInput load_cluster(const ClusterOptions& options);

// Some options have an effect under some policies only. A field is set where at least one of the given policies heeds
// the option.
struct HeededOptions {
  bool clock = false;
  bool eta = false;
  bool zeus_eta = false;
  bool learning = false;  // --knowledge and --profiling
  bool packing = false;
};
[[nodiscard]] HeededOptions heeded_options(const std::vector<std::string>& policies);

// Warns of an option that was given and changes nothing: `why` follows "--x has no effect".
void warn_if_ignored(std::string_view option, bool given, bool heeded, std::string_view why);
// Warns of each option of ClusterOptions that was given and that none of the policies heeds.
void warn_of_ignored_options(const ClusterOptions& options, const HeededOptions& heeded);

inline constexpr std::string_view kForOneClock = "; it is for policies that choose no clocks";
inline constexpr std::string_view kForBudgets = "; it is for policies that keep a power budget";
inline constexpr std::string_view kForZeus = "; it is for policies with Zeus's clocks";

[[nodiscard]] double parse_eta(std::string_view option, std::string_view text);       // above 0, to 10
[[nodiscard]] double parse_zeus_eta(std::string_view option, std::string_view text);  // from 0 to 1

// Reads job measurements that were taken on GPUs of that model. Throws InputError for a clock that the GPU does not
// have, and what the reader throws.
[[nodiscard]] MeasurementSet read_measurements_of(const GpuModel& gpu, const std::string& path);

// `flyball cluster compare`.
void add_cluster_compare_command(const Command& parent, const std::string& command_line);

// `flyball cluster run|status|submit|keeps|budget`, on a real cluster.
void add_cluster_run_commands(const Command& parent);
void add_cluster_submit_command(const Command& parent);
void add_cluster_keeps_command(const Command& parent);

// The controller's: that which was given, or what the environment names, or else where it listens by itself.
[[nodiscard]] std::string controller_address(const std::optional<std::string>& given);

// `flyball cluster report`, of a real cluster's jobs.
void add_cluster_report_command(const Command& parent);

// `flyball cluster trace synth|convert`.
void add_cluster_trace_command(const Command& parent);

}  // namespace flyball
