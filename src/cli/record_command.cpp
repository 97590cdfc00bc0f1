// flyball record: a power trace, written while a program runs or until Ctrl-C.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/exit_status.h"
#include "cli/measuring_options.h"
#include "cli/option_values.h"

namespace flyball {
namespace {

struct RecordOptions {
  MeasuringOptions measuring;
  std::optional<std::string> output;
  std::optional<std::string> quantity;
  std::optional<Seconds> duration;
};

constexpr Seconds kFlushPeriod{0.25};

// Unix time less the sampler's clock.
Nanoseconds clock_offset() {
  timespec unix_time{};
  ::clock_gettime(CLOCK_REALTIME, &unix_time);
  return Nanoseconds{unix_time.tv_sec} * 1'000'000'000 + unix_time.tv_nsec - Sampler::now();
}

// A file that grows. After a failed write it takes no more, so that the program that is being recorded can go on.
class GrowingFile {
 public:
  explicit GrowingFile(std::string path) : path_(std::move(path)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor_ < 0) throw SystemError(fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
  }
  ~GrowingFile() { ::close(descriptor_); }
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  void write(std::string_view text) {
    while (!text.empty() && failure_.empty()) {
      const ssize_t count = ::write(descriptor_, text.data(), text.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        failure_ = fmt::format("cannot write {}: {}", path_, std::strerror(errno));
        return;
      }
      text.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  [[nodiscard]] const std::string& failure() const { return failure_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  int descriptor_ = -1;
  std::string failure_;
};

// Rows of all devices in the order of time.
class TraceWriter {
 public:
  TraceWriter(GrowingFile& file, Sampler& sampler, Seconds period, bool power)
      : file_(file), sampler_(sampler), period_(period), power_(power), offset_(clock_offset()) {
    begin_ = Sampler::now();
    written_until_.assign(sampler.meter_count(), begin_);
    first_joules_.assign(sampler.meter_count(), -1.0);
    sources_.assign(sampler.meter_count(), EnergySource::kCounter);
  }

  void write_header() {
    std::string text = fmt::format(
        "# flyball power trace, version 1\n"
        "# timestamp: s since 1970 (Unix time) = CLOCK_MONOTONIC + {}.{:09} s\n"
        "# sampling_period_s: {}\n",
        offset_ / 1'000'000'000, offset_ % 1'000'000'000, period_.value());
    for (std::size_t i = 0; i < sampler_.meter_count(); ++i) {
      const MeterState state = sampler_.state(i);
      sources_[i] = state.source;
      text += fmt::format("# device {}: {}, sensor_period_s: {:.4f}\n", state.label, name_of(state.source),
                          state.sensor_period.value());
    }
    file_.write(text + (power_ ? "timestamp,device,power_w\n" : "timestamp,device,energy_j\n"));
  }

  // What the sensors have shown since the last time, up to where no other device has older news to come; `all` of it at
  // the end.
  void write_rows(bool all = false) {
    rows_.clear();
    const Nanoseconds horizon = all ? Sampler::now() : news_horizon();
    for (std::size_t i = 0; i < sampler_.meter_count(); ++i) {
      for (const PowerSample& sample : sampler_.changes_since(i, written_until_[i])) {
        if (sample.time > horizon) break;
        written_until_[i] = sample.time;
        if (first_joules_[i] < 0.0) first_joules_[i] = sample.energy.value();
        rows_.push_back({sample.time, i, power_ ? sample.power.value() : sample.energy.value() - first_joules_[i]});
      }
    }
    std::stable_sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) { return a.time < b.time; });
    text_.clear();
    for (const Row& row : rows_) {
      const Nanoseconds time = row.time + offset_;
      fmt::format_to(std::back_inserter(text_), "{}.{:06},{},{:.3f}\n", time / 1'000'000'000,
                     time % 1'000'000'000 / 1'000, labels()[row.meter], row.value);
    }
    note_sources();
    count_ += rows_.size();
    file_.write(text_);
  }

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] Nanoseconds begin() const { return begin_; }

 private:
  struct Row {
    Nanoseconds time;
    std::size_t meter;
    double value;
  };

