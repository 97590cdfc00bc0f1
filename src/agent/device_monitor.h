// The present state of all devices, gathered from their control threads.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/lease_keeper.h"
#include "driver/cpu.h"
#include "wire/agent_messages.h"

namespace flyball {

// Everything that a GPU says of itself now; what it does not support is left out. Throws DeviceError for anything else.
[[nodiscard]] GpuStatus read_gpu_status(const GpuDevice& device);
// The packages' energies; a counter that cannot be read is left out, `trouble` says why.
[[nodiscard]] CpuStatus read_cpu_status(const CpuDevice& device);

// Loop's thread only.
class DeviceMonitor {
 public:
  DeviceMonitor(LeaseKeeper& keeper, std::vector<std::shared_ptr<CpuDevice>> cpus);

  // Asks every GPU at once; `done` comes when all have answered. One whose driver hangs is reported at once, without
  // readings.
  // Without the identifiers of leases that are not `reader`'s.
  void report(const Claimant& reader, std::function<void(NodeStatus)> done);

  [[nodiscard]] const std::vector<std::shared_ptr<CpuDevice>>& cpus() const { return cpus_; }

 private:
  LeaseKeeper& keeper_;
  std::vector<std::shared_ptr<CpuDevice>> cpus_;
  std::string node_;
};

}  // namespace flyball
