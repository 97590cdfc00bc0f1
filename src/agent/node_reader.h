// Reads the state of a machine's devices in the own process, without an agent: what an agent would tell of them, but
// for leases.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "driver/cpu.h"
#include "driver/gpu_vendors.h"
#include "driver/patience.h"
#include "wire/agent_messages.h"

namespace flyball {

// Not thread-safe. Shares the devices with its maker.
class NodeReader {
 public:
  NodeReader(const OpenedGpus& gpus, std::vector<std::shared_ptr<CpuDevice>> cpus);

  // Returns the state of all devices, GPUs by their numbers. What a device will not tell stays empty, since a picture
  // of the rest is better than none: a GPU that the driver counts and would not open, or that does not answer within
  // kAnswerPatience, is there with its trouble.
  [[nodiscard]] NodeStatus read();

 private:
  [[nodiscard]] GpuStatus read_gpu(std::size_t i);

  std::vector<std::shared_ptr<GpuDevice>> gpus_;
  std::vector<std::shared_ptr<CpuDevice>> cpus_;
  std::deque<PatientQuestions> questions_;  // of each GPU
  std::vector<GpuStatus> refused_;
};

}  // namespace flyball
