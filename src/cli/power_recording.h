// Records the power of a machine's devices into files while a program runs, or until a signal comes: what `flyball
// record` and `flyball account -- CMD` have in common.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "base/units.h"
#include "cli/child_process.h"
#include "cli/measuring_options.h"
#include "client/measurement.h"

namespace flyball {

struct PowerRecordingFiles {
  std::string power;  // "-" is standard output
  std::optional<std::string> jiffies;
  bool mean_powers = false;  // of the power trace, instead of energies
};

// Takes the signals that steer a program (SignalQueue) while it lives. An earlier content of the files stays until the
// program has started. Not thread-safe.
class PowerRecording {
 public:
  // Begins to record, after the sensors have changed twice or half a second. Throws UsageError for options that leave
  // nothing to measure, SystemError where nothing can be measured or a file cannot be written. `options` must outlive
  // this.
  PowerRecording(const MeasuringOptions& options, const PowerRecordingFiles& files);
  ~PowerRecording();
  PowerRecording(const PowerRecording&) = delete;
  PowerRecording& operator=(const PowerRecording&) = delete;

  // Runs the options' command to its end. Throws what run_child() throws.
  ChildEnd run_program();

  // Records until `duration` has passed, a signal says stop, or the file cannot be written.
  void wait(std::optional<Seconds> duration);

  // Writes the last rows, half a second later at most. Where a file could not be written, says so with the program's
  // `status` and throws ExitStatus. Warns of devices that could not be read.
  void finish(int status);

  // After finish():
  [[nodiscard]] const WindowEnergy& energy() const;  // of the whole recording
  [[nodiscard]] std::size_t row_count() const;
  [[nodiscard]] const std::string& path() const;  // of the power trace, as messages call it
  [[nodiscard]] std::string report() const;       // lines for people: rows, devices, length, what was read less often

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace flyball
