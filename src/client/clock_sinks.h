// Where a session sets clocks, and what else it needs of a GPU.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "client/clock_controller.h"
#include "client/session.h"
#include "driver/gpu_vendors.h"

namespace flyball {

// On the device itself, which takes privilege. Clocks outlive a process that is killed: where there is an agent, its
// lease is the better way.
[[nodiscard]] std::unique_ptr<ClockSink> make_device_sink(std::shared_ptr<GpuDevice> gpu);

// Through a lease of the agent at `agent` (as parse_endpoint takes it), taken with the first clock and kept by
// heartbeats; when this process ends, however it ends, the agent resets the clocks. An agent that was away, or that
// ended the lease, is asked for another with the next call. `purpose` is for people ("training run 12, rank 3").
[[nodiscard]] std::unique_ptr<ClockSink> make_lease_sink(const std::string& agent, std::size_t gpu,
                                                         std::string purpose);

struct SessionGpuRequest {
  std::size_t gpu = 0;  // as `flyball devices` counts
  // "" for the agent where one listens at its usual place, else the device; "device"; "none" to set no clocks; anything
  // else is the agent's address.
  std::string clocks;
  std::string purpose;
  std::vector<GpuVendor> vendors = gpu_vendors();  // where to look for it
};

// Where clocks are set through an agent that answers, the GPU is the board that the agent calls by that number: the two
// may count differently, since each counts the libraries that it could load when it started. Throws DeviceError where
// there is no such GPU, or none at all.
[[nodiscard]] SessionGpu open_session_gpu(const SessionGpuRequest& request);

}  // namespace flyball
