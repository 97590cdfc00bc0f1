#include "client/inventory.h"

namespace flyball {
namespace {

// A refused question is part of the answer: one of the few places that catch.
template <class Field, class Ask>
void ask(Field& field, std::vector<DeviceError>& problems, Ask question) {
  try {
    field = question();
  } catch (const DeviceError& error) {
    if (error.fault() != DeviceFault::kUnsupported) problems.push_back(error);
  }
}

}  // namespace

GpuReport report_of(const GpuDevice& gpu) {
  GpuReport report;
  report.identity = gpu.identity();
  report.label = gpu.label();
  std::vector<DeviceError>& problems = report.problems;
  ask(report.sm_clocks, problems, [&] { return gpu.sm_clocks(); });
  ask(report.memory_clocks, problems, [&] { return gpu.memory_clocks(); });
  ask(report.sm_clock, problems, [&] { return gpu.sm_clock(); });
  ask(report.memory_clock, problems, [&] { return gpu.memory_clock(); });
  ask(report.power, problems, [&] { return gpu.power(); });
  ask(report.power_limit, problems, [&] { return gpu.power_limit(); });
  ask(report.power_limits, problems, [&] { return gpu.power_limits(); });
  ask(report.total_energy, problems, [&] { return gpu.total_energy(); });
  ask(report.temperature_celsius, problems, [&] { return gpu.temperature_celsius(); });
  ask(report.throttle_reasons, problems, [&] { return names_of(gpu.throttle_reasons()); });
  ask(report.persistence, problems, [&] { return gpu.persistence(); });
  report.access = {false, DeviceFault::kDriver, "the driver does not answer", {}};
  ask(report.access, problems, [&] { return gpu.throttle_access(); });
  return report;
}

CpuReport report_of(const CpuDevice& cpu) {
  CpuReport report{cpu.label(), cpu.name(), false, false, std::nullopt};
  std::vector<DeviceError> problems;
  ask(report.readable, problems, [&] { return static_cast<void>(cpu.package_energy()), true; });
  ask(report.memory, problems, [&] { return cpu.dram_energy().has_value(); });
  if (!problems.empty()) report.problem = problems.front();
  return report;
}

}  // namespace flyball
