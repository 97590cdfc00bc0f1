// A step counts if the power of every device that was measured at all is known for nearly all of it.
#include "account/step_energy.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

namespace flyball {
namespace {

constexpr double kKnown = 0.999;  // of a step's time

struct Known {
  Joules energy;
  Seconds time;
};

}  // namespace

StepEnergy energy_of_steps(std::span<const StepSpan> steps, PowerSource& power, const DeviceTable& devices) {
  std::vector<std::vector<Known>> known;  // by device, then step
  PowerSegment segment;
  while (power.next(segment)) {
    if (segment.device >= known.size()) known.resize(segment.device + std::size_t{1});
    std::vector<Known>& own = known[segment.device];
    if (own.empty()) own.resize(steps.size());
    auto step =
        std::partition_point(steps.begin(), steps.end(), [&](const StepSpan& one) { return one.end <= segment.begin; });
    for (; step != steps.end() && step->begin < segment.end; ++step) {
      const Seconds shared = to_seconds(std::min(step->end, segment.end) - std::max(step->begin, segment.begin));
      Known& sum = own[static_cast<std::size_t>(step - steps.begin())];
      sum.energy += segment.power * shared;
      sum.time += shared;
    }
  }
  StepEnergy result;
  std::map<std::string_view, Joules> by_device;
  std::vector<double> energies;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Seconds length = to_seconds(steps[i].end - steps[i].begin);
    const bool whole = std::all_of(known.begin(), known.end(), [&](const std::vector<Known>& own) {
      return own.empty() || own[i].time >= kKnown * length;
    });
    if (!whole || known.empty()) {
      ++result.left_out;
      continue;
    }
    Joules energy;
    for (std::size_t device = 0; device < known.size(); ++device) {
      if (known[device].empty()) continue;
      energy += known[device][i].energy;
      by_device[devices.name(static_cast<DeviceId>(device))] += known[device][i].energy;
    }
    energies.push_back(energy.value());
    result.time += length;
  }
  result.steps = energies.size();
  if (energies.empty()) return result;
  const auto count = static_cast<double>(energies.size());
  result.time = result.time / count;
  for (const auto& [name, energy] : by_device) {
    result.devices.push_back({std::string(name), energy / count});
    result.energy += energy / count;
  }
  double squares = 0.0;
  for (const double energy : energies) squares += std::pow(energy - result.energy.value(), 2);
  if (energies.size() > 1) result.deviation = Joules(std::sqrt(squares / (count - 1.0)));
  return result;
}

StepEnergy mean_of_steps(std::span<const StepEnergy> runs) {
  StepEnergy result;
  std::map<std::string, Joules> by_device;
  for (const StepEnergy& run : runs) {
    const auto count = static_cast<double>(run.steps);
    result.steps += run.steps;
    result.left_out += run.left_out;
    result.time += run.time * count;
    result.energy += run.energy * count;
    for (const StepEnergy::Device& device : run.devices) by_device[device.device] += device.energy * count;
  }
  if (result.steps == 0) return result;
  const auto all = static_cast<double>(result.steps);
  result.time = result.time / all;
  result.energy = result.energy / all;
  for (const auto& [name, energy] : by_device) result.devices.push_back({name, energy / all});
  double squares = 0.0;
  for (const StepEnergy& run : runs) {
    const auto count = static_cast<double>(run.steps);
    squares += std::max(0.0, count - 1.0) * std::pow(run.deviation.value(), 2);
    squares += count * std::pow((run.energy - result.energy).value(), 2);
  }
  if (result.steps > 1) result.deviation = Joules(std::sqrt(squares / (all - 1.0)));
  return result;
}

StepEnergy sum_of_steps(std::span<const StepEnergy> nodes) {
  StepEnergy result;
  if (nodes.empty()) return result;
  result.steps = nodes.front().steps;
  double squares = 0.0;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const StepEnergy& node = nodes[n];
    result.steps = std::min(result.steps, node.steps);
    result.left_out = std::max(result.left_out, node.left_out);
    result.time = std::max(result.time, node.time);
    result.energy += node.energy;
    squares += std::pow(node.deviation.value(), 2);
    for (const StepEnergy::Device& device : node.devices) result.devices.push_back(device);
  }
  result.deviation = Joules(std::sqrt(squares));
  return result;
}

}  // namespace flyball
