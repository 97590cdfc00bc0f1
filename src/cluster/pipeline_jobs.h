// Pipeline-parallel jobs in the cluster, with their planner's frontier as energy curve. Their GPUs are fixed and their
// iteration time is a choice, so that a change of the cluster's budget moves them along the frontier.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/names.h"
#include "cluster/simulator.h"
#include "plan/frontier.h"

namespace flyball {

inline constexpr std::size_t kMostPipelineSpeeds = 32;

// The speeds from which a scheduler may choose for a pipeline job.
enum class PipelineSpeeds {
  kFrontier,  // the whole frontier
  kFastest,   // only its fastest point: the plan that costs no time
  kMaxClocks  // no plan: everything at maximum clocks
};
template <>
inline constexpr auto kNamesOf<PipelineSpeeds> = name_list("frontier", "fastest", "max");

// At most `most` points of the frontier, from the point of least energy to the fastest, as speeds of a job of that many
// pipelines, which run in lock step and take that many times the energy. The frontier must have a point.
[[nodiscard]] std::vector<IterationCost> frontier_speeds(const Frontier& frontier, int pipelines,
                                                         std::size_t most = kMostPipelineSpeeds);

// Reads CSV `submit_time,profile,microbatches,pipelines,iterations`. Each job is a 1F1B pipeline with one GPU per stage
// of that profile (a path relative to the CSV's folder), planned by Perseus unless `speeds` says otherwise, with
// `pipelines` of them in data parallel. Each pair of profile and microbatches is planned once. Throws InputError with
// line and column, also for a number of GPUs that is no power of two, and as planning does.
[[nodiscard]] std::vector<PipelineJob> read_pipeline_jobs(const std::filesystem::path& path,
                                                          PipelineSpeeds speeds = PipelineSpeeds::kFrontier);

}  // namespace flyball
