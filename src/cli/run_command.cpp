// flyball run: the energy of a program, per device, as perf stat tells its counters.
#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/exit_status.h"
#include "cli/measuring_options.h"
#include "cli/option_values.h"
#include "report/text_table.h"

namespace flyball {
namespace {

struct RunOptions {
  MeasuringOptions measuring;
  std::optional<int> repeat;
  std::optional<std::string> format;
  std::optional<std::string> output;
};

struct MeasuredRun {
  WindowEnergy energy;
  int status = 0;
};

struct Spread {
  double mean = 0.0;
  double deviation = 0.0;  // of the sample; 0 for one run
};

template <class Value>
Spread spread_of(const std::vector<MeasuredRun>& runs, Value value) {
  Spread spread;
  for (const MeasuredRun& run : runs) spread.mean += value(run) / static_cast<double>(runs.size());
  if (runs.size() < 2) return spread;
  double squares = 0.0;
  for (const MeasuredRun& run : runs) squares += std::pow(value(run) - spread.mean, 2.0);
  spread.deviation = std::sqrt(squares / static_cast<double>(runs.size() - 1));
  return spread;
}

Spread energy_of(const std::vector<MeasuredRun>& runs, std::size_t device) {
  return spread_of(runs, [device](const MeasuredRun& run) { return run.energy.devices[device].energy.value(); });
}
Spread time_of(const std::vector<MeasuredRun>& runs) {
  return spread_of(runs, [](const MeasuredRun& run) { return run.energy.time.value(); });
}
Spread total_of(const std::vector<MeasuredRun>& runs) {
  return spread_of(runs, [](const MeasuredRun& run) { return run.energy.total().value(); });
}

nlohmann::ordered_json json_of(const Spread& spread) {
  return {{"mean", spread.mean}, {"standard_deviation", spread.deviation}};
}

nlohmann::ordered_json json_of(const MeasuredRun& run) {
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (const DeviceEnergy& device : run.energy.devices) {
    devices.push_back({{"device", device.device},
                       {"energy_j", device.energy.value()},
                       {"mean_w", device.mean.value()},
                       {"peak_w", device.peak.value()},
                       {"source", name_of(device.source)},
                       {"sensor_period_s", device.sensor_period.value()},
                       {"complete", device.complete},
                       {"problem", device.problem}});
  }
  return {{"time_s", run.energy.time.value()},
          {"energy_j", run.energy.total().value()},
          {"exit_status", run.status},
          {"devices", devices}};
}

std::string as_json(const std::vector<std::string>& command, const std::vector<MeasuredRun>& runs) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const MeasuredRun& run : runs) all.push_back(json_of(run));
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < runs.front().energy.devices.size(); ++i) {
    devices.push_back({{"device", runs.front().energy.devices[i].device}, {"energy_j", json_of(energy_of(runs, i))}});
  }
  const nlohmann::ordered_json result = {{"command", command},
                                         {"time_s", json_of(time_of(runs))},
                                         {"energy_j", json_of(total_of(runs))},
                                         {"devices", devices},
                                         {"runs", all}};
  return result.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string with_deviation(const Spread& spread, int decimals, bool repeated) {
  std::string text = format_fixed(spread.mean, decimals);
  if (repeated) text += " ± " + format_fixed(spread.deviation, decimals);
  return text;
}

// What a reader must know of a device before trusting its figure, each said once.
std::string notes_of(const std::vector<MeasuredRun>& runs) {
  std::string notes;
  for (std::size_t i = 0; i < runs.front().energy.devices.size(); ++i) {
    for (const MeasuredRun& run : runs) {
      const DeviceEnergy& device = run.energy.devices[i];
      std::string note;
      if (!device.problem.empty()) {
        note = fmt::format("readings failed: {}", device.problem);
      } else if (device.source != EnergySource::kCounter) {
        note = fmt::format("{}, not the energy counter", name_of(device.source));
      } else if (!device.complete && device.sensor_period == Seconds(0)) {
        note = "the run was too short to know its sensor";
      } else if (!device.complete) {
        note = fmt::format("the run was too short for its sensor, which changes every {:.0f} ms",
                           device.sensor_period.value() * 1e3);
      }
      if (note.empty()) continue;
      notes += fmt::format(" {}: {}\n", device.device, note);
      break;
    }
  }
  return notes.empty() ? notes : "\n" + notes;
}

