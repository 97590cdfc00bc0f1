// Changes a GPU's settings for a lease: the checks that refuse a change, and the driver's calls. All of it runs in the
// thread of the GPU's control (gpu_control.h).
#pragma once

#include <sys/types.h>

#include "agent/gpu_rules.h"
#include "driver/gpu.h"
#include "wire/agent_messages.h"

namespace flyball {

// Returns the bounds as drivers take them.
[[nodiscard]] inline ClockRange range_of(const ClockBounds& bounds) { return {bounds.minimum, bounds.maximum}; }

// Both functions throw LeaseRefused: the first where the change would raise the power limit above the one that held
// before, the second where a process of another user than `user` computes on the GPU. The second asks the driver and
// /proc, and also throws DeviceError.
void refuse_more_power(const GpuDevice& device, const SettingsChange& change, const GpuSettings& before);
void refuse_beside_others(const GpuDevice& device, uid_t user);

// Throws DeviceError where the GPU is divided (GpuDevice::divided) and the change sets or states something, and where
// the board takes no such power limit as the change states for the loss of its holder.
void refuse_impossible(const GpuDevice& device, const SettingsChange& change);

// Returns the highest power limit (W) that a user who is not root may set where `before` held. Throws DeviceError.
[[nodiscard]] Watts most_power(const GpuDevice& device, const GpuSettings& before);

// Returns the power limits that a lease may set now: those of the board, within `bounds` and, unless `root` is true, no
// higher than the limit that held before. Where the minimum is above the maximum, the lease may set none. `standard` is
// the board's own. Throws DeviceError.
[[nodiscard]] PowerLimitRange power_limits_to_set(const GpuDevice& device, const GpuBounds& bounds,
                                                  const GpuSettings& before, bool root);

// Returns whether a board that reports the limit `told` may have been set to `limit`: boards round what they are given.
[[nodiscard]] bool same_limit(Watts told, Watts limit);

// Returns whether the change gives a knob a value; bringing back does not.
[[nodiscard]] bool sets_something(const SettingsChange& change);

// Returns whether the settings have a value for the knob.
[[nodiscard]] bool names(const GpuSettings& settings, Knob knob);

// Sets a knob back to what held before. If the device refuses that value (another board, a slip in the configuration),
// the knob goes to its default, or to a power limit that the device takes: the lease's own value must not stay in
// force. Throws DeviceError.
void bring_back(GpuDevice& device, Knob knob, const GpuSettings& before);

// Makes the change knob by knob; `applied` tells what was done, also where a later knob failed. A knob that the change
// resets goes back to `before`. Throws DeviceError. Costs some 10 ms for each knob.
void change_settings(GpuDevice& device, const SettingsChange& change, const GpuSettings& before,
                     SettingsChange& applied);

}  // namespace flyball