  // A change is dated after the reading before it, and an integrated power half a sensor period back. Devices that have
  // said nothing for a while are not waited for.
  [[nodiscard]] Nanoseconds news_horizon() const {
    const Nanoseconds now = Sampler::now();
    const Nanoseconds patience = std::max<Nanoseconds>(1'000'000'000, 3 * to_nanoseconds(period_));
    Nanoseconds horizon = now;
    for (std::size_t i = 0; i < sampler_.meter_count(); ++i) {
      const MeterState state = sampler_.state(i);
      if (!state.latest || now - state.latest->time > patience) continue;
      const bool integrated = state.source != EnergySource::kCounter;
      horizon = std::min(horizon, state.latest->time - (integrated ? to_nanoseconds(state.sensor_period) / 2 : 0));
    }
    return horizon;
  }

  const std::vector<std::string>& labels() {
    if (labels_.empty()) {
      for (std::size_t i = 0; i < sampler_.meter_count(); ++i) labels_.push_back(sampler_.state(i).label);
    }
    return labels_;
  }

  // A device that goes over from its counter to its power says so where it happened.
  void note_sources() {
    for (std::size_t i = 0; i < sampler_.meter_count(); ++i) {
      const EnergySource source = sampler_.state(i).source;
      if (source == sources_[i]) continue;
      sources_[i] = source;
      text_ += fmt::format("# device {}: from here on {}\n", labels()[i], name_of(source));
    }
  }

  GrowingFile& file_;
  Sampler& sampler_;
  Seconds period_;
  bool power_;
  Nanoseconds offset_;
  Nanoseconds begin_ = 0;
  std::vector<Nanoseconds> written_until_;
  std::vector<double> first_joules_;
  std::vector<EnergySource> sources_;
  std::vector<std::string> labels_;
  std::vector<Row> rows_;
  std::string text_;
  std::size_t count_ = 0;
};

// Until `duration` has passed or somebody says stop.
void wait_for_stop(SignalQueue& signals, std::optional<Seconds> duration, TraceWriter& trace, const GrowingFile& file) {
  while (file.failure().empty()) {
    Seconds left = kFlushPeriod;
    if (duration) left = std::min(left, *duration - to_seconds(Sampler::now() - trace.begin()));
    if (left <= Seconds(0)) return;
    const int signal = signals.take(left);
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT) return;
    trace.write_rows();
  }
}

void run_record(const RecordOptions& options) {
  const std::vector<std::string>& command = options.measuring.command;
  if (!command.empty() && options.duration) {
    throw UsageError("record: --duration is for recording without a program; drop one of the two");
  }
  MachineDevices machine = open_measured_machine(options.measuring);
  GrowingFile file(*options.output);
  SignalQueue signals;
  const Sampler::Options sampling = sampler_options(options.measuring);
  Measurement measurement(std::move(machine), sampling);
  measurement.warm_up(kLongestSensorWait);
  Sampler& sampler = measurement.sampler();
  TraceWriter trace(file, sampler, sampling.period, options.quantity == "power");
  trace.write_header();

  int status = 0;
  if (command.empty()) {
    wait_for_stop(signals, options.duration, trace, file);
  } else {
    status = run_child(command, signals, kFlushPeriod, [&] { trace.write_rows(); }).status;
  }
  const Nanoseconds end = Sampler::now();
  sampler.settle(end, kLongestSensorWait);
  trace.write_rows(true);
  if (!file.failure().empty()) {
    print_error(fmt::format(
        "{}\n  {} rows are incomplete{}", file.failure(), file.path(),
        command.empty() ? std::string() : fmt::format("; the program went on and ended with status {}", status)));
    throw ExitStatus{status != 0 ? status : 1};
  }
  for (std::size_t i = 0; i < sampler.meter_count(); ++i) {
    const MeterState state = sampler.state(i);
    if (!state.failure.empty())
      print_report(fmt::format("flyball: {}: readings failed: {}\n", state.label, state.failure));
  }
  if (command.empty() && trace.count() == 0) throw SystemError(fmt::format("{}: nothing was recorded", file.path()));
  print_report(fmt::format("flyball: {}: {} rows of {} devices, {:.3f} s\n", file.path(), trace.count(),
                           sampler.meter_count(), to_seconds(end - trace.begin()).value()));
  throw ExitStatus{status};
}

}  // namespace

void add_record_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand("record", "write a power trace while a program runs, or until Ctrl-C");
  const auto options = std::make_shared<RecordOptions>();
  add_value(*command, "-o,--output", options->output, parse_path, "FILE", "the trace, as CSV")->required();
  add_choice(*command, "--quantity", options->quantity, {"energy", "power"}, "NAME",
             "energy: J since the first row (default); power: mean W since the device's row before");
  add_value(*command, "--duration", options->duration, parse_duration, "TIME", "how long, without a program");
  add_measuring_options(*command, options->measuring);
  command->footer(
      "One row for every change of a device's sensor, at the moment when it changed. Rows\n"
      "are written as they come, four times a second. A full disk ends the trace, not\n"
      "the program. The format: docs/formats/power-trace.md.\n\n"
      "Examples:\n"
      "  flyball record -o power.csv -- python train.py\n"
      "  flyball record -o power.csv --quantity power --gpus 0,1 --duration 10s");
  command->callback([options] { run_record(*options); });
}

}  // namespace flyball
