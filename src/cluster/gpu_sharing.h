// Models two jobs on one GPU: how fast each one runs, and what the board draws. This is part of the simulator's truth;
// policies see only its effects.
//
// A job that has a GPU alone occupies it for a share u of the time (GpuUse::utilisation), in which others cannot use
// it. If the shares of two jobs add up to more than 1, both slow down by c = min(1, 1 / (u_a + u_b)) so that they fit.
// In addition they disturb each other in caches, memory bandwidth and the order of kernels: each loses kDisturbance
// times the other's share. The speed of a, relative to running alone, is thus
//
//   c (1 - kDisturbance * c * u_b)
//
// so that two jobs that each fill a GPU do 0.9 of what they would do by turns, and two jobs that need half of it 1.8.
//
// The model was fitted to measured pairs: the throughputs of ResNet-18 beside itself on a V100 at five batch sizes,
// published with Gavel (Narayanan et al., OSDI 2020; stanford-futuredata/gavel, oracle_throughputs.json). There, the
// sums of the two relative speeds are 0.93 to 1.43. This model is off by 0.06 on average and 0.14 at most, with
// u = (1 + w) / 2 for a job whose work would take a well-filled GPU the share w of its time.
//
// Power. The power that a board draws while any kernel runs is counted once. What each job draws above that when alone
// is added, reduced by the factor c but not by the disturbance. A shared GPU thus draws no less than the thriftier job
// alone, and less than both together. At the board's limit both jobs slow down together. The model of power is an
// assumption, since no measured powers of pairs are published.
#pragma once

#include <array>

#include "base/units.h"

namespace flyball {

inline constexpr double kDisturbance = 0.2;

// A job that shares a GPU, as it is when it has the GPU alone.
struct GpuTenant {
  double utilisation = 0.0;  // above 0 and up to 1
  Watts power;               // of one GPU
};

struct SharedGpu {
  std::array<double, 2> pace;  // speed relative to running alone, above 0 and up to 1
  std::array<Watts, 2> power;  // each job's part; the power that is counted once is divided in halves
};

// Returns the speeds and powers of two jobs on one GPU. `busy` is the board's power while any kernel runs, and `limit`
// its power limit. Of the powers that the two jobs draw alone, `busy` counts as at most the lesser, and `limit` as at
// least the greater.
[[nodiscard]] SharedGpu share_gpu(const std::array<GpuTenant, 2>& tenants, Watts busy, Watts limit);

}  // namespace flyball
