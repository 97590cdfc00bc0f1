#include "client/clock_sinks.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "client/agent_client.h"
#include "device/amd_smi.h"
#include "device/meters.h"
#include "device/nvml.h"
#include "wire/agent_messages.h"

namespace flyball {
namespace {

class DeviceSink final : public ClockSink {
 public:
  explicit DeviceSink(std::shared_ptr<GpuDevice> gpu) : gpu_(std::move(gpu)) {}

  void hold(Megahertz clock) override {
    touched_ = true;
    gpu_->lock_sm_clocks({clock, clock});
  }
  // A device that was never touched may be somebody else's to set.
  void release() override {
    if (touched_) gpu_->reset_sm_clocks();
    touched_ = false;
  }

 private:
  std::shared_ptr<GpuDevice> gpu_;
  bool touched_ = false;
};

class LeaseSink final : public ClockSink {
 public:
  LeaseSink(const std::string& agent, std::size_t gpu, std::string purpose)
      : endpoint_(parse_endpoint(agent)), gpu_(gpu), purpose_(std::move(purpose)) {}

  void hold(Megahertz clock) override {
    if (lease_ && !lease_->lost().empty()) lease_.reset();
    if (!lease_) {
      LeaseRequest request;
      request.gpus = {gpu_};
      request.may_set = {Knob::kSmClocks};
      request.purpose = purpose_;
      lease_.emplace(AgentClient(endpoint_).lease(request));
    }
    lease_->lock_sm_clocks(gpu_, {clock, clock});
  }

  // The lease is kept for the next clock, unless it is the way back that fails: its end, too, resets the clock.
  void release() override {
    if (!lease_) return;
    try {
      lease_->reset_sm_clocks(gpu_);
    } catch (const SystemError&) {
      lease_.reset();
      throw;
    }
  }

  [[nodiscard]] std::string lost() const override { return lease_ ? lease_->lost() : std::string(); }

 private:
  Endpoint endpoint_;
  std::size_t gpu_;
  std::string purpose_;
  std::optional<AgentLease> lease_;
};

std::shared_ptr<GpuDevice> find_gpu(std::size_t index) {
  GpuLibrary library;
  try {
    library = open_nvml();
  } catch (const DeviceError& no_nvidia) {
    if (no_nvidia.fault() != DeviceFault::kNoDriver) throw;
    try {
      library = open_amd_smi();
    } catch (const DeviceError&) {
      throw no_nvidia;
    }
  }
  for (const auto& gpu : library.devices) {
    if (gpu->identity().index == index) return gpu;
  }
  throw DeviceError(DeviceFault::kLost, fmt::format("GPU:{}", index),
                    fmt::format("there is no such GPU; this machine has {}", library.devices.size()),
                    "count from 0, as `flyball devices` does");
}

}  // namespace

std::unique_ptr<ClockSink> make_device_sink(std::shared_ptr<GpuDevice> gpu) {
  return std::make_unique<DeviceSink>(std::move(gpu));
}

std::unique_ptr<ClockSink> make_lease_sink(const std::string& agent, std::size_t gpu, std::string purpose) {
  return std::make_unique<LeaseSink>(agent, gpu, std::move(purpose));
}

SessionGpu open_session_gpu(const SessionGpuRequest& request) {
  const std::shared_ptr<GpuDevice> gpu = find_gpu(request.gpu);
  SessionGpu result;
  result.clocks = gpu->sm_clocks();
  result.meter = meter_of(gpu);
  std::string clocks = request.clocks;
  if (clocks.empty() && std::filesystem::exists(kAgentSocket)) clocks = kAgentSocket;
  if (clocks == "none") return result;
  if (clocks.empty() || clocks == "device") {
    result.sink = make_device_sink(gpu);
  } else {
    result.sink = make_lease_sink(clocks, request.gpu, request.purpose);
    // A clock that the agent keeps from all would be refused for ever. An agent that is away may come later.
    try {
      const auto allowed = AgentClient(parse_endpoint(clocks)).sm_clocks(request.gpu);
      if (!allowed.empty()) result.clocks = allowed;
    } catch (const Error&) {
      // No agent, or none that speaks as ours: then by what the device says.
    }
  }
  return result;
}

}  // namespace flyball
