// Everything happens on the caller's thread but the sampling. Four times a second, between two signals, the rows that
// have come are written.
#include "cli/power_recording.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/processors.h"
#include "cli/console.h"
#include "cli/exit_status.h"
#include "cli/pipeline_options.h"
#include "measure/cost_budget.h"
#include "measure/jiffies_recorder.h"
#include "measure/power_recorder.h"

namespace flyball {
namespace {

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

PowerRecorder::Options recorder_options(Seconds sampling_period, bool mean_powers) {
  PowerRecorder::Options options;
  options.sampling_period = sampling_period;
  options.power = mean_powers;
  return options;
}

}  // namespace

// Members begin in this order: what cannot be measured or written is known before signals are taken and the sampler
// starts.
struct PowerRecording::State {
  State(const MeasuringOptions& options, const PowerRecordingFiles& files)
      : command(options.command),
        machine(open_measured_machine(options)),
        file(files.power),
        sampling(sampling_at(options.period)),
        measurement(std::move(machine), sampling) {
    measurement.warm_up(kLongestSensorWait);
    window = measurement.begin();
    trace =
        std::make_unique<PowerRecorder>(measurement.sampler(), recorder_options(sampling.period, files.mean_powers));
    if (!files.jiffies) return;
    jiffies_file = std::make_unique<GrowingFile>(*files.jiffies);
    jiffies_rows = JiffiesRecorder::header();
    take_jiffies();
  }

  void take_jiffies() { jiffies_rows += jiffies.sample(Sampler::now() + trace->clock_offset()); }

  void write_jiffies() {
    if (!jiffies_file) return;
    take_jiffies();
    jiffies_file->write(std::exchange(jiffies_rows, {}));
  }

  const std::vector<std::string>& command;
  MachineDevices machine;  // until the measurement has it
  GrowingFile file;
  SignalQueue signals;
  Sampler::Options sampling;
  Measurement measurement;
  std::uint64_t window = 0;
  std::unique_ptr<PowerRecorder> trace;
  std::unique_ptr<GrowingFile> jiffies_file;
  JiffiesRecorder jiffies{"/proc", "/sys", ::getpid()};
  std::string jiffies_rows;  // not yet written
  WindowEnergy energy;
};

PowerRecording::PowerRecording(const MeasuringOptions& options, const PowerRecordingFiles& files)
    : state_(std::make_unique<State>(options, files)) {}

// A signal that has come since the program's end would end this process when it is no longer held back.
PowerRecording::~PowerRecording() {
  while (state_->signals.take(Seconds(0)) != 0) {
  }
}

ChildEnd PowerRecording::run_program() {
  State& state = *state_;
  // Nothing is written before the program has started: a mistyped name must not cost the trace of last time.
  const ChildEnd end = run_child(state.command, state.signals, kFlushPeriod, [&state] {
    state.file.write(state.trace->take());
    state.write_jiffies();
  });
  state.write_jiffies();
  return end;
}

void PowerRecording::wait(std::optional<Seconds> duration) {
  State& state = *state_;
  state.file.write(state.trace->take());
  while (state.file.failure().empty()) {
    Seconds left = kFlushPeriod;
    if (duration) left = std::min(left, *duration - to_seconds(Sampler::now() - state.trace->begin()));
    if (left <= Seconds(0)) return;
    const int signal = state.signals.take(left);
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT) return;
    state.file.write(state.trace->take());
  }
}

void PowerRecording::finish(int status) {
  State& state = *state_;
  state.energy = state.measurement.end(state.window, kLongestSensorWait);
  state.file.write(state.trace->take(true));
  for (const GrowingFile* file : {&state.file, state.jiffies_file.get()}) {
    if (file == nullptr || file->failure().empty()) continue;
    print_error(fmt::format(
        "{}\n  the rows in {} are incomplete{}", file->failure(), file->path(),
        state.command.empty() ? "" : fmt::format("; the program went on and ended with status {}", status)));
    throw ExitStatus{status != 0 ? status : 1};
  }
  for (const std::string& failure : state.trace->failures()) print_warning(failure);
}

const WindowEnergy& PowerRecording::energy() const { return state_->energy; }

std::size_t PowerRecording::row_count() const { return state_->trace->row_count(); }

const std::string& PowerRecording::path() const { return state_->file.path(); }

std::string PowerRecording::report() const {
  const State& state = *state_;
  std::string text =
      fmt::format("flyball: {}: {} of {}, {:.3f} s\n", path(), counted(static_cast<long>(row_count()), "row"),
                  counted(static_cast<long>(state.trace->device_count()), "device"), state.energy.time.value());
  for (const std::string& put_off : state.trace->put_off()) {
    text += fmt::format(
        "flyball: {}, to take no more than 0.1 % of {}; --period {:g}ms reads every {:g} ms whatever it costs\n",
        put_off, counted(usable_processors(), "processor"), state.sampling.period.value() * 1e3,
        state.sampling.period.value() * 1e3);
  }
  return text;
}

}  // namespace flyball
