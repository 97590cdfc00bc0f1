// Which pipelines of a job are so much alike that they share a plan (docs/decisions/0073-plans-of-pipelines.md).
//
// A plan for all pipelines takes each stage to be as slow as its slowest rank, so that one slow GPU makes every
// pipeline as slow as its own. With plans of their own, the other pipelines know that they have time until the slow one
// is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/measurements.h"
#include "wire/job_messages.h"

namespace flyball {

// Pipelines are alike if no computation of a stage takes longer on one than on the other by more than this share, or by
// more than kDifferenceDeviations standard errors, if that is more.
inline constexpr double kAlikeShare = 0.01;
inline constexpr double kDifferenceDeviations = 5.0;

// Returns the group of each pipeline, from 0: at most `most` groups, and one where all are alike. What is compared is,
// for each computation of a stage, the mean over its clocks of the logarithm of its time over the median of all
// pipelines. Its standard error follows from how much these logarithms differ from clock to clock, over all ranks.
// Where more groups would be needed, those that differ most have groups of their own, and the others join the nearest.
// What a pipeline has not measured is taken to be usual. Deterministic. Cost: that of sorting all measurements, and
// linear in groups * pipelines * stages.
[[nodiscard]] std::vector<int> group_pipelines(const std::vector<RankMeasurements>& ranks, int pipelines,
                                               std::size_t most);

// Returns the measurements of a group. A stage that no rank of it has measured is taken from all pipelines.
[[nodiscard]] std::vector<RankMeasurements> ranks_of_group(const std::vector<RankMeasurements>& ranks,
                                                           const std::vector<int>& group_of, int group);

// Returns how many plans a job's pipelines may have between them: 8 at most, fewer where they would take more than some
// 15 s to make (expected_planning_time()), or have more than `operations` together.
[[nodiscard]] std::size_t most_own_plans(const JobRequest& request, std::int64_t operations);

}  // namespace flyball
