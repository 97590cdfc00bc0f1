// What a lease does to a GPU's settings, in its control's thread: what it is refused, and the calls themselves.
#pragma once

#include <sys/types.h>

#include "driver/gpu.h"
#include "wire/agent_messages.h"

namespace flyball {

// Throw LeaseRefused: where the change would raise the power limit above the one that held before (W), and where a process
// of another user than `user` computes on the GPU. The second asks the driver and /proc; it also throws DeviceError.
void refuse_more_power(const GpuDevice& device, const SettingsChange& change, const GpuSettings& before);
void refuse_beside_others(const GpuDevice& device, uid_t user);

// Does the change knob by knob; `applied` says how far it came. What a change resets goes back to `before`. Throws
// DeviceError. Some 10 ms for each knob.
void change_settings(GpuDevice& device, const SettingsChange& change, const GpuSettings& before,
                     SettingsChange& applied);

}  // namespace flyball
