// flyball run: the energy of a program, per device, as perf stat tells its counters.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/text.h"
#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/device_error_json.h"
#include "cli/exit_status.h"
#include "cli/measuring_options.h"
#include "cli/option_values.h"
#include "client/measured_runs.h"
#include "draw/text_table.h"

namespace flyball {
namespace {

struct RunOptions {
  MeasuringOptions measuring;
  std::optional<int> repeat;
  std::optional<std::string> format;
  std::optional<std::string> output;
};

nlohmann::ordered_json json_of(const Spread& spread) {
  return {{"mean", spread.mean}, {"standard_deviation", spread.deviation}};
}

nlohmann::ordered_json known_or_null(Seconds period) {
  return period > Seconds(0) ? nlohmann::ordered_json(period.value()) : nlohmann::ordered_json();
}

nlohmann::ordered_json json_of(const MeasuredRun& run) {
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (const DeviceEnergy& device : run.energy.devices) {
    devices.push_back({{"device", device.device},
                       {"energy_j", device.energy.value()},
                       {"mean_w", device.mean.value()},
                       {"peak_w", device.peak.value()},
                       {"source", name_of(device.source)},
                       {"sensor_period_s", known_or_null(device.sensor_period)},
                       {"complete", device.complete},
                       {"problem", device.problem}});
  }
  return {{"time_s", run.energy.time.value()},
          {"energy_j", run.energy.total().value()},
          {"complete", run.energy.complete()},
          {"exit_status", run.status},
          {"devices", devices}};
}

std::string runs_json(const MeasuredRuns& measured) {
  const std::vector<MeasuredRun>& runs = measured.runs;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const MeasuredRun& run : runs) all.push_back(json_of(run));
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < runs.front().energy.devices.size(); ++i) {
    devices.push_back({{"device", runs.front().energy.devices[i].device},
                       {"energy_j", json_of(measured.energy_of(i))},
                       {"complete", measured.complete(i)}});
  }
  const nlohmann::ordered_json result = {{"command", measured.command},
                                         {"time_s", json_of(measured.time())},
                                         {"energy_j", json_of(measured.total())},
                                         {"complete", measured.complete()},
                                         {"runs_asked_for", measured.asked_for},
                                         {"ended_early", measured.ended_early()},
                                         {"devices", devices},
                                         {"unavailable", device_errors_json(measured.unavailable)},
                                         {"runs", all}};
  return dump_json(result, 2) + "\n";
}

std::string spread_text(const Spread& spread, int decimals, bool repeated) {
  std::string text = format_fixed(spread.mean, decimals);
  if (repeated) text += " ± " + format_fixed(spread.deviation, decimals);
  return text;
}

