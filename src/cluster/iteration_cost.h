// How a data-parallel job runs one training iteration, and what an iteration takes: the values that the parts of the
// cluster scheduler exchange.
#pragma once

#include "base/units.h"

namespace flyball {

// The configuration of a job (PowerFlow section 4). All its GPUs run at one clock, and are spread over its nodes as
// evenly as the numbers allow.
struct JobConfiguration {
  int gpus = 1;             // n
  int nodes = 1;            // n / r
  double batch_size = 1.0;  // BS, of all GPUs together
  Megahertz clock;          // f

  [[nodiscard]] double local_batch() const { return batch_size / gpus; }                    // bs
  [[nodiscard]] double gpus_per_node() const { return static_cast<double>(gpus) / nodes; }  // r
};

// Time and energy of one iteration; the energy is that of all GPUs.
struct IterationCost {
  Seconds time;
  Joules energy;

  [[nodiscard]] Watts power() const { return energy / time; }
};

// How a job uses each of its GPUs when it has them alone. 0: not stated.
struct GpuUse {
  double utilisation = 0.0;  // share of the time in which others cannot use the GPU, up to 1
  double memory_gib = 0.0;
};

// A measured configuration. `weight` is what it counts for in a fit.
struct JobMeasurement {
  JobConfiguration configuration;
  IterationCost cost;  // energy 0: not measured
  double weight = 1.0;
  GpuUse use{};
};

}  // namespace flyball
