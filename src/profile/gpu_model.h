// Models how long a computation takes on a GPU at a locked SM clock, and what it draws: the physics of the synthetic
// profiles. Every device is a data file (data/devices/NAME.toml); docs/profiles.md derives the model and says what its
// numbers were set to.
//
// The arithmetic is in gpu_physics.h. Two things seen on real GPUs follow from it: a flat top, where lower clocks save
// energy and cost nearly no time, and a valley, the clock of least energy, at the knee of the voltage curve.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "profile/gpu_physics.h"
#include "profile/profile.h"

namespace flyball {

// Immutable; safe to share between threads.
struct GpuModel {
  std::string name;   // "a100-pcie"
  std::string title;  // "NVIDIA A100 80 GB PCIe"
  Megahertz minimum;
  Megahertz maximum;
  Megahertz step;
  Watts limit;                        // of the data sheet
  Watts phase_limit;                  // where the regulator holds the clock of compute-bound work
  std::optional<Watts> power_limit;   // of an operation's mean power, in place of phase_limit; none in data files
  Watts busy;                         // while any kernel runs, whatever the clock
  Watts blocking;                     // blocked on communication (P_blocking of Perseus eq. 3)
  std::vector<VoltagePoint> voltage;  // rising clocks; linear between the points
  double sustained_tflops = 0.0;      // of training at the maximum clock
  Activity forward;                   // of workloads that have no fit of their own for this GPU
  Activity backward;

  // Valid as long as the model.
  [[nodiscard]] GpuCurve curve() const { return {minimum, maximum, busy, voltage}; }

  // Returns all clocks that can be locked, highest first.
  [[nodiscard]] std::vector<Megahertz> clocks() const;

  // Returns what work takes at `clock`, given how long it takes at the maximum clock (power limit at work included).
  // The result is exact, without noise, and continuous in `clock`, which is clamped to the clocks of the GPU. Under
  // `power_limit` the clock is held where the operation's mean power reaches it, or at the minimum where it is above it
  // even there: a higher clock changes neither time nor energy. `time_at_maximum` is the time without that limit.
  [[nodiscard]] ClockOption run(const Activity& activity, Seconds time_at_maximum, Megahertz clock) const;
};

// Returns the names of all GPU models, sorted; short names ("a100" for "a100-pcie") are not listed.
[[nodiscard]] std::vector<std::string> gpu_models();

// Returns the model of that name or short name. Throws UsageError, naming the known ones, when there is none.
[[nodiscard]] GpuModel load_gpu_model(std::string_view name);

}  // namespace flyball
