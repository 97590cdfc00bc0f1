// The options that say which cluster runs which jobs. Shared by the commands of flyball cluster.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include <CLI/CLI.hpp>

#include "cluster/ground_truth.h"
#include "cluster/job_trace.h"
#include "cluster/simulator.h"
#include "profile/gpu_model.h"

namespace flyball {

struct ClusterOptions {
  std::string trace;
  std::optional<int> nodes;
  std::optional<int> gpus_per_node;
  std::optional<std::string> gpu;
  std::optional<std::string> table;
  std::optional<std::string> pipelines;
  std::optional<std::string> pipeline_speeds;
  std::optional<double> eta;
  std::optional<int> seed;
  std::optional<std::string> knowledge;
  std::optional<Seconds> restart;
  std::optional<Seconds> profiling;
  std::optional<double> clock;
  std::optional<double> zeus_eta;
  bool no_packing = false;
};

void add_cluster_options(CLI::App& command, ClusterOptions& options);

struct ClusterInput {
  SimulationSetup setup;
  GroundTruth truth;
  JobTrace trace;
  PolicyOptions policy;
};

// Throws what the readers throw.
[[nodiscard]] ClusterInput load_cluster(const ClusterOptions& options);

[[nodiscard]] double parse_eta(std::string_view option, std::string_view text);       // above 0, to 10
[[nodiscard]] double parse_zeus_eta(std::string_view option, std::string_view text);  // from 0 to 1

// `flyball cluster compare`.
void add_cluster_compare_command(CLI::App& parent, const std::string& command_line);

// `flyball cluster trace synth|convert`.
void add_cluster_trace_command(CLI::App& parent);

}  // namespace flyball
