// Two jobs on one GPU: how fast each goes on, and what the board draws. Part of the simulator's truth; policies see
// only what comes of it.
//
// A job that has a GPU alone keeps it for a share u of the time (GpuUse::utilisation), in which others cannot use it.
// Two jobs whose shares add up to more than 1 both slow down until they fit: by c = min(1, 1 / (u_a + u_b)). The rest
// is disturbance, of caches, memory bandwidth and the order of kernels: each loses kDisturbance of the share that the
// other has. So the pace of a, over that when it is alone, is
//
//   c (1 - kDisturbance * c * u_b)
//
// and two jobs that fill a GPU do 0.9 of what they would do by turns, two that need half of it 1.8.
//
// Fitted to measured pairs: the throughputs of ResNet-18 beside itself on a V100, at five batch sizes, published with
// Gavel (Narayanan et al., OSDI 2020; stanford-futuredata/gavel, oracle_throughputs.json). Sums of the two paces are
// 0.93 to 1.43 there, and those of this model 0.06 off on average (at most 0.14), with u = (1 + w) / 2 for a job whose
// work would take a well-filled GPU the share w of its time.
//
// What a board draws while any kernel runs is drawn once; what each job alone draws above that, slowed by c: what is
// lost by disturbance is drawn all the same. So a shared GPU draws no less than the thriftier of the two jobs alone and
// less than both together. At the board's limit both slow down together. Assumed; no measured powers of pairs are
// published.
#pragma once

#include <array>

#include "base/units.h"

namespace flyball {

inline constexpr double kDisturbance = 0.2;

struct GpuTenant {
  double utilisation = 0.0;  // alone, above 0 and up to 1
  Watts power;               // alone, of one GPU
};

struct SharedGpu {
  std::array<double, 2> pace;  // over that of the job alone, above 0 and up to 1
  std::array<Watts, 2> power;  // each job's part; what is drawn once by halves
};

// `busy`: while any kernel runs. A limit below what either draws alone counts as that, and `busy` as no more than
// either.
[[nodiscard]] SharedGpu share_gpu(const std::array<GpuTenant, 2>& tenants, Watts busy, Watts limit);

}  // namespace flyball
