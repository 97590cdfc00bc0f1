// What the cluster's engines say about one training iteration of a data-parallel job: how it runs, and what that takes.
#pragma once

#include "base/units.h"

namespace flyball {

// The configuration of a job (PowerFlow section 4). All GPUs of a job run at one clock, and its nodes hold as many of
// them each, as near as the numbers allow.
struct JobConfiguration {
  int gpus = 1;             // n
  int nodes = 1;            // n / r
  double batch_size = 1.0;  // BS, of all GPUs together
  Megahertz clock;          // f

  [[nodiscard]] double local_batch() const { return batch_size / gpus; }                    // bs
  [[nodiscard]] double gpus_per_node() const { return static_cast<double>(gpus) / nodes; }  // r
};

// One iteration; the energy of all its GPUs.
struct IterationCost {
  Seconds time;
  Joules energy;

  [[nodiscard]] Watts power() const { return energy / time; }
};

// What a job takes of each of its GPUs when it has them alone. 0: not stated.
struct GpuUse {
  double utilisation = 0.0;  // share of the time in which others cannot use the GPU, up to 1
  double memory_gib = 0.0;
};

struct JobMeasurement {
  JobConfiguration configuration;
  IterationCost cost;  // energy 0: not measured
  double weight = 1.0;
  GpuUse use{};
};

}  // namespace flyball
