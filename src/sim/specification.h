// Makes the specification of a simulated machine from data: GPU models of data/devices/, fits of data/workloads/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "sim/machine.h"

namespace flyball {

struct MachineRequest {
  std::string name;               // of the machine; it goes into the boards' UUIDs
  std::string gpu = "a100-pcie";  // a model of data/devices/, or its short name
  std::size_t gpus = 4;           // 1 to kSimBoards
  // A name of data/workloads/, whose fit for that GPU is used where there is one; empty: the GPU's general fit.
  std::string workload;
  double time_scale = 1.0;
  std::string powercap;  // folder of the simulated powercap tree; empty: none
  // Of the boards' differences and noise, as real boards have them. 0: ideal boards, which are alike and exact.
  std::uint32_t seed = 0;
  std::optional<Seconds> switch_latency;  // mean of the clock changes; none: as the model has it
  std::uint64_t powercap_range = 0;       // where its counters wrap, microjoules; 0: as on a common server
};

// Makes the specification. Throws UsageError for an unknown GPU or workload or a number out of range.
[[nodiscard]] MachineSpec specify_machine(const MachineRequest& request);

}  // namespace flyball
