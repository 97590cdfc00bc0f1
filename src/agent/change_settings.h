// How a lease changes a GPU's settings, in the thread of the GPU's control: the checks that refuse a change, and the
// driver's calls.
#pragma once

#include <sys/types.h>

#include "agent/gpu_rules.h"
#include "driver/gpu.h"
#include "wire/agent_messages.h"

namespace flyball {

// As drivers take them.
[[nodiscard]] inline ClockRange range_of(const ClockBounds& bounds) { return {bounds.minimum, bounds.maximum}; }

// Throw LeaseRefused: where the change would raise the power limit above the one that held before (W), and where a
// process of another user than `user` computes on the GPU. The second asks the driver and /proc; it also throws
// DeviceError.
void refuse_more_power(const GpuDevice& device, const SettingsChange& change, const GpuSettings& before);
void refuse_beside_others(const GpuDevice& device, uid_t user);

// Returns the highest power limit (W) that a user who is not root may set where `before` held. Throws DeviceError.
[[nodiscard]] Watts most_power(const GpuDevice& device, const GpuSettings& before);

// The limits that a lease may set now: the board's, within the bounds, and where `root` is false no more than `before`
// leaves. With a minimum above the maximum it may set none. `standard` is the board's own. Throws DeviceError.
[[nodiscard]] PowerLimitRange power_limits_to_set(const GpuDevice& device, const GpuBounds& bounds,
                                                  const GpuSettings& before, bool root);

// Returns whether a board that reports the limit `told` may have been set to `limit`: boards round what they are given.
[[nodiscard]] bool same_limit(Watts told, Watts limit);

// Makes the change knob by knob; `applied` tells what was done, also where a later knob failed. A knob that the change
// resets goes back to `before`. Throws DeviceError. Costs some 10 ms for each knob.
void change_settings(GpuDevice& device, const SettingsChange& change, const GpuSettings& before,
                     SettingsChange& applied);

}  // namespace flyball
