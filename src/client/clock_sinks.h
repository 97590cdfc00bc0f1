// Makes the places where a session sets clocks, and opens the GPU that it works with.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "client/clock_controller.h"
#include "client/session.h"

namespace flyball {

// Sets clocks on the device itself, which takes privilege. They outlive a process that is killed, so that an agent's
// lease is better where there is one.
[[nodiscard]] std::unique_ptr<ClockSink> make_device_sink(std::shared_ptr<GpuDevice> gpu);

// Sets clocks through a lease of the agent at `agent` (as parse_endpoint takes it), which is taken with the first clock
// and kept by heartbeats. When this process ends, however it ends, the agent resets the clocks. If the agent was away,
// or ended the lease, the next call takes another. `purpose` is for people ("training run 12, rank 3").
[[nodiscard]] std::unique_ptr<ClockSink> make_lease_sink(const std::string& agent, std::size_t gpu,
                                                         std::string purpose);

// Opens a GPU. Where its clocks are set through an agent that answers, it is the board to which the agent gives that
// number: the two may count differently, since each counts with the libraries that it could load when it started.
// Throws DeviceError where there is no such GPU.
[[nodiscard]] SessionGpu open_session_gpu(const SessionGpuRequest& request);

}  // namespace flyball
