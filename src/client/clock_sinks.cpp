// Two sinks: one locks the clock on the device, the other through a lease that it takes with the first clock and takes
// anew when it was lost. The agent is asked for the board's identity first, and the same board is then looked for
// among this process's own devices.
#include "client/clock_sinks.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "client/agent_client.h"
#include "driver/patience.h"
#include "measure/meters.h"
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

  // The lease is kept for the next clock, unless the reset fails: then the lease ends, which resets the clock, too.
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

// What the agent says of a GPU, and which of its clocks a lease may set. Both are empty where there is no agent yet, or
// one that cannot be understood.
struct AgentsGpu {
  GpuIdentity identity;
  std::vector<Megahertz> clocks;
};

AgentsGpu ask_agent(const std::string& agent, std::size_t gpu) {
  AgentsGpu known;
  known.identity.index = gpu;
  try {
    AgentClient client(parse_endpoint(agent));
    const NodeStatus node = client.devices();
    for (const GpuStatus& status : node.gpus) {
      if (status.index == gpu) known.identity = {gpu, status.uuid, status.name, status.pci_bus_id};
    }
    known.clocks = client.sm_clocks(gpu);
  } catch (const Error&) {
    // What is known so far has to suffice.
  }
  return known;
}

// The reasons for which a GPU that has work is slower than was asked for.
std::string held_back_by(ThrottleReason reasons) {
  std::vector<std::string> names;
  for (const ThrottleReason one :
       {ThrottleReason::kPowerLimit, ThrottleReason::kThermal, ThrottleReason::kHardwareSlowdown}) {
    if (has(reasons, one)) names.push_back(names_of(one).front());
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::unique_ptr<ClockSink> make_device_sink(std::shared_ptr<GpuDevice> gpu) {
  return std::make_unique<DeviceSink>(std::move(gpu));
}

std::unique_ptr<ClockSink> make_lease_sink(const std::string& agent, std::size_t gpu, std::string purpose) {
  return std::make_unique<LeaseSink>(agent, gpu, std::move(purpose));
}

SessionGpu open_session_gpu(const SessionGpuRequest& request) {
  std::string clocks = request.clocks;
  if (clocks.empty() && std::filesystem::exists(kAgentSocket)) clocks = kAgentSocket;
  const bool leased = !clocks.empty() && clocks != "device" && clocks != "none";
  SessionGpu result;
  AgentsGpu known;
  known.identity.index = request.gpu;
  if (leased) {
    result.sink = make_lease_sink(clocks, request.gpu, request.purpose);
    known = ask_agent(clocks, request.gpu);
  }
  const std::shared_ptr<GpuDevice> gpu = find_gpu(known.identity, request.vendors);
  result.meter = meter_of(gpu);
  const auto questions = std::make_shared<PatientQuestions>(fmt::format("GPU:{}", request.gpu));
  result.held_back = [gpu, questions] {
    return held_back_by(questions->ask([gpu] { return gpu->throttle_reasons(); }));
  };
  result.clocks = gpu->sm_clocks();
  // A clock that the agent keeps from all would be refused for ever.
  if (!known.clocks.empty()) result.clocks = std::move(known.clocks);
  if (!leased && clocks != "none") result.sink = make_device_sink(gpu);
  return result;
}

}  // namespace flyball
