// Gathers the present state of all devices from their control threads.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/lease_keeper.h"
#include "driver/cpu.h"
#include "wire/agent_messages.h"

namespace flyball {

// Reads everything that a GPU tells now. Values that it does not support are left out. Throws DeviceError for any other
// failure.
[[nodiscard]] GpuStatus read_gpu_status(const GpuDevice& device);
// Reads the energies of the package and its memory. If a counter cannot be read, it is left out and `trouble` says why.
[[nodiscard]] CpuStatus read_cpu_status(const CpuDevice& device);

// The name of this node; empty where the system does not say.
[[nodiscard]] std::string node_name();

// May be used in the loop's thread only.
class DeviceMonitor {
 public:
  DeviceMonitor(LeaseKeeper& keeper, std::vector<std::shared_ptr<CpuDevice>> cpus);

  // Asks all GPUs at the same time and calls `done` when all have answered. A GPU whose driver hangs is reported
  // without readings, and nobody waits for it. The identifiers of leases that are not `reader`'s are left out.
  void report(const Claimant& reader, std::function<void(NodeStatus)> done);

  [[nodiscard]] const std::vector<std::shared_ptr<CpuDevice>>& cpus() const { return cpus_; }

 private:
  LeaseKeeper& keeper_;
  std::vector<std::shared_ptr<CpuDevice>> cpus_;
  std::string node_;
};

}  // namespace flyball
