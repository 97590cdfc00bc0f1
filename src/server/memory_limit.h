// How many microbatches the stages of a job may hold at once, by what its ranks say of their memory
// (docs/decisions/0092-memory-that-ranks-measure.md).
#pragma once

#include <vector>

#include "wire/job_messages.h"

namespace flyball {

// Returns the limit of each stage: of those of its ranks, which must all have told it, the least, but no less than the
// schedule's own order holds, which the ranks run already. A stage of which a rank has not told it gets what the
// schedule's order holds. Returns nothing where no rank has told it, where the job has told a limit itself, and where
// its order cannot change. Cost: linear in the ranks and an iteration's operations.
[[nodiscard]] std::vector<int> limit_of_memory(const JobRequest& job, const std::vector<RankRequest>& ranks);

}  // namespace flyball
