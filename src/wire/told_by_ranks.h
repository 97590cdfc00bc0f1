// Parts of what ranks tell and of a job's status: what of them may be slow, why some do not measure themselves, and
// what fits into memory.
#pragma once

#include <cstddef>
#include <string>

#include "base/described.h"
#include "base/names.h"
#include "base/units.h"

namespace flyball {

// What of a rank takes longer than when it was profiled. Transfers are named as their instructions are.
enum class PaceOf {
  kComputing,
  kTransfer,      // activations to the next stage
  kTransferBack,  // gradients to the stage before
  kReduction,     // of the gradients, among the pipelines
};
template <>
inline constexpr auto kNamesOf<PaceOf> = name_list("computing", "p2p", "p2p_back", "gradient_sync");
inline constexpr std::size_t kPacesOfRank = 4;

// A rank that does not measure itself, as it says.
struct UnprofiledRank {
  int rank = 0;
  int pipeline = 0;
  int stage = 0;
  Seconds since_unix;  // since 1970, by the rank's clock
  std::string cause;   // and how to mend it
};

// "rank 3 (pipeline 0, stage 1) does not profile itself, since 2026-11-26T10:00:00Z: its clocks are not set: ..."
[[nodiscard]] std::string text_of(const UnprofiledRank& rank);

[[nodiscard]] Record<UnprofiledRank> description_of(const UnprofiledRank*);

// Where a job's limit on microbatches in flight comes from.
enum class MemoryLimitFrom {
  kNothing,   // there is none
  kRequest,   // the job has told it
  kMeasured,  // its ranks have told how much memory they have, and how much a microbatch takes
};
template <>
inline constexpr auto kNamesOf<MemoryLimitFrom> = name_list("none", "request", "measured");
template <>
inline constexpr auto kUnknownName<MemoryLimitFrom> = MemoryLimitFrom::kNothing;

}  // namespace flyball
