// How long a computation takes, and what it draws, on a GPU model at a locked SM clock: the physics of the synthetic
// profiles. Every device is a data file (data/devices/NAME.toml); docs/profiles.md derives the model and says what its
// numbers were calibrated to.
//
// A computation is two kinds of work in turn. Compute-bound work takes time in proportion to 1/f and draws much power;
// the power regulator holds its clock where it would pass the limit. Memory-bound (or link-bound) work takes the same
// time at any clock, and draws less. Power is busy + dynamic * (V(f)/V(f_max))^2 * f/f_max for each kind. From these
// two follow what is seen on real GPUs: a flat top, where lower clocks save energy at nearly no time, and a valley, the
// least-energy clock, at the knee of the voltage curve.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "profile/profile.h"

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

// Immutable; safe to share between threads.
struct GpuModel {
  std::string name;   // "a100-pcie"
  std::string title;  // "NVIDIA A100 80 GB PCIe"
  Megahertz minimum;
  Megahertz maximum;
  Megahertz step;
  Watts limit;                        // of the data sheet
  Watts phase_limit;                  // where the regulator holds the clock of compute-bound work
  Watts busy;                         // while any kernel runs, whatever the clock: leakage, memory, board
  Watts blocking;                     // blocked on communication (P_blocking of Perseus eq. 3)
  std::vector<VoltagePoint> voltage;  // rising clocks; linear between the points
  double sustained_tflops = 0.0;      // of training at the maximum clock
  Activity forward;                   // of a workload without an own fit for this GPU
  Activity backward;

  // All clocks that can be locked, highest first.
  [[nodiscard]] std::vector<Megahertz> clocks() const;

  // The same work at `clock`, given what it takes at the maximum clock (power limit at work included). Exact, without
  // noise; continuous in `clock`, which is clamped to the clocks of the GPU.
  [[nodiscard]] ClockOption run(const Activity& activity, Seconds time_at_maximum, Megahertz clock) const;
};

// Names of all GPU models, sorted; short names ("a100" for "a100-pcie") are not listed.
[[nodiscard]] std::vector<std::string> gpu_models();

// The model of that name or short name. Throws UsageError, naming the known ones, when there is none.
[[nodiscard]] GpuModel load_gpu_model(std::string_view name);

}  // namespace flyball
