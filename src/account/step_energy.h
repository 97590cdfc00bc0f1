// What a step of the training took: the energy of all devices from its beginning to its end.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "trace/event_trace.h"
#include "trace/operation_table.h"
#include "trace/trace.h"

namespace flyball {

// Means over steps, with the sample standard deviation of single steps. Unlike a footprint's rows they include what a
// device drew while nothing ran on it.
struct StepEnergy {
  struct Device {
    std::string device;
    Joules energy;
  };
  std::size_t steps = 0;  // of which every device's power is known; the rest is left out
  std::size_t left_out = 0;
  Seconds time;
  Joules energy;                // of all devices
  Joules deviation;             // 0 of one step
  std::vector<Device> devices;  // in order of name
  int samples = 0;              // of a step, all ranks together; 0: not known

  [[nodiscard]] Joules of_sample() const { return samples > 0 ? energy / samples : Joules(0); }
};

// Integrates the power over the steps, which are in order of time and disjoint. Reads the source to its end. Cost:
// O((segments + steps) log steps); memory: steps times devices.
[[nodiscard]] StepEnergy energy_of_steps(std::span<const StepSpan> steps, PowerSource& power,
                                         const DeviceTable& devices);

// The mean over the steps of several runs.
[[nodiscard]] StepEnergy mean_of_steps(std::span<const StepEnergy> runs);

// The sum over the nodes of one job, which go through the steps together. Deviations of nodes count as independent.
[[nodiscard]] StepEnergy sum_of_steps(std::span<const StepEnergy> nodes);

}  // namespace flyball
