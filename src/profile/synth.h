// Makes synthetic profiles: what `flyball profile synth` prints and examples/profiles/ holds.
//
// They stand in for a measured profile where there is no GPU, and reproduce published ranges (docs/profiles.md); they
// are not measurements, and their header says so. The same request gives the same bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "profile/profile.h"

namespace flyball {

struct SynthRequest {
  std::string gpu = "a100";            // of synth_gpus(), or a short name: "a100" (PCIe), "h100", "h200" (SXM)
  std::string workload = "gpt3-1.3b";  // of synth_workloads()
  int stages = 4;                      // pipeline stages; one GPU of each is profiled
  double noise_relative = 0.0004;      // standard deviation of the measurement noise on each time and energy, 0 to 0.05
  std::uint64_t seed = 1;              // of that noise
  // Of the board, in force while the profile was made: see GpuModel::power_limit. None: the GPU's own.
  std::optional<Watts> power_limit{};
};

struct SynthProfile {
  Profile profile;                   // forward and backward of every stage
  std::vector<std::string> comment;  // for write_profile: that it is synthetic, and how it was made
  std::vector<int> bounds;           // stage s runs layers [bounds[s], bounds[s + 1])
  Watts blocking;                    // power of a GPU that is blocked on communication
  int microbatches = 0;              // of the published run; 0 where none is published
};

// Makes a profile. Clocks go from the highest down, as in an online profiler's sweep, and stop once the energy has
// risen five times in a row. Stages are the published partition where there is one, else the split with the shortest
// longest stage. Throws UsageError for an unknown GPU or workload, more stages than layers, noise outside its range,
// and a power limit that the GPU is above whatever its clock. Thread-safe. Takes milliseconds.
[[nodiscard]] SynthProfile synthesize_profile(const SynthRequest& request);

// Returns the forward time of each layer, for `flyball partition`, as CSV `layer,kind,time` (time in s) with '#' lines
// above. The language-model head is the last layer, as in Perseus table 7. Throws UsageError as above.
[[nodiscard]] std::string synthesize_layer_times(std::string_view gpu, std::string_view workload);

[[nodiscard]] std::vector<std::string> synth_gpus();
[[nodiscard]] std::vector<std::string> synth_workloads();

}  // namespace flyball
