// Pipeline-parallel jobs for the cluster: their planner's frontier is their energy curve. The allocation is fixed, the
// iteration time is a choice, so a change of the cluster's budget moves them along the frontier like any other job.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/names.h"
#include "cluster/simulator.h"
#include "plan/frontier.h"

namespace flyball {

inline constexpr std::size_t kMostPipelineSpeeds = 32;

// What a scheduler may choose from for a pipeline job.
enum class PipelineSpeeds {
  kFrontier,  // all of it
  kFastest,   // its fast end alone: the plan that costs no time
  kMaxClocks  // no plan: everything at the maximum clocks
};
template <>
inline constexpr auto kNamesOf<PipelineSpeeds> = name_list("frontier", "fastest", "max");

// At most `most` points of the frontier from the least-energy time to the fastest, as speeds of a job of that many
// pipelines (which run in lock step and cost as many times as much). The frontier must have a point.
[[nodiscard]] std::vector<IterationCost> frontier_speeds(const Frontier& frontier, int pipelines,
                                                         std::size_t most = kMostPipelineSpeeds);

// CSV `submit_time,profile,microbatches,pipelines,iterations`: a 1F1B pipeline of one GPU per stage of that profile (a
// path relative to the CSV's folder), planned by Perseus unless `speeds` says otherwise, `pipelines` of them in data
// parallel. Throws InputError with line and column, for GPUs that are no power of two among others, and what planning
// throws. Each profile and number of microbatches is planned once.
[[nodiscard]] std::vector<PipelineJob> read_pipeline_jobs(const std::filesystem::path& path,
                                                          PipelineSpeeds speeds = PipelineSpeeds::kFrontier);

}  // namespace flyball
