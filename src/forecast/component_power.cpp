#include "forecast/component_power.h"

#include <cassert>
#include <cmath>
#include <cstddef>

namespace flyball {

Watts total_power(Watts dynamic_power, Watts static_power) { return dynamic_power + static_power; }

Watts cmos_dynamic_power(double activity, double capacitance_f, double volts, Megahertz frequency) {
  return Watts(activity * capacitance_f * volts * volts * frequency.value() * 1e6);
}

Watts cmos_static_power(double leakage_amperes, double volts, double transistors) {
  return Watts(transistors * leakage_amperes * volts);
}

Watts leakage_power(double volts, double kelvin, const std::array<double, 6>& constants) {
  const auto& [k1, k2, k3, k4, k5, k6] = constants;
  return Watts(volts * (k1 * kelvin * kelvin * std::exp((k2 * volts + k3) / kelvin) + k4 * std::exp(k5 * volts + k6)));
}

Joules counted_energy(std::span<const EventCost> events) {
  Joules sum(0);
  for (const EventCost& event : events) sum += event.count * event.energy;
  return sum;
}

Watts multicore_power(std::span<const double> activities, std::span<const Watts> components, Watts static_power) {
  assert(components.empty() ? activities.empty() : activities.size() % components.size() == 0);
  Watts sum = static_power;
  for (std::size_t i = 0; i < activities.size(); ++i) sum += activities[i] * components[i % components.size()];
  return sum;
}

Watts queueing_power(int cores, double utilisation, Watts at_speed, Watts idle) {
  return cores * (utilisation * at_speed + idle);
}

Watts queueing_power(int cores, double arrival_rate, Seconds work, Watts at_speed, Watts idle) {
  return arrival_rate * work.value() * at_speed + cores * idle;
}

Watts gpu_power(std::span<const GpuComponent> components, Watts idle_multiprocessors, Watts static_power) {
  Watts sum = idle_multiprocessors + static_power;
  for (const GpuComponent& component : components) sum += component.activity * component.peak;
  return sum;
}

Joules tensor_accelerator_energy(Joules mac, Joules dram_to_sram, Joules sram, Joules rest) {
  return mac + dram_to_sram + sram + rest;
}

Watts dram_power(Watts static_power, double joules_per_byte_read, double read_bytes_per_s,
                 double joules_per_byte_written, double written_bytes_per_s) {
  return static_power + Watts(joules_per_byte_read * read_bytes_per_s + joules_per_byte_written * written_bytes_per_s);
}

Joules memory_system_energy(Joules instruction_cache, Joules data_cache, Joules buses, Joules pads, Joules memory) {
  return instruction_cache + data_cache + buses + pads + memory;
}

Joules algorithm_memory_energy(const MemoryWork& work, Watts static_power, Watts standby_power,
                               Joules activation_energy, Watts access_power) {
  const auto activations = static_cast<double>(work.activations);
  const double accesses = static_cast<double>(work.reads) + static_cast<double>(work.writes);
  return static_power * work.time + standby_power * work.activation_time * activations +
         activation_energy * activations + access_power * work.access_time * accesses;
}

Watts server_peak_power(int processors, Watts processor, int memory_modules, int disks, Watts disk) {
  constexpr Watts kMemoryModule{9.0};
  constexpr double kChassisFactor = 1.3;
  constexpr Watts kChassis{100.0};
  return kChassisFactor * (processors * processor + memory_modules * kMemoryModule + disks * disk) + kChassis;
}

Joules phase_energy(std::span<const PhasePower> phases) {
  Joules sum(0);
  for (const PhasePower& phase : phases) sum += phase.power * phase.time;
  return sum;
}

Joules network_energy(std::span<const LayerEnergy> layers) {
  Joules sum(0);
  for (const LayerEnergy& layer : layers) sum += layer.computation + layer.data;
  return sum;
}

}  // namespace flyball
