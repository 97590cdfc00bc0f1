#include "cli/measuring_options.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "cli/console.h"
#include "cli/option_values.h"

namespace flyball {
namespace {

std::vector<std::size_t> parse_gpus(std::string_view option, std::string_view text) {
  std::vector<std::size_t> gpus;
  if (text == "none") return gpus;
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const auto number = parse_integer(rest.substr(0, comma));
    if (!number || *number < 0 || *number > 4096) {
      throw UsageError(
          fmt::format("{} takes numbers of GPUs with commas between, such as 0,1, or none; not '{}'", option, text));
    }
    gpus.push_back(static_cast<std::size_t>(*number));
    if (comma == std::string_view::npos) return gpus;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace

void add_measuring_options(CLI::App& app, MeasuringOptions& options) {
  add_value(app, "--gpus", options.gpus, parse_gpus, "LIST",
            "GPUs to measure, such as 0,1, or none (default: all of the machine)");
  app.add_flag("--no-cpu", options.no_cpu, "leave out processors and their memory");
  add_value(app, "--period", options.period, parse_duration, "TIME", "between two readings (default: 4ms)");
  app.add_option("CMD", options.command, "the program and its arguments, after --");
}

MachineDevices open_measured_machine(const MeasuringOptions& options) {
  MachineOptions wanted;
  wanted.gpus = options.gpus;
  wanted.cpus = !options.no_cpu;
  MachineDevices machine = open_machine(wanted);
  std::string reasons;
  for (const DeviceError& error : machine.unavailable) {
    if (machine.meters.empty()) reasons += fmt::format("\n  {}", error.what());
    if (!machine.meters.empty() && error.fault() != DeviceFault::kNoDriver) print_warning(error.what());
  }
  if (machine.meters.empty()) {
    throw SystemError(fmt::format("there is nothing to measure here; 'flyball devices' tells more{}", reasons));
  }
  return machine;
}

Sampler::Options sampler_options(const MeasuringOptions& options) {
  Sampler::Options result;
  if (options.period) result.period = *options.period;
  return result;
}

std::string shown_command(const std::vector<std::string>& command) {
  constexpr std::size_t kLongest = 120;
  std::string line;
  for (const std::string& word : command) line += (line.empty() ? "" : " ") + word;
  for (char& c : line) c = c == '\n' ? ' ' : c;
  return line.size() <= kLongest ? line : line.substr(0, kLongest - 3) + "...";
}

}  // namespace flyball
