// Each GPU is read in its own control's thread. The answers meet in the loop's thread, where a count of those
// outstanding, the asking itself included, calls `done` when it reaches zero. Processors are read in the loop's
// thread: reading RAPL is reading a file.
#include "agent/device_monitor.h"

#include <unistd.h>

#include <array>
#include <utility>

namespace flyball {
namespace {

// Returns nothing if the device never supports what `read` asks for.
template <class Read>
auto if_supported(Read read) -> std::optional<decltype(read())> {
  try {
    return read();
  } catch (const DeviceError& error) {
    if (error.fault() != DeviceFault::kUnsupported) throw;
    return std::nullopt;
  }
}

void fill(GpuStatus& report, const GpuIdentity& identity) {
  report.index = identity.index;
  report.uuid = identity.uuid;
  report.name = identity.name;
  report.pci_bus_id = identity.pci_bus_id;
}

}  // namespace

GpuStatus read_gpu_status(const GpuDevice& device) {
  GpuStatus report;
  fill(report, device.identity());
  report.power = if_supported([&] { return device.power(); });
  report.energy = device.total_energy();
  report.sm_clock = if_supported([&] { return device.sm_clock(); });
  report.memory_clock = if_supported([&] { return device.memory_clock(); });
  report.temperature_celsius = if_supported([&] { return device.temperature_celsius(); });
  report.utilisation = if_supported([&] { return device.utilisation(); });
  report.power_limit = if_supported([&] { return device.power_limit(); });
  if (const auto limits = if_supported([&] { return device.power_limits(); })) {
    report.power_limit_minimum = limits->minimum;
    report.power_limit_maximum = limits->maximum;
    report.power_limit_standard = limits->standard;
  }
  if (const auto clocks = if_supported([&] { return device.sm_clocks(); }); clocks && !clocks->empty()) {
    report.sm_clock_maximum = clocks->front();
  }
  if (const auto reasons = if_supported([&] { return device.throttle_reasons(); })) {
    report.throttle_reasons = names_of(*reasons);
  }
  return report;
}

CpuStatus read_cpu_status(const CpuDevice& device) {
  CpuStatus report;
  report.index = device.index();
  report.name = device.name();
  try {
    report.package_energy = device.package_energy();
    report.dram_energy = device.dram_energy();
  } catch (const DeviceError& error) {
    report.trouble = error.what();
  }
  return report;
}

std::string node_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string();
}

DeviceMonitor::DeviceMonitor(LeaseKeeper& keeper, std::vector<std::shared_ptr<CpuDevice>> cpus)
    : keeper_(keeper), cpus_(std::move(cpus)), node_(node_name()) {}

void DeviceMonitor::report(const Claimant& reader, std::function<void(NodeStatus)> done) {
  struct Gathering {
    NodeStatus report;
    std::size_t left = 1;  // one is for report() itself, so that the answer waits until all were asked
    std::function<void(NodeStatus)> done;
    void arrived() {
      if (--left == 0) done(std::move(report));
    }
  };
  auto gathering = std::make_shared<Gathering>();
  gathering->done = std::move(done);
  NodeStatus& report = gathering->report;
  report.node = node_;
  report.version = FLYBALL_VERSION;
  for (const auto& cpu : cpus_) report.cpus.push_back(read_cpu_status(*cpu));
  report.gpus.resize(keeper_.gpu_count());
  for (std::size_t i = 0; i < keeper_.gpu_count(); ++i) {
    fill(report.gpus[i], keeper_.device(i).identity());
    const auto finish = [this, i, reader, gathering](const std::string& trouble) {
      GpuStatus& gpu = gathering->report.gpus[i];
      gpu.health = keeper_.health(i);
      gpu.trouble = gpu.health == GpuHealth::kWell ? trouble : keeper_.trouble(i);
      gpu.lease = keeper_.lease_on(i, reader);
      gpu.cap = keeper_.control(i).cap();
      gathering->arrived();
    };
    ++gathering->left;
    if (keeper_.health(i) == GpuHealth::kUnwell) {
      finish({});
      continue;
    }
    const auto read = std::make_shared<GpuStatus>();
    keeper_.control(i).read([read](GpuDevice& device) { *read = read_gpu_status(device); },
                            [this, i, read, gathering, finish](const std::exception_ptr& error) {
                              std::string trouble;
                              try {
                                if (error) std::rethrow_exception(error);
                                gathering->report.gpus[i] = std::move(*read);
                                keeper_.note_alive(i);
                              } catch (const Error& caught) {
                                trouble = caught.what();
                              }
                              finish(trouble);
                            });
  }
  gathering->arrived();
}

}  // namespace flyball
