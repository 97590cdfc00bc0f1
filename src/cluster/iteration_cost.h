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

struct JobMeasurement {
  JobConfiguration configuration;
  IterationCost cost;  // energy 0: not measured
  double weight = 1.0;
};

}  // namespace flyball
