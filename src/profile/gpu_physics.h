// Time and power of a computation at a clock: the arithmetic of docs/profiles.md, for both the synthetic profiles
// (gpu_model.h) and the simulated boards (sim/board.h). These are plain values and inline functions that need nothing
// but the standard library, so that the simulated vendor library can carry them into any process.
//
// A computation consists of two kinds of work, one after the other. Compute-bound work takes time in proportion to 1/f.
// Memory-bound (or link-bound) work takes the same time at any SM clock. Power is busy + dynamic * (V(f)/V(f_max))^2 *
// f/f_max for each kind; where that would pass the limit, the power regulator holds the clock below what was asked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

#include "base/units.h"

namespace flyball {

// What one kind of instruction asks of a GPU.
struct Activity {
  double clocked_share = 0.0;  // of the time at the maximum clock, were there no power limit: the compute-bound part
  Watts compute;               // dynamic power of compute-bound work at the maximum clock
  Watts memory;                // dynamic power of memory-bound work at the maximum clock
};

struct VoltagePoint {
  Megahertz clock;
  double relative = 1.0;  // V(clock) / V(maximum clock)
};

// Does not own the voltage points: rising clocks, at least two, linear between them.
struct GpuCurve {
  Megahertz minimum;
  Megahertz maximum;
  Watts busy;  // while any kernel runs, whatever the clock: leakage, memory, board
  std::span<const VoltagePoint> voltage;
};

[[nodiscard]] inline double relative_voltage(const GpuCurve& gpu, double clock_mhz) {
  const auto points = gpu.voltage;
  if (clock_mhz <= points.front().clock.value()) return points.front().relative;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double low = points[i - 1].clock.value();
    const double high = points[i].clock.value();
    if (clock_mhz > high) continue;
    const double at = (clock_mhz - low) / (high - low);
    return points[i - 1].relative + at * (points[i].relative - points[i - 1].relative);
  }
  return points.back().relative;
}

// Dynamic power at a clock over that at the maximum clock: capacitance times V^2 f.
[[nodiscard]] inline double relative_dynamic(const GpuCurve& gpu, double clock_mhz) {
  const double voltage = relative_voltage(gpu, clock_mhz);
  return voltage * voltage * clock_mhz / gpu.maximum.value();
}

// The clock at which work of that dynamic power really runs when `clock_mhz` is asked for: the highest that keeps
// within `limit`, or the minimum where none does.
[[nodiscard]] inline double regulated_clock(const GpuCurve& gpu, Watts dynamic, Watts limit, double clock_mhz) {
  const double allowed = (limit - gpu.busy) / dynamic;
  if (relative_dynamic(gpu, clock_mhz) <= allowed) return clock_mhz;
  double low = gpu.minimum.value();
  double high = clock_mhz;
  for (int step = 0; step < 60; ++step) {
    const double middle = 0.5 * (low + high);
    (relative_dynamic(gpu, middle) <= allowed ? low : high) = middle;
  }
  return low;
}

// The power at which the regulator holds down the clock, for each kind of work.
struct PhaseLimits {
  Watts compute;
  Watts memory{std::numeric_limits<double>::infinity()};
};

// One computation at a clock. Times are in units of what it would take at the maximum clock without a power limit.
struct Pace {
  double compute_time = 0.0;
  double memory_time = 0.0;
  Watts compute_power;
  Watts memory_power;
  double compute_clock_mhz = 0.0;  // as the regulator holds it
  double memory_clock_mhz = 0.0;   // the SM clock during memory-bound work

  [[nodiscard]] double time() const { return compute_time + memory_time; }
  [[nodiscard]] Watts mean_power() const {
    return (compute_power * compute_time + memory_power * memory_time) / time();
  }
};

// `memory_speed` is the memory clock over its maximum; memory-bound work takes as many times longer, and draws less in
// proportion.
[[nodiscard]] inline Pace pace_of(const GpuCurve& gpu, const Activity& activity, const PhaseLimits& limits,
                                  double clock_mhz, double memory_speed = 1.0) {
  Pace pace;
  const Watts memory = activity.memory * memory_speed;
  pace.compute_clock_mhz = regulated_clock(gpu, activity.compute, limits.compute, clock_mhz);
  pace.memory_clock_mhz = regulated_clock(gpu, memory, limits.memory, clock_mhz);
  pace.compute_time = activity.clocked_share * gpu.maximum.value() / pace.compute_clock_mhz;
  pace.memory_time = (1.0 - activity.clocked_share) / memory_speed;
  pace.compute_power = gpu.busy + activity.compute * relative_dynamic(gpu, pace.compute_clock_mhz);
  pace.memory_power = gpu.busy + memory * relative_dynamic(gpu, pace.memory_clock_mhz);
  return pace;
}

}  // namespace flyball
