// What a lease does to a GPU's settings, in its control's thread: what it is refused, and the calls themselves.
#pragma once

#include <sys/types.h>

#include "agent/gpu_rules.h"
#include "driver/gpu.h"
#include "wire/agent_messages.h"

namespace flyball {

// Throw LeaseRefused: where the change would raise the power limit above the one that held before (W), and where a
// process of another user than `user` computes on the GPU. The second asks the driver and /proc; it also throws
// DeviceError.
void refuse_more_power(const GpuDevice& device, const SettingsChange& change, const GpuSettings& before);
void refuse_beside_others(const GpuDevice& device, uid_t user);

// The most that `before` leaves to a lease of a user who is not root (W). Throws DeviceError.
[[nodiscard]] Watts most_power(const GpuDevice& device, const GpuSettings& before);

// The limits that a lease may set now: the board's, within the bounds, and where `root` is false no more than `before`
// leaves. With a minimum above the maximum it may set none. `standard` is the board's own. Throws DeviceError.
[[nodiscard]] PowerLimitRange power_limits_to_set(const GpuDevice& device, const GpuBounds& bounds,
                                                  const GpuSettings& before, bool root);

// Whether a board that tells the limit `told` may have been set to `limit`.
[[nodiscard]] bool same_limit(Watts told, Watts limit);

// Does the change knob by knob; `applied` says how far it came. What a change resets goes back to `before`. Throws
// DeviceError. Some 10 ms for each knob.
void change_settings(GpuDevice& device, const SettingsChange& change, const GpuSettings& before,
                     SettingsChange& applied);

}  // namespace flyball
