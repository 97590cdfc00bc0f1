// PowerFlow's performance models: the time (eqs. 1-5) and the energy (eqs. 6-17) of an iteration of a data-parallel job
// as functions of the number of GPUs n, GPUs per node r, local batch bs and clock f, with parameters that are fitted to
// what was measured.
//
// Clocks enter relative to f0, the clock above which the device's voltage rises: f = 1 at the voltage break, so that
// all parameters are of the size of a time or a power. Equations that cannot be meant as printed, and what stands here:
//   eq. 4   the node branch prints beta_sync^local; it has a beta of its own, as the text lists.
//           Both branches also have a term rho (n - 2) / n: what a ring sends per GPU saturates with their number,
//           which no line does. With rho = 0 it is the paper's equation.
//   eq. 5   the outer exponent gamma_2 is 1 / gamma_2: only then gamma -> infinity gives the maximum, as the text says.
//   eq. 12  "alpha log(bs + theta + beta)" has one parameter too many: it is log(bs + theta) + beta, alpha being part
//           of kappa (eq. 13). theta >= 1 keeps the logarithm from falling below 0.
//   eqs. 16, 17 are not printed. The text and section 5 give them: JCT = iterations * T_iter, E = iterations * E_iter.
#pragma once

#include <span>

#include "cluster/iteration_cost.h"

namespace flyball {

// Eqs. 2-5; seconds, clocks relative to f0, all >= 0.
struct SyncModel {
  double alpha = 0.0;  // of f^-1
  double kappa = 0.0;  // of f^-1 (n - 2)
  double beta = 0.0;   // of (n - 2)
  double theta = 0.0;  // constant
  double rho = 0.0;    // of (n - 2) / n
};

struct ThroughputModel {
  double alpha_io = 0.0;
  double beta_io = 0.0;
  double alpha_grad = 0.0;
  double beta_grad = 0.0;
  double kappa_grad = 0.0;
  SyncModel local;      // one node
  SyncModel node;       // several nodes
  double gamma1 = 1.0;  // >= 1
  double gamma2 = 1.0;  // >= 1
};

// Eqs. 12-15 on one side of f0: polynomials in f, lowest power first; watts of one GPU, all >= 0. Below f0 the
// polynomials are linear and the static power constant; above they are cubic and the static power grows with f.
struct PowerModel {
  double grad[4] = {0.0, 0.0, 0.0, 0.0};  // kappa_grad
  double theta = 1.0;                     // >= 1
  double beta = 0.0;
  double sync[4] = {0.0, 0.0, 0.0, 0.0};
  double static_power = 0.0;  // P_static below f0, c_h above
};

// Immutable; safe to share between threads.
class JobModel {
 public:
  JobModel() = default;
  JobModel(Megahertz f0, const ThroughputModel& throughput, const PowerModel& low, const PowerModel& high)
      : f0_(f0), throughput_(throughput), low_(low), high_(high) {}

  [[nodiscard]] Seconds iteration_time(const JobConfiguration& configuration) const;  // eq. 5
  [[nodiscard]] IterationCost predict(const JobConfiguration& configuration) const;   // eqs. 5, 6

  [[nodiscard]] Megahertz voltage_break() const { return f0_; }
  [[nodiscard]] const ThroughputModel& throughput() const { return throughput_; }
  [[nodiscard]] const PowerModel& low() const { return low_; }
  [[nodiscard]] const PowerModel& high() const { return high_; }

 private:
  Megahertz f0_{1.0};
  ThroughputModel throughput_;
  PowerModel low_;
  PowerModel high_;
};

// Least squares of the relative errors under the constraints above. With `start`, the fit begins there: the way to
// refit after a few more observations. Parameters that nothing was measured for stay where they began.
// The side of f0 without measurements takes over the other side's power at f0, continued as the voltage says.
// Deterministic; some milliseconds for a few hundred measurements. Throws Error when there is no measurement.
[[nodiscard]] JobModel fit_job_model(std::span<const JobMeasurement> measured, Megahertz f0,
                                     const JobModel* start = nullptr);

// Mean absolute percentage errors, as fractions. Energy over the measurements that have one; NaN for none.
struct ModelError {
  double time = 0.0;
  double energy = 0.0;
};
[[nodiscard]] ModelError model_error(const JobModel& model, std::span<const JobMeasurement> measured);

}  // namespace flyball
