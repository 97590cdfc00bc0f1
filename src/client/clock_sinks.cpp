// Two sinks: one locks the clock on the device, the other through a lease that it takes with the first clock and takes
// anew when it was lost. The agent is asked for the board's identity first, and the same board is then looked for
// among this process's own devices.
#include "client/clock_sinks.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "client/agent_client.h"
#include "driver/device_error.h"
#include "driver/patience.h"
#include "measure/meters.h"
#include "wire/agent_messages.h"

namespace flyball {
namespace {

class DeviceSink final : public ClockSink {
 public:
  explicit DeviceSink(std::shared_ptr<GpuDevice> gpu) : gpu_(std::move(gpu)) {}

  void hold(Megahertz clock) override {
    if (!touched_) gpu_->refuse_divided();
    touched_ = true;
    gpu_->lock_sm_clocks({clock, clock});
  }
  // A device that was never touched may be somebody else's to set.
  void release() override {
    if (touched_) gpu_->reset_sm_clocks();
    touched_ = false;
  }
  void hold_limit(Watts limit) override {
    if (!limit_before_) {
      gpu_->refuse_divided();
      limit_before_ = gpu_->power_limit();
    }
    gpu_->set_power_limit(limit);
  }
  void release_limit() override {
    if (limit_before_) gpu_->set_power_limit(*limit_before_);
    limit_before_.reset();
  }

 private:
  std::shared_ptr<GpuDevice> gpu_;
  bool touched_ = false;
  std::optional<Watts> limit_before_;  // none: the limit was never touched
};

class LeaseSink final : public ClockSink {
 public:
  LeaseSink(const std::string& agent, std::size_t gpu, LeasePurpose purpose)
      : endpoint_(parse_endpoint(agent)), gpu_(gpu), purpose_(std::move(purpose)) {}

  void hold(Megahertz clock) override {
    hold(&GpuSettings::sm_clocks, &SettingsChange::sm_clocks, ClockBounds{clock, clock});
  }
  void release() override { release(&GpuSettings::sm_clocks, &SettingsChange::sm_clocks); }
  void hold_limit(Watts limit) override { hold(&GpuSettings::power_limit, &SettingsChange::power_limit, limit); }
  void release_limit() override { release(&GpuSettings::power_limit, &SettingsChange::power_limit); }

  [[nodiscard]] std::string lost() const override { return lease_ ? lease_->lost() : std::string(); }

 private:
  // A new lease sets all that is to hold, since the end of the one before has taken it back. A lease that may set
  // clocks only is given up for one that may set both as soon as a limit is wanted.
  template <class T>
  void hold(std::optional<T> GpuSettings::*held, std::optional<std::optional<T>> SettingsChange::*setting, T value) {
    held_.*held = value;
    SettingsChange change;
    change.*setting = held_.*held;
    const bool limits = held_.power_limit.has_value();
    if (lease_ && (!lease_->lost().empty() || (limits && !may_limit_))) lease_.reset();
    if (!lease_) {
      LeaseRequest request;
      request.gpus = {gpu_};
      request.may_set = {Knob::kSmClocks};
      if (limits) request.may_set.push_back(Knob::kPowerLimit);
      request.purpose = purpose_.text;
      request.job = purpose_.job;
      request.rank = purpose_.rank;
      may_limit_ = limits;
      lease_.emplace(AgentClient(endpoint_).lease(request));
      if (held_.sm_clocks) change.sm_clocks = held_.sm_clocks;
      if (held_.power_limit) change.power_limit = held_.power_limit;
    }
    lease_->change(gpu_, change);
  }

  // The lease is kept for what comes next, unless the reset fails: then the lease ends, which resets all.
  template <class T>
  void release(std::optional<T> GpuSettings::*held, std::optional<std::optional<T>> SettingsChange::*setting) {
    (held_.*held).reset();
    SettingsChange change;
    change.*setting = held_.*held;  // which asks for the default
    if (!lease_ || (change.power_limit && !may_limit_)) return;
    try {
      lease_->change(gpu_, change);
    } catch (const SystemError&) {
      lease_.reset();
      throw;
    }
  }

  Endpoint endpoint_;
  std::size_t gpu_;
  LeasePurpose purpose_;
  std::optional<AgentLease> lease_;
  bool may_limit_ = false;  // the lease
  GpuSettings held_;        // what is to hold
};

// What the agent says of a GPU, and what of its clocks and power limits a lease may set. All are empty where there is
// no agent yet, or one that cannot be understood.
struct AgentsGpu {
  GpuIdentity identity;
  std::vector<Megahertz> clocks;
  std::optional<PowerLimitRange> limits;
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
    GpuClocks may_set = client.clocks(gpu);
    known.clocks = std::move(may_set.sm_clocks);
    known.limits = {may_set.power_limit.minimum, may_set.power_limit.maximum, may_set.power_limit.standard};
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

// None where the device does not tell.
std::optional<PowerLimitRange> limits_of(const GpuDevice& gpu) {
  try {
    return gpu.power_limits();
  } catch (const DeviceError&) {
    return std::nullopt;
  }
}

}  // namespace

std::unique_ptr<ClockSink> make_device_sink(std::shared_ptr<GpuDevice> gpu) {
  return std::make_unique<DeviceSink>(std::move(gpu));
}

std::unique_ptr<ClockSink> make_lease_sink(const std::string& agent, std::size_t gpu, LeasePurpose purpose) {
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
  result.power_limits = known.limits ? known.limits : limits_of(*gpu);
  if (!leased && clocks != "none") result.sink = make_device_sink(gpu);
  return result;
}

}  // namespace flyball
