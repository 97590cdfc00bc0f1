// A question to a driver that hangs keeps a thread of its own (driver/patience.h); the others are asked meanwhile.
#include "agent/node_reader.h"

#include <algorithm>
#include <utility>

#include "agent/device_monitor.h"

namespace flyball {
namespace {

GpuStatus trouble_with(const GpuIdentity& identity, const DeviceError& error) {
  GpuStatus status;
  status.index = identity.index;
  status.uuid = identity.uuid;
  status.name = identity.name;
  status.health = error.fault() == DeviceFault::kLost ? GpuHealth::kLost : GpuHealth::kUnwell;
  status.trouble = error.what();
  return status;
}

}  // namespace

NodeReader::NodeReader(const OpenedGpus& gpus, std::vector<std::shared_ptr<CpuDevice>> cpus)
    : gpus_(gpus.gpus), cpus_(std::move(cpus)) {
  for (const auto& gpu : gpus_) questions_.emplace_back(gpu->label());
  for (const RefusedGpu& gpu : gpus.refused) refused_.push_back(trouble_with({gpu.index, {}, {}, {}}, gpu.why));
}

NodeStatus NodeReader::read() {
  NodeStatus status;
  status.node = node_name();
  status.version = FLYBALL_VERSION;
  status.gpus = refused_;
  for (std::size_t i = 0; i < gpus_.size(); ++i) status.gpus.push_back(read_gpu(i));
  std::sort(status.gpus.begin(), status.gpus.end(),
            [](const GpuStatus& a, const GpuStatus& b) { return a.index < b.index; });
  for (const auto& cpu : cpus_) status.cpus.push_back(read_cpu_status(*cpu));
  return status;
}

GpuStatus NodeReader::read_gpu(std::size_t i) {
  const std::shared_ptr<GpuDevice>& gpu = gpus_[i];
  try {
    return questions_[i].ask([gpu] { return read_gpu_status(*gpu); });
  } catch (const DeviceError& error) {
    return trouble_with(gpu->identity(), error);
  }
}

}  // namespace flyball
