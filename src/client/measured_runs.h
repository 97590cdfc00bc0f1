// The energy of a program that was run a number of times: mean and spread over its runs, and whether they can be relied
// on.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "client/measurement.h"
#include "driver/device_error.h"

namespace flyball {

struct MeasuredRun {
  WindowEnergy energy;
  int status = 0;  // with which the program ended
};

struct Spread {
  double mean = 0.0;
  double deviation = 0.0;  // standard deviation of the sample; 0 for one run
};

// All runs must have measured the same devices, in the same order; a device is named by its place among them. The
// functions that look at runs need at least one.
struct MeasuredRuns {
  std::vector<std::string> command;
  int asked_for = 1;
  std::vector<MeasuredRun> runs;
  std::vector<DeviceError> unavailable;  // devices that are there and could not be measured at all

  [[nodiscard]] bool ended_early() const { return runs.size() < static_cast<std::size_t>(asked_for); }
  // Whether the device's figure can be relied on in all of the runs; without a device, whether every figure can.
  [[nodiscard]] bool complete(std::size_t device) const;
  [[nodiscard]] bool complete() const;
  // Whether readings of the device are missing in one of the runs.
  [[nodiscard]] bool lacks_readings(std::size_t device) const;

  [[nodiscard]] Spread time() const;                         // s
  [[nodiscard]] Spread total() const;                        // J, of all devices
  [[nodiscard]] Spread energy_of(std::size_t device) const;  // J
  [[nodiscard]] Watts peak_of(std::size_t device) const;     // the highest of all runs
};

}  // namespace flyball