std::string as_text(const std::vector<std::string>& command, const std::vector<MeasuredRun>& runs) {
  const bool repeated = runs.size() > 1;
  TextTable table({{" device", "", TextTable::Align::kLeft}, {"energy", "J"}, {"mean", "W"}, {"peak", "W"}});
  const double time = time_of(runs).mean;
  for (std::size_t i = 0; i < runs.front().energy.devices.size(); ++i) {
    double peak = 0.0;
    for (const MeasuredRun& run : runs) peak = std::max(peak, run.energy.devices[i].peak.value());
    const Spread energy = energy_of(runs, i);
    table.add_row({" " + runs.front().energy.devices[i].device, with_deviation(energy, 3, repeated),
                   format_fixed(energy.mean / time, 1), format_fixed(peak, 1)});
  }
  const Spread total = total_of(runs);
  table.add_row({" total", with_deviation(total, 3, repeated), format_fixed(total.mean / time, 1), ""});
  return fmt::format("\n Energy of '{}'{}:\n\n{}\n {} s elapsed{}\n{}\n", shown_command(command),
                     repeated ? fmt::format(" ({} runs, mean ± standard deviation)", runs.size()) : "", table.str(),
                     with_deviation(time_of(runs), 6, repeated), repeated ? " per run" : "", notes_of(runs));
}

void run_run(const RunOptions& options) {
  const std::vector<std::string>& command = options.measuring.command;
  if (command.empty()) throw UsageError("run: no program given\n  add it after --, such as: flyball run -- sleep 1");
  MachineDevices machine = open_measured_machine(options.measuring);
  // Before the program runs: what it took must not be lost for a path that cannot be written.
  if (options.output && !std::ofstream(*options.output, std::ios::app)) {
    throw SystemError(fmt::format("cannot write {}: {}", *options.output, std::strerror(errno)));
  }
  SignalQueue signals;
  Measurement measurement(std::move(machine), sampler_options(options.measuring));
  measurement.warm_up(kLongestSensorWait);

  std::vector<MeasuredRun> runs;
  bool go_on = true;
  for (int i = 0; go_on && i < options.repeat.value_or(1); ++i) {
    const std::uint64_t window = measurement.begin();
    const ChildEnd end = run_child(command, signals, Seconds(3600), {});
    runs.push_back({measurement.end(window, kLongestSensorWait), end.status});
    go_on = end.status == 0 && !end.interrupted;
  }

  const std::string report = options.format == "json" ? as_json(command, runs) : as_text(command, runs);
  if (options.output) {
    write_text_file(*options.output, report);
  } else {
    print_report(report);
  }
  throw ExitStatus{runs.back().status};
}

}  // namespace

void add_run_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand("run", "run a program and tell its energy, per device");
  const auto options = std::make_shared<RunOptions>();
  add_measuring_options(*command, options->measuring);
  add_value(*command, "--repeat", options->repeat, parse_count, "N",
            "run it N times: mean and standard deviation; ends early when one fails");
  add_choice(*command, "--format", options->format, {"text", "json"}, "NAME", "text (default) or json");
  add_value(*command, "--output", options->output, parse_path, "FILE",
            "write the report to a file (default: standard error)");
  command->footer(
      "The program's own input, output and exit status are left as they are; the report\n"
      "goes to standard error. Signals sent to flyball are passed on to the program.\n\n"
      "Examples:\n"
      "  flyball run -- python train.py\n"
      "  flyball run --repeat 5 --gpus 0 -- ./benchmark --size 4096\n"
      "  flyball run --format json --output energy.json -- python train.py");
  command->callback([options] { run_run(*options); });
}

}  // namespace flyball
