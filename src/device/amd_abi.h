// What the interfaces of AMD's two libraries have in common. Numbers and structures are the vendor's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flyball {

// Both libraries count their clocks alike.
enum class AmdClock : std::uint32_t { kSystem = 0, kMemory = 4 };

// The list of clocks of AMD SMI and of ROCm SMI from version 6 on. `current` is an index.
struct AmdFrequencies {
  bool has_deep_sleep;
  std::uint32_t count;
  std::uint32_t current;
  std::uint64_t hertz[33];
};
static_assert(sizeof(AmdFrequencies) == 280 && offsetof(AmdFrequencies, hertz) == 16);

}  // namespace flyball
