// Devices whose driver is absent are not reported as missing, nor are GPUs where --gpus has chosen among them.
#include "cli/measuring_options.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "cli/console.h"
#include "cli/option_values.h"

namespace flyball {
void add_measuring_options(const Command& app, MeasuringOptions& options) {
  add_value(app, "--gpus", options.gpus, parse_gpus, "LIST",
            "GPUs to measure, such as 0,1, or none (default: all of the machine)");
  app.add_flag("--no-cpu", options.no_cpu, "leave out processors and their memory");
  add_value(app, "--period", options.period, parse_duration, "TIME",
            "time between two readings (default: 4ms; processors, and GPUs that take long to answer, less often where "
            "that would cost more than 0.1 % of the machine)");
  app.add_option(kProgramArgument, options.command, "the program and its arguments, after --");
}

MachineDevices open_measured_machine(const MeasuringOptions& options) {
  if (options.gpus && options.gpus->empty() && options.no_cpu) {
    throw UsageError("--gpus none and --no-cpu together leave nothing to measure; drop one of the two");
  }
  MachineOptions wanted;
  wanted.gpus = options.gpus;
  wanted.cpus = !options.no_cpu;
  MachineDevices machine = open_machine(wanted);
  if (machine.meters.empty()) {
    std::string reasons;
    for (const DeviceError& error : machine.unavailable) reasons += fmt::format("\n  {}", error.what());
    throw SystemError(fmt::format("there is nothing to measure here; 'flyball devices' tells more{}", reasons));
  }
  for (const DeviceError& error : unmeasured_devices(options, machine)) print_warning(error.what());
  return machine;
}

std::vector<DeviceError> unmeasured_devices(const MeasuringOptions& options, const MachineDevices& machine) {
  std::vector<DeviceError> missing;
  for (const DeviceError& error : machine.unavailable) {
    const bool left_out = options.gpus && error.device().starts_with("GPU:");
    if (error.fault() != DeviceFault::kNoDriver && !left_out) missing.push_back(error);
  }
  return missing;
}

std::string shown_command(const std::vector<std::string>& command) {
  constexpr std::size_t kLongest = 120;
  std::string line;
  for (const std::string& word : command) line += (line.empty() ? "" : " ") + word;
  for (char& c : line) c = c == '\n' ? ' ' : c;
  return line.size() <= kLongest ? line : line.substr(0, kLongest - 3) + "...";
}

}  // namespace flyball
