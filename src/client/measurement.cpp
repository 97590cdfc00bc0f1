// A window is the sampler's own; what is kept beside it is how many readings of each meter had failed at its begin, to
// tell whether some failed within it.
#include "client/measurement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "measure/meters.h"

namespace flyball {
namespace {

// A device that is not there, or that refuses, is noted as unavailable.
template <class Action>
void try_to(MachineDevices& machine, Action action) {
  try {
    action();
  } catch (const DeviceError& error) {
    machine.unavailable.push_back(error);
  }
}

void keep_only(MachineDevices& machine, const std::vector<std::size_t>& wanted) {
  std::vector<std::shared_ptr<GpuDevice>> kept;
  for (const std::size_t index : wanted) {
    const auto found = std::find_if(machine.gpus.begin(), machine.gpus.end(),
                                    [&](const auto& gpu) { return gpu->identity().index == index; });
    if (found == machine.gpus.end()) {
      for (const RefusedGpu& refused : machine.refused) {
        if (refused.index == index) throw refused.why;
      }
      std::vector<std::string> known;
      for (const auto& gpu : machine.gpus) known.push_back(gpu->label());
      throw UsageError(
          fmt::format("there is no GPU:{}; this machine has {}", index,
                      known.empty() ? "no GPU that can be opened" : fmt::format("{}", fmt::join(known, ", "))));
    }
    if (std::find(kept.begin(), kept.end(), *found) == kept.end()) kept.push_back(*found);
  }
  machine.gpus = std::move(kept);
}

}  // namespace

MachineDevices open_machine(const MachineOptions& options) {
  MachineDevices machine{open_gpus(options.vendors, options.patience), {}, {}};
  if (options.gpus) keep_only(machine, *options.gpus);
  for (const auto& gpu : machine.gpus) machine.meters.push_back(meter_of(gpu));
  if (!options.cpus) return machine;
  try_to(machine, [&] { machine.cpus = open_rapl(options.powercap); });
  for (const auto& cpu : machine.cpus) {
    try_to(machine, [&] {
      for (Meter& meter : meters_of(cpu)) machine.meters.push_back(std::move(meter));
    });
  }
  return machine;
}

Joules WindowEnergy::total() const {
  Joules sum;
  for (const DeviceEnergy& device : devices) sum += device.energy;
  return sum;
}

bool WindowEnergy::complete() const {
  return std::all_of(devices.begin(), devices.end(), [](const DeviceEnergy& device) { return device.complete; });
}

Measurement::Measurement(MachineDevices machine, Sampler::Options options)
    : machine_(std::move(machine)), sampler_(machine_.meters, options) {}

void Measurement::warm_up(Seconds longest) { sampler_.settle(Sampler::now(), longest); }

std::uint64_t Measurement::begin() {
  sampler_.sample_now();
  Open open;
  for (std::size_t i = 0; i < sampler_.meter_count(); ++i) open.failed.push_back(sampler_.state(i).failed);
  open.begin = Sampler::now();
  const std::uint64_t window = sampler_.open_window(open.begin);
  const std::lock_guard lock(mutex_);
  open_.emplace(window, std::move(open));
  return window;
}

Seconds Measurement::stop(std::uint64_t window) {
  const Nanoseconds end = Sampler::now();
  sampler_.end_window(window, end);
  sampler_.sample_now();
  const std::lock_guard lock(mutex_);
  Open& open = open_.at(window);
  open.end = end;
  return to_seconds(end - open.begin);
}

WindowEnergy Measurement::end(std::uint64_t window, Seconds settle) {
  bool stopped = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(window);
    stopped = found != open_.end() && found->second.end;
  }
  if (!stopped) stop(window);
  Open open;
  {
    const std::lock_guard lock(mutex_);
    open = std::move(open_.extract(window).mapped());
  }
  const Nanoseconds end = *open.end;
  if (settle > Seconds(0)) sampler_.settle(end, settle);
  const std::vector<IntervalEnergy> energies = sampler_.close_window(window);
  WindowEnergy result;
  result.time = to_seconds(end - open.begin);
  for (std::size_t i = 0; i < energies.size(); ++i) {
    const IntervalEnergy& energy = energies[i];
    const MeterState state = sampler_.state(i);
    const bool failed = state.failed > open.failed[i] || !state.answering;
    result.devices.push_back({state.label, energy.energy, energy.mean, energy.peak, energy.source, energy.sensor_period,
                              energy.complete && !failed, failed ? state.failure : std::string()});
  }
  return result;
}

}  // namespace flyball
