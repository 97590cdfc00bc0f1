// Makes the sinks through which a session sets clocks, and opens the GPU with which it works.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "client/clock_controller.h"
#include "client/session.h"

namespace flyball {

// Makes a sink that sets clocks on the device itself, which takes privilege. If the process is killed the clocks stay
// locked, so that a lease of an agent is better where there is an agent.
[[nodiscard]] std::unique_ptr<ClockSink> make_device_sink(std::shared_ptr<GpuDevice> gpu);

// Makes a sink that sets clocks through a lease of the agent at `agent` (as parse_endpoint takes it). The lease is
// taken with the first clock and kept by heartbeats. When this process ends, however it ends, the agent resets the
// clocks. If the agent was away, or ended the lease, the next call takes another.
[[nodiscard]] std::unique_ptr<ClockSink> make_lease_sink(const std::string& agent, std::size_t gpu,
                                                         LeasePurpose purpose);

// Opens a GPU. Where its clocks are set through an agent that answers, this is the board to which the agent gives that
// number: agent and process may number boards differently, since each counts those of the libraries that it could load
// when it started. Throws DeviceError where there is no such GPU.
[[nodiscard]] SessionGpu open_session_gpu(const SessionGpuRequest& request);

}  // namespace flyball
