// How many stages a pipeline of a file may have.
#pragma once

namespace flyball {

// Profiles and pipeline files may have as many; what is planned with them has bounds of its own (kMostOperations, and
// of a job of the planning server kMostStages). It keeps a slip of the pen from filling the memory.
inline constexpr long kMostStagesOfFile = 100'000;

}  // namespace flyball
