// Writes what a sampler's sensors show as a power trace (docs/formats/power-trace.md): one row for every change, in the
// order of time. Energies begin with the last change before the recording, so that they are known for all of it. Where
// readings fail, a row without a value says so.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "measure/sampler.h"

namespace flyball {

// Not thread-safe.
class PowerRecorder {
 public:
  struct Options {
    Seconds sampling_period = kDefaultSamplingPeriod;  // the sampler's, for the trace's header
    Seconds row_period;                                // least time between two rows of a device
    std::vector<std::size_t> meters;                   // which of the sampler's; empty: all
    bool power = false;                                // mean powers since the row before, instead of energies
  };

  // The recording begins at once. `sampler` must outlive this, and take() must be called before changes leave its
  // history.
  PowerRecorder(const Sampler& sampler, Options options);

  // Returns the rows since the last call, up to the time before which no device can still have a change to report; with
  // `all`, at the end, every row. The first call's text begins with the header.
  [[nodiscard]] std::string take(bool all = false);

  // Returns one sentence for each device of which readings have failed since the begin, so that rows are missing.
  [[nodiscard]] std::vector<std::string> failures() const;

  // Names devices that were read less often than the sampler's period, to cost less (Sampler::Options::most_cost), and
  // how often meanwhile: "CPU:0, DRAM:0 read every 28 ms".
  [[nodiscard]] std::vector<std::string> put_off() const;

  [[nodiscard]] std::size_t row_count() const { return row_count_; }
  [[nodiscard]] std::size_t device_count() const { return devices_.size(); }
  [[nodiscard]] Nanoseconds begin() const { return begin_; }                // CLOCK_MONOTONIC
  [[nodiscard]] Nanoseconds clock_offset() const { return clock_offset_; }  // Unix time less that, at the begin

 private:
  struct Device {
    std::size_t meter = 0;
    std::string label;
    Nanoseconds seen_until = 0;
    std::optional<PowerSample> last_row;
    std::optional<PowerSample> left_out;  // the latest, while no row has followed
    double first_joules = 0.0;
    EnergySource source = EnergySource::kCounter;
    std::size_t failed_before = 0;
    Nanoseconds failures_told = 0;    // failures in a row that began until then have their row
    std::size_t readings_before = 0;  // at the last take
    // While it was read less often than every period.
    Nanoseconds put_off_for = 0;
    std::size_t put_off_readings = 0;
  };
  struct Row {
    Nanoseconds time;
    std::size_t device;
    double value;  // not a number: a reading failed
  };

  [[nodiscard]] std::string header();
  [[nodiscard]] Nanoseconds news_horizon() const;
  void note_readings(Device& device, const MeterState& state, Nanoseconds now);
  void add_rows(std::size_t device, Nanoseconds horizon, bool all);
  void add_row(std::size_t device, const PowerSample& sample);
  void add_failures(std::size_t device, Nanoseconds horizon);

  const Sampler& sampler_;
  Options options_;
  Nanoseconds begin_;
  Nanoseconds clock_offset_;
  std::vector<Device> devices_;
  std::vector<Row> rows_;
  std::size_t row_count_ = 0;
  Nanoseconds taken_at_;
  bool header_taken_ = false;
};

}  // namespace flyball