// What a reader must know of a device before trusting its figure, each said once.
std::string notes_of(const MeasuredRuns& measured) {
  const std::vector<MeasuredRun>& runs = measured.runs;
  std::string notes;
  if (measured.ended_early()) {
    const int status = runs.back().status;
    notes += fmt::format(" {} of {} runs: {}\n", runs.size(), measured.asked_for,
                         status == 0 ? std::string("interrupted after the last one")
                                     : fmt::format("the last one ended with status {}", status));
  }
  for (std::size_t i = 0; i < runs.front().energy.devices.size(); ++i) {
    for (const MeasuredRun& run : runs) {
      const DeviceEnergy& device = run.energy.devices[i];
      std::string note;
      if (device.lacks_readings()) {
        note = fmt::format("took more than this: readings failed: {}", device.problem);
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
  for (const DeviceError& error : measured.unavailable) notes += fmt::format(" not measured: {}\n", error.what());
  return notes.empty() ? notes : "\n" + notes;
}

// The word beside a figure that is not the whole truth.
const char* mark(bool lacks_readings, bool complete) {
  if (lacks_readings) return "incomplete";
  return complete ? "" : "estimated";
}

std::string runs_text(const MeasuredRuns& measured) {
  const std::vector<MeasuredRun>& runs = measured.runs;
  const bool repeated = runs.size() > 1;
  const std::size_t count = runs.front().energy.devices.size();
  std::vector<std::string> columns = {"< device", "energy (J)", "mean (W)", "peak (W)"};
  if (!measured.complete()) columns.emplace_back("<figure");
  TextTable table(columns);
  const auto add_row = [&](std::vector<std::string> cells, const char* figure) {
    if (!measured.complete()) cells.emplace_back(figure);
    table.add_row(std::move(cells));
  };
  const double time = measured.time().mean;
  bool lacks_readings = !measured.unavailable.empty();
  for (std::size_t i = 0; i < count; ++i) {
    const Spread energy = measured.energy_of(i);
    lacks_readings = lacks_readings || measured.lacks_readings(i);
    add_row({" " + runs.front().energy.devices[i].device, spread_text(energy, 3, repeated),
             format_fixed(energy.mean / time, 1), format_fixed(measured.peak_of(i).value(), 1)},
            mark(measured.lacks_readings(i), measured.complete(i)));
  }
  const Spread total = measured.total();
  add_row({" total", spread_text(total, 3, repeated), format_fixed(total.mean / time, 1), ""},
          mark(lacks_readings, measured.complete()));
  return fmt::format("\n Energy of '{}'{}:\n\n{}\n {} s elapsed{}\n{}\n", shown_command(measured.command),
                     repeated ? fmt::format(" ({} runs, mean ± standard deviation)", runs.size()) : "", table.str(),
                     spread_text(measured.time(), 6, repeated), repeated ? " per run" : "", notes_of(measured));
}

// If the file cannot be written, perhaps because the disk has filled meanwhile, the report goes where it would go
// without --output, and the result is false.
bool write_report(const std::optional<std::string>& file, const std::string& report) {
  if (!file) {
    print_report(report);
    return true;
  }
  try {
    write_text_file(*file, report);
    return true;
  } catch (const SystemError& error) {
    print_report(report);
    print_error(fmt::format("{}\n  the report stands above instead", error.what()));
    return false;
  }
}

void run_run(const RunOptions& options) {
  const std::vector<std::string>& command = options.measuring.command;
  if (command.empty()) throw UsageError("run: no program given\n  add it after --, such as: flyball run -- sleep 1");
  MachineDevices machine = open_measured_machine(options.measuring);
  MeasuredRuns measured;
  measured.command = command;
  measured.asked_for = options.repeat.value_or(1);
  measured.unavailable = unmeasured_devices(options.measuring, machine);
  // A path that cannot be written is refused before the program runs, since the figures of its run would be lost.
  if (options.output && !std::ofstream(*options.output, std::ios::app)) {
    throw SystemError(fmt::format("cannot write {}: {}", *options.output, std::strerror(errno)));
  }
  SignalQueue signals;
  Measurement measurement(std::move(machine), sampling_at(options.measuring.period));
  measurement.warm_up(kLongestSensorWait);

  bool go_on = true;
  for (int i = 0; go_on && i < measured.asked_for; ++i) {
    const std::uint64_t window = measurement.begin();
    const ChildEnd end = run_child(command, signals, Seconds(3600), {});
    measured.runs.push_back({measurement.end(window, kLongestSensorWait), end.status});
    go_on = end.status == 0 && !end.interrupted;
  }

  const bool written =
      write_report(options.output, options.format == "json" ? runs_json(measured) : runs_text(measured));
  if (written && options.output && measured.ended_early()) {
    print_warning(fmt::format("{} of {} runs were made; {} says of which", measured.runs.size(), measured.asked_for,
                              *options.output));
  }
  const int status = measured.runs.back().status;
  throw ExitStatus{written || status != 0 ? status : 1};
}

}  // namespace

void add_run_command(const Command& program) {
  const Command command = program.add_subcommand("run", "run a program and tell its energy, per device");
  const auto options = std::make_shared<RunOptions>();
  add_measuring_options(command, options->measuring);
  add_value(command, "--repeat", options->repeat, parse_count, "N",
            "number of times to run the program: reports mean and standard deviation; ends early when a run fails");
  add_format(command, options->format);
  add_value(command, "--output", options->output, parse_path, "FILE",
            "write the report to a file (default: standard error)");
  command.footer(
      "The program's own input, output and exit status are left as they are; the report\n"
      "goes to standard error. Signals sent to flyball are passed on to the program.\n\n"
      "Examples:\n"
      "  flyball run -- python train.py\n"
      "  flyball run --repeat 5 --gpus 0 -- ./benchmark --size 4096\n"
      "  flyball run --format json --output energy.json -- python train.py");
  command.callback([options] { run_run(*options); });
}

}  // namespace flyball
