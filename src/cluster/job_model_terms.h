// The functions that the performance models are fitted by: logarithms of an iteration's time (eqs. 2-5) and of a GPU's
// power (eqs. 12-15), with their derivatives by the parameters in closed form. Parameters are scaled to a magnitude of
// 1.
#pragma once

#include <array>

namespace flyball {

// The parameters of time, in order: alpha_io, beta_io, alpha_grad, beta_grad, kappa_grad; 5 of SyncModel for one node
// and 5 for several (alpha, kappa, beta, theta, rho); gamma1, gamma2.
inline constexpr int kTimeParameters = 17;
inline constexpr int kLocalSync = 5;
inline constexpr int kNodeSync = 10;
inline constexpr int kGamma1 = 15;
inline constexpr int kGamma2 = 16;
using TimeParameters = std::array<double, kTimeParameters>;

// A configuration, in the paper's symbols.
struct TimePoint {
  double bs = 1.0;  // local batch over the typical one
  double r = 1.0;
  double n = 1.0;
  bool one_node = true;
  double f = 1.0;  // over f0
};

struct TimeTerms {
  double grad = 0.0;      // T_grad
  double sync = 0.0;      // T_sync
  double log_time = 0.0;  // of the iteration
};

// Returns the time of an iteration and its parts. `slopes`, unless null, receives the kTimeParameters derivatives of
// log_time.
[[nodiscard]] TimeTerms time_terms(const double* parameters, const TimePoint& at, double* slopes);

// The parameters of power on one side of f0, in order: 4 of kappa_grad, theta, beta, 4 of synchronisation, and static
// power.
inline constexpr int kPowerParameters = 11;
inline constexpr int kTheta = 4;
inline constexpr int kBeta = 5;
inline constexpr int kSyncPower = 6;
inline constexpr int kStaticPower = 10;
using PowerParameters = std::array<double, kPowerParameters>;

struct PowerConditions {
  double bs = 1.0;          // samples
  double f = 1.0;           // over f0
  bool above = false;       // whether the clock is above f0
  double grad_share = 1.0;  // T_grad and T_sync over the iteration's time
  double sync_share = 0.0;
};

// Returns the logarithm of one GPU's mean power over the iteration. `slopes`, unless null, receives its
// kPowerParameters derivatives.
[[nodiscard]] double log_power(const double* parameters, const PowerConditions& at, double* slopes);

}  // namespace flyball
