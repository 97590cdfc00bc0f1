// Pipeline-parallel jobs in the cluster, whose speeds are the points of their planner's frontier. The number of their
// GPUs is fixed, but a scheduler chooses their iteration time, so that a change of the cluster's budget moves them
// along the frontier.
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

// Returns at most `most` points of the frontier (two at least), from the point of least energy to the fastest, as
// speeds of a job. The job has `pipelines` pipelines, which run in lock step and take that many times the energy. The
// frontier must not be empty.
[[nodiscard]] std::vector<IterationCost> frontier_speeds(const Frontier& frontier, int pipelines,
                                                         std::size_t most = kMostPipelineSpeeds);

// Reads jobs from CSV with the columns `submit_time,profile,microbatches,pipelines,iterations`. A job trains
// `pipelines` equal 1F1B pipelines in data parallel. Each has one GPU per stage of the profile (a path relative to the
// CSV's folder) and is planned by Perseus unless `speeds` says otherwise. Each pair of profile and microbatches is
// planned once. Throws InputError with line and column, also for a number of GPUs that is no power of two, and what
// planning throws.
[[nodiscard]] std::vector<PipelineJob> read_pipeline_jobs(const std::filesystem::path& path,
                                                          PipelineSpeeds speeds = PipelineSpeeds::kFrontier);

}  // namespace flyball
