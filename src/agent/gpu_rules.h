// The operator's rules for a GPU: the bounds that no lease may exceed, and the settings that hold while nobody has a
// lease, where the driver cannot be asked for them.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "base/units.h"
#include "wire/agent_messages.h"

namespace flyball {

// Bounds of a power limit, and of the upper clock of a locked range: the clock that work then runs at.
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
  // The settings that the end of a lease brings back. Locked clocks can be set but not read, so that those not named
  // here are reset to the driver's default. The power limit is read before a lease first sets it; the lower of that and
  // the one named here counts.
  GpuSettings outside;
};

// The rules for all GPUs of a node.
struct NodeRules {
  GpuRules every;                          // for GPUs that `of_gpu` does not name
  std::map<std::size_t, GpuRules> of_gpu;  // by index; replaces `every`

  [[nodiscard]] const GpuRules& of(std::size_t gpu) const;
};

// Throws LeaseRefused (kForbidden), which names the bounds, for a change that exceeds them. A reset never does.
void check_bounds(const GpuBounds& bounds, std::size_t gpu, const SettingsChange& change);

}  // namespace flyball
