// flyball record: a power trace, written while a program runs or until Ctrl-C.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/processors.h"
#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/exit_status.h"
#include "cli/measuring_options.h"
#include "cli/option_values.h"
#include "cli/pipeline_options.h"
#include "measure/cost_budget.h"
#include "measure/jiffies_recorder.h"
#include "measure/power_recorder.h"

namespace flyball {
namespace {

struct RecordOptions {
  MeasuringOptions measuring;
  std::optional<std::string> output;
  std::optional<std::string> quantity;
  std::optional<Seconds> duration;
  std::optional<std::string> jiffies;
};

constexpr Seconds kFlushPeriod{0.25};

// A file that grows; "-" is standard output. An earlier content stays until the first write, and a new file goes again
// if nothing was written. After a failed write the file takes no more, so that the program that is recorded can go on.
class GrowingFile {
 public:
  explicit GrowingFile(const std::string& path) : path_(path == "-" ? "standard output" : path) {
    if (path == "-") {
      descriptor_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    } else {
      descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
      made_ = descriptor_ >= 0;
      if (descriptor_ < 0 && errno == EEXIST) descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
      struct stat there {};
      replaces_ = descriptor_ >= 0 && ::fstat(descriptor_, &there) == 0 && S_ISREG(there.st_mode);
    }
    if (descriptor_ < 0) throw SystemError(fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
  }
  ~GrowingFile() {
    ::close(descriptor_);
    if (made_ && !begun_) ::unlink(path_.c_str());
  }
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  void write(std::string_view text) {
    if (!std::exchange(begun_, true) && replaces_ && ::ftruncate(descriptor_, 0) != 0) return fail();
    while (!text.empty() && failure_.empty()) {
      const ssize_t count = ::write(descriptor_, text.data(), text.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return fail();
      text.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  [[nodiscard]] const std::string& failure() const { return failure_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void fail() { failure_ = fmt::format("cannot write {}: {}", path_, std::strerror(errno)); }

  std::string path_;
  int descriptor_ = -1;
  bool made_ = false;      // it was not there before
  bool replaces_ = false;  // what is in it is cut off at the first write
  bool begun_ = false;
  std::string failure_;
};

// Records until `duration` has passed, a signal says stop, or the file cannot be written.
void wait_for_stop(SignalQueue& signals, std::optional<Seconds> duration, PowerRecorder& trace, GrowingFile& file) {
  while (file.failure().empty()) {
    Seconds left = kFlushPeriod;
    if (duration) left = std::min(left, *duration - to_seconds(Sampler::now() - trace.begin()));
    if (left <= Seconds(0)) return;
    const int signal = signals.take(left);
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT) return;
    file.write(trace.take());
  }
}

void run_record(const RecordOptions& options) {
  const std::vector<std::string>& command = options.measuring.command;
  if (command.empty() && options.jiffies) {
    throw UsageError("record: --jiffies is for recording a program; give one after --, or drop it");
  }
  if (!command.empty() && options.duration) {
    throw UsageError("record: --duration is for recording without a program; drop one of the two");
  }
  MachineDevices machine = open_measured_machine(options.measuring);
  GrowingFile file(*options.output);
  SignalQueue signals;
  const Sampler::Options sampling = sampling_at(options.measuring.period);
  Measurement measurement(std::move(machine), sampling);
  measurement.warm_up(kLongestSensorWait);
  Sampler& sampler = measurement.sampler();
  PowerRecorder::Options recording;
  recording.sampling_period = sampling.period;
  recording.power = options.quantity == "power";
  PowerRecorder trace(sampler, recording);
  std::unique_ptr<GrowingFile> jiffies_file;
  JiffiesRecorder jiffies("/proc", "/sys", ::getpid());
  std::string jiffies_rows;  // not yet written
  const auto take_jiffies = [&] { jiffies_rows += jiffies.sample(Sampler::now() + trace.clock_offset()); };
  const auto write_jiffies = [&] {
    if (!jiffies_file) return;
    take_jiffies();
    jiffies_file->write(std::exchange(jiffies_rows, {}));
  };
  if (options.jiffies) {
    jiffies_file = std::make_unique<GrowingFile>(*options.jiffies);
    jiffies_rows = JiffiesRecorder::header();
    take_jiffies();
  }

  int status = 0;
  if (command.empty()) {
    file.write(trace.take());
    wait_for_stop(signals, options.duration, trace, file);
  } else {
    // Nothing is written before the program has started: a mistyped name must not cost the trace of last time.
    status = run_child(command, signals, kFlushPeriod, [&] {
               file.write(trace.take());
               write_jiffies();
             }).status;
    write_jiffies();
  }
  const Nanoseconds end = Sampler::now();
  sampler.settle(end, kLongestSensorWait);
  file.write(trace.take(true));
  if (!file.failure().empty()) {
    print_error(fmt::format(
        "{}\n  the rows in {} are incomplete{}", file.failure(), file.path(),
        command.empty() ? std::string() : fmt::format("; the program went on and ended with status {}", status)));
    throw ExitStatus{status != 0 ? status : 1};
  }
  for (const std::string& failure : trace.failures()) print_warning(failure);
  if (command.empty() && trace.row_count() == 0) {
    throw SystemError(fmt::format("{}: nothing was recorded", file.path()));
  }
  print_report(fmt::format(
      "flyball: {}: {} of {}, {:.3f} s\n", file.path(), counted(static_cast<long>(trace.row_count()), "row"),
      counted(static_cast<long>(trace.device_count()), "device"), to_seconds(end - trace.begin()).value()));
  for (const std::string& put_off : trace.put_off()) {
    print_report(fmt::format(
        "flyball: {}, to take no more than 0.1 % of {}; --period {:g}ms reads every {:g} ms whatever it costs\n",
        put_off, counted(usable_processors(), "processor"), sampling.period.value() * 1e3,
        sampling.period.value() * 1e3));
  }
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
