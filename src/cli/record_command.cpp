// flyball record: a power trace, written while a program runs or until Ctrl-C.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/exit_status.h"
#include "cli/measuring_options.h"
#include "cli/option_values.h"
#include "cli/power_recording.h"

namespace flyball {
namespace {

struct RecordOptions {
  MeasuringOptions measuring;
  std::optional<std::string> output;
  std::optional<std::string> quantity;
  std::optional<Seconds> duration;
  std::optional<std::string> jiffies;
};

void run_record(const RecordOptions& options) {
  const std::vector<std::string>& command = options.measuring.command;
  if (command.empty() && options.jiffies) {
    throw UsageError("record: --jiffies is for recording a program; give one after --, or drop it");
  }
  if (!command.empty() && options.duration) {
    throw UsageError("record: --duration is for recording without a program; drop one of the two");
  }
  PowerRecording recording(options.measuring, {*options.output, options.jiffies, options.quantity == "power"});
  int status = 0;
  if (command.empty()) {
    recording.wait(options.duration);
  } else {
    status = recording.run_program().status;
  }
  recording.finish(status);
  if (command.empty() && recording.row_count() == 0) {
    throw SystemError(fmt::format("{}: nothing was recorded", recording.path()));
  }
  print_report(recording.report());
  throw ExitStatus{status};
}

}  // namespace

void add_record_command(const Command& program) {
  const Command command = program.add_subcommand("record", "write a power trace while a program runs, or until Ctrl-C");
  const auto options = std::make_shared<RecordOptions>();
  add_value(command, "-o,--output", options->output, parse_path, "FILE",
            "file for the trace, as CSV; - is standard output")
      .required();
  add_choice(command, "--quantity", options->quantity, {"energy", "power"}, "NAME",
             "energy: J since the first row (default); power: mean W since the device's row before");
  add_value(command, "--duration", options->duration, parse_duration, "TIME",
            "time to record for, if there is no program");
  add_value(command, "--jiffies", options->jiffies, parse_path, "FILE",
            "also write the processor time of the program and of the processors, for flyball account --jiffies");
  add_measuring_options(command, options->measuring);
  command.footer(
      "One row for every change of a device's sensor, at the moment when it changed. Rows\n"
      "are written as they come, four times a second. A full disk ends the trace, not\n"
      "the program. With -o - rows stand between the lines that the program itself prints.\n"
      "The format: docs/formats/power-trace.md.\n\n"
      "Examples:\n"
      "  flyball record -o power.csv -- python train.py\n"
      "  flyball record -o power.csv --quantity power --gpus 0,1 --duration 10s\n"
      "  flyball record -o - --duration 5s | grep GPU:0");
  command.callback([options] { run_record(*options); });
}

}  // namespace flyball
