// Power and energy of components where nothing was measured: the models that MC2 builds on (eqs. 4-18), each a plain
// function of the published symbols. Their results are what RUN.toml's powers ask for.
//
// Pure, thread-safe, constant cost (linear where a sequence is passed). Coefficients are the caller's, fitted or from a
// data sheet: nothing here knows a device. No range is checked; a negative coefficient gives a negative power.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/units.h"

namespace flyball {

// Eq. 4: dynamic and static power of a CMOS circuit.
[[nodiscard]] Watts total_power(Watts dynamic_power, Watts static_power);

// Eq. 5: A C V^2 f. `activity` is switches per cycle, `capacitance_f` in farad.
[[nodiscard]] Watts cmos_dynamic_power(double activity, double capacitance_f, double volts, Megahertz frequency);

// Eq. 6: proportional to I_static V; `transistors` is the factor of proportion (1: the current is of the whole chip).
[[nodiscard]] Watts cmos_static_power(double leakage_amperes, double volts, double transistors = 1.0);

// Eq. 7: V (K1 T^2 e^((K2 V + K3) / T) + K4 e^(K5 V + K6)), T in kelvin; K[0] is K1.
[[nodiscard]] Watts leakage_power(double volts, double kelvin, const std::array<double, 6>& constants);

// Eq. 8: the energy of counted events, sum of alpha_i C_i.
struct EventCost {
  double count = 0.0;  // alpha_i
  Joules energy;       // C_i, of one
};
[[nodiscard]] Joules counted_energy(std::span<const EventCost> events);

// Eq. 9: cores of equal build. `activities` holds A_ij core by core (cores x components.size() values), `components`
// P_i. The static power is added once, as its position outside the sum over cores says. Precondition: the sizes fit.
[[nodiscard]] Watts multicore_power(std::span<const double> activities, std::span<const Watts> components,
                                    Watts static_power);

// Eq. 10, M/M/m: m (rho P_s + P*). `idle` is the draw of a core that does nothing, paid by all m.
[[nodiscard]] Watts queueing_power(int cores, double utilisation, Watts at_speed, Watts idle);
// Its other form, lambda R P_s + m P*: `arrival_rate` in tasks per second, `work` the seconds of one task on one core.
[[nodiscard]] Watts queueing_power(int cores, double arrival_rate, Seconds work, Watts at_speed, Watts idle);

// Eq. 11: GPU components by activity factor and peak power, idle multiprocessors, static power.
struct GpuComponent {
  double activity = 0.0;  // alpha a_i, from 0 to 1
  Watts peak;
};
[[nodiscard]] Watts gpu_power(std::span<const GpuComponent> components, Watts idle_multiprocessors, Watts static_power);

// Eq. 12: energy of a tensor accelerator.
[[nodiscard]] Joules tensor_accelerator_energy(Joules mac, Joules dram_to_sram, Joules sram, Joules rest);

// Eq. 13: static power and a share per read and written throughput. The coefficients are joules per byte, the
// throughputs bytes per second.
[[nodiscard]] Watts dram_power(Watts static_power, double joules_per_byte_read, double read_bytes_per_s,
                               double joules_per_byte_written, double written_bytes_per_s);

// Eq. 14: the memory system part by part.
[[nodiscard]] Joules memory_system_energy(Joules instruction_cache, Joules data_cache, Joules buses, Joules pads,
                                          Joules memory);

// Eq. 15: memory energy of an algorithm A.
struct MemoryWork {
  Seconds time;                   // T(A)
  Seconds activation_time;        // T_act(A) of one activation cycle
  std::uint64_t activations = 0;  // alpha(A)
  std::uint64_t reads = 0;        // R(A)
  std::uint64_t writes = 0;       // W(A)
  Seconds access_time;            // T_rdwr
};
[[nodiscard]] Joules algorithm_memory_energy(const MemoryWork& work, Watts static_power, Watts standby_power,
                                             Joules activation_energy, Watts access_power);

// Eq. 16: peak of a database server from its parts list: 9 W per memory module, 30 % and 100 W for the chassis.
[[nodiscard]] Watts server_peak_power(int processors, Watts processor, int memory_modules, int disks, Watts disk);

// Eq. 17: powers and times of consecutive phases (MapReduce's initialisation, map, shuffle, reduce).
struct PhasePower {
  Watts power;
  Seconds time;
};
[[nodiscard]] Joules phase_energy(std::span<const PhasePower> phases);

// Eq. 18, summed over layers: computation, and moving inputs, outputs and weights.
struct LayerEnergy {
  Joules computation;
  Joules data;
};
[[nodiscard]] Joules network_energy(std::span<const LayerEnergy> layers);

}  // namespace flyball
