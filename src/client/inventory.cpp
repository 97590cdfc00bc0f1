// Asks each device one question after another, each with a deadline (PatientQuestions). A refused question leaves its
// field empty and its error in the report.
#include "client/inventory.h"

#include "driver/patience.h"

namespace flyball {
namespace {

// A question that the device refuses is one of the problems to report.
template <class Field, class Ask>
void ask(Field& field, std::vector<DeviceError>& problems, Ask question) {
  try {
    field = question();
  } catch (const DeviceError& error) {
    if (error.fault() != DeviceFault::kUnsupported) problems.push_back(error);
  }
}

}  // namespace

GpuReport report_of(const std::shared_ptr<const GpuDevice>& gpu) {
  GpuReport report;
  report.identity = gpu->identity();
  report.label = gpu->label();
  std::vector<DeviceError>& problems = report.problems;
  PatientQuestions questions(report.label);
  // `question` gets the device as its argument and must refer to nothing of this function: both stay with a driver that
  // hangs.
  const auto ask_gpu = [&](auto& field, auto question) {
    if (questions.hangs()) return;
    ask(field, problems, [&] { return questions.ask([gpu, question] { return question(*gpu); }); });
  };
  report.access = {false, DeviceFault::kDriver, "the driver does not answer", {}};
  ask_gpu(report.sm_clocks, [](const GpuDevice& device) { return device.sm_clocks(); });
  ask_gpu(report.memory_clocks, [](const GpuDevice& device) { return device.memory_clocks(); });
  ask_gpu(report.sm_clock, [](const GpuDevice& device) { return device.sm_clock(); });
  ask_gpu(report.memory_clock, [](const GpuDevice& device) { return device.memory_clock(); });
  ask_gpu(report.power, [](const GpuDevice& device) { return device.power(); });
  ask_gpu(report.power_limit, [](const GpuDevice& device) { return device.power_limit(); });
  ask_gpu(report.power_limits, [](const GpuDevice& device) { return device.power_limits(); });
  ask_gpu(report.total_energy, [](const GpuDevice& device) { return device.total_energy(); });
  ask_gpu(report.temperature_celsius, [](const GpuDevice& device) { return device.temperature_celsius(); });
  ask_gpu(report.throttle_reasons, [](const GpuDevice& device) { return names_of(device.throttle_reasons()); });
  ask_gpu(report.persistence, [](const GpuDevice& device) { return device.persistence(); });
  ask_gpu(report.access, [](const GpuDevice& device) { return device.throttle_access(); });
  if (questions.hangs()) report.access.why = DeviceFault::kTimeout;
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
