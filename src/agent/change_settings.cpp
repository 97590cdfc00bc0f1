// What held before a lease is the most power that it may set. The calls are made knob by knob, and each one is noted
// when it has been made, so that a failure between two leaves a true record.
#include "agent/change_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "agent/lease_table.h"
#include "agent/processes.h"

namespace flyball {
namespace {

constexpr Watts kSameLimit{0.001};  // drivers count in milliwatts

}  // namespace

Watts most_power(const GpuDevice& device, const GpuSettings& before) {
  return before.power_limit ? *before.power_limit : device.power_limits().standard;
}

PowerLimitRange power_limits_to_set(const GpuDevice& device, const GpuBounds& bounds, const GpuSettings& before,
                                    bool root) {
  PowerLimitRange limits = device.power_limits();
  limits.minimum = std::max(limits.minimum, bounds.least_power.value_or(limits.minimum));
  limits.maximum = std::min(limits.maximum, bounds.most_power.value_or(limits.maximum));
  if (!root) limits.maximum = std::min(limits.maximum, most_power(device, before));
  return limits;
}

// NVIDIA's boards round to milliwatts, AMD's cut to whole watts.
bool same_limit(Watts told, Watts limit) {
  const Watts whole(std::floor(limit.value()));
  return std::abs((told - limit).value()) <= kSameLimit.value() ||
         std::abs((told - whole).value()) <= kSameLimit.value();
}

void refuse_more_power(const GpuDevice& device, const SettingsChange& change, const GpuSettings& before) {
  if (!change.power_limit || !*change.power_limit) return;
  const Watts held = most_power(device, before);
  const Watts limit = **change.power_limit;
  if (limit <= held + kSameLimit) return;
  throw LeaseRefused(LeaseRefused::Reason::kForbidden,
                     fmt::format("the power limit of {} was {:g} W before this lease, and a lease does not raise it: "
                                 "give at most that, not {:g} W",
                                 device.label(), held.value(), limit.value()));
}

void refuse_beside_others(const GpuDevice& device, uid_t user) {
  const auto other = other_user_on(device, user);
  if (!other) return;
  throw LeaseRefused(LeaseRefused::Reason::kForbidden,
                     fmt::format("{} also runs {}, which is another user's: nothing is set there, unless the agent's "
                                 "configuration allows it (access.slow_others)",
                                 device.label(), *other));
}

void change_settings(GpuDevice& device, const SettingsChange& change, const GpuSettings& before,
                     SettingsChange& applied) {
  if (change.power_limit) {
    const Watts held = most_power(device, before);
    const Watts limit = change.power_limit->value_or(held);
    device.set_power_limit(limit);
    applied.power_limit = limit == held ? std::optional<Watts>() : std::optional<Watts>(limit);
  }
  if (change.sm_clocks) {
    const auto clocks = *change.sm_clocks ? *change.sm_clocks : before.sm_clocks;
    if (clocks) {
      device.lock_sm_clocks(range_of(*clocks));
    } else {
      device.reset_sm_clocks();
    }
    applied.sm_clocks = change.sm_clocks;
  }
  if (change.memory_clocks) {
    const auto clocks = *change.memory_clocks ? *change.memory_clocks : before.memory_clocks;
    if (clocks) {
      device.lock_memory_clocks(range_of(*clocks));
    } else {
      device.reset_memory_clocks();
    }
    applied.memory_clocks = change.memory_clocks;
  }
}

}  // namespace flyball
