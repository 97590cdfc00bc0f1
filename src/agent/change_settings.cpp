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

void reset(GpuDevice& device, Knob knob) {
  switch (knob) {
    case Knob::kSmClocks: return device.reset_sm_clocks();
    case Knob::kMemoryClocks: return device.reset_memory_clocks();
    case Knob::kPowerLimit: return device.set_power_limit(device.power_limits().standard);
  }
}

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

bool sets_something(const SettingsChange& change) {
  return (change.sm_clocks && *change.sm_clocks) || (change.memory_clocks && *change.memory_clocks) ||
         (change.power_limit && *change.power_limit);
}

bool names(const GpuSettings& settings, Knob knob) {
  switch (knob) {
    case Knob::kSmClocks: return settings.sm_clocks.has_value();
    case Knob::kMemoryClocks: return settings.memory_clocks.has_value();
    case Knob::kPowerLimit: return settings.power_limit.has_value();
  }
  return false;
}

void bring_back(GpuDevice& device, Knob knob, const GpuSettings& before) {
  if (!names(before, knob)) return reset(device, knob);
  try {
    switch (knob) {
      case Knob::kSmClocks: return device.lock_sm_clocks(range_of(*before.sm_clocks));
      case Knob::kMemoryClocks: return device.lock_memory_clocks(range_of(*before.memory_clocks));
      case Knob::kPowerLimit: return device.set_power_limit(*before.power_limit);
    }
  } catch (const DeviceError& error) {
    if (error.fault() != DeviceFault::kInvalid) throw;
    if (knob != Knob::kPowerLimit) return reset(device, knob);
    const PowerLimitRange limits = device.power_limits();
    device.set_power_limit(std::clamp(*before.power_limit, limits.minimum, std::max(limits.minimum, limits.standard)));
  }
}

void refuse_impossible(const GpuDevice& device, const SettingsChange& change) {
  const bool states_cap = change.lost_power_limit && *change.lost_power_limit;
  if (states_cap || sets_something(change)) device.refuse_divided();
  if (!states_cap) return;
  const PowerLimitRange limits = device.power_limits();
  const Watts cap = **change.lost_power_limit;
  if (cap >= limits.minimum && cap <= limits.maximum) return;
  throw DeviceError(DeviceFault::kInvalid, device.label(),
                    fmt::format("the board takes power limits from {:g} to {:g} W, and lost_power_limit_w is {:g} W",
                                limits.minimum.value(), limits.maximum.value(), cap.value()),
                    "give a limit that it takes");
}

void change_settings(GpuDevice& device, const SettingsChange& change, const GpuSettings& before,
                     SettingsChange& applied) {
  applied.lost_power_limit = change.lost_power_limit;  // the journal has it
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
