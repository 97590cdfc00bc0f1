// What of a GPU is its operator's: the bounds that no lease passes, and what holds while nobody has a lease, where its
// driver cannot be asked.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "base/units.h"
#include "wire/agent_messages.h"

namespace flyball {

// Of a power limit, and of the upper clock of a lock: the one that work then runs at.
struct GpuBounds {
  std::optional<Watts> least_power;
  std::optional<Watts> most_power;
  std::optional<Megahertz> least_sm_clock;
  std::optional<Megahertz> most_sm_clock;
  std::optional<Megahertz> least_memory_clock;
  std::optional<Megahertz> most_memory_clock;

  bool operator==(const GpuBounds&) const = default;
  [[nodiscard]] bool has_sm_clock(Megahertz clock) const;
  [[nodiscard]] bool has_memory_clock(Megahertz clock) const;
};

struct GpuRules {
  GpuBounds bounds;
  // What a lease's end brings back. Locked clocks can be set and not read: without a word here they are the driver's
  // own. The power limit is read before a lease first sets it, and the lower of the two counts.
  GpuSettings outside;
};

// Of every GPU of a node.
struct NodeRules {
  GpuRules every;                          // of those that stand not in the next
  std::map<std::size_t, GpuRules> of_gpu;  // by index, instead of the above

  [[nodiscard]] const GpuRules& of(std::size_t gpu) const;
};

// Throws LeaseRefused (kForbidden) with the bounds for a change that passes them. What resets passes none.
void check_bounds(const GpuBounds& bounds, std::size_t gpu, const SettingsChange& change);

}  // namespace flyball
