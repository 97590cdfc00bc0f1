// A bound that is not set allows everything. The upper end of a clock range is compared with the bounds.
#include "agent/gpu_rules.h"

#include <fmt/format.h>

#include "agent/lease_table.h"

namespace flyball {
namespace {

template <class Value>
bool within(const std::optional<Value>& least, const std::optional<Value>& most, Value value) {
  return (!least || value >= *least) && (!most || value <= *most);
}

template <class Value>
void check(const std::optional<Value>& least, const std::optional<Value>& most, Value value, std::size_t gpu,
           const char* what, const char* unit) {
  if (within(least, most, value)) return;
  std::string allowed;
  if (least && most) {
    allowed = fmt::format("from {:g} to {:g} {}", least->value(), most->value(), unit);
  } else if (least) {
    allowed = fmt::format("of {:g} {} or more", least->value(), unit);
  } else {
    allowed = fmt::format("of {:g} {} or less", most->value(), unit);
  }
  throw LeaseRefused(LeaseRefused::Reason::kForbidden,
                     fmt::format("the agent's configuration gives leases of GPU {} {} {}, not {:g} {}", gpu, what,
                                 allowed, value.value(), unit));
}

}  // namespace

bool GpuBounds::has_sm_clock(Megahertz clock) const { return within(least_sm_clock, most_sm_clock, clock); }
bool GpuBounds::has_memory_clock(Megahertz clock) const { return within(least_memory_clock, most_memory_clock, clock); }

const GpuRules& NodeRules::of(std::size_t gpu) const {
  const auto own = of_gpu.find(gpu);
  return own != of_gpu.end() ? own->second : every;
}

void check_bounds(const GpuBounds& bounds, std::size_t gpu, const SettingsChange& change) {
  if (change.sm_clocks && *change.sm_clocks) {
    check(bounds.least_sm_clock, bounds.most_sm_clock, (*change.sm_clocks)->maximum, gpu, "SM clocks", "MHz");
  }
  if (change.memory_clocks && *change.memory_clocks) {
    check(bounds.least_memory_clock, bounds.most_memory_clock, (*change.memory_clocks)->maximum, gpu, "memory clocks",
          "MHz");
  }
  for (const auto& limit : {change.power_limit, change.lost_power_limit}) {
    if (limit && *limit) check(bounds.least_power, bounds.most_power, **limit, gpu, "power limits", "W");
  }
}

}  // namespace flyball
