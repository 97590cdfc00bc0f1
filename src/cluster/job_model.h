// PowerFlow's performance models: the time (eqs. 1-5) and the energy (eqs. 6-17) of an iteration of a data-parallel
// job, as functions of the number of GPUs n, GPUs per node r, local batch bs and clock f. Their parameters are fitted
// to measurements.
//
// Clocks are relative to f0, the clock above which the device's voltage rises (the voltage break), so that every
// parameter has the magnitude of a time or a power. Some equations cannot be meant as printed. They are replaced as
// follows:
//   eq. 4   The branch for several nodes prints beta_sync^local. Here it has a beta of its own, as the text lists it.
//           Both branches also have a term rho (n - 2) / n: what a ring sends per GPU approaches a limit as n grows,
//           which no straight line does. With rho = 0 this is the paper's equation.
//   eq. 5   The outer exponent gamma_2 is 1 / gamma_2. Only then does gamma -> infinity give the maximum, as the text
//           says.
//   eq. 12  "alpha log(bs + theta + beta)" has one parameter too many. Here it is log(bs + theta) + beta; alpha is part
//           of kappa (eq. 13). theta >= 1 keeps the logarithm from falling below 0.
//   eqs. 16, 17 are not printed. By the text and section 5 they are JCT = iterations * T_iter and
//           E = iterations * E_iter.
#pragma once

#include <span>

#include "cluster/iteration_cost.h"

namespace flyball {

// Parameters of eqs. 2-5; seconds, clocks relative to f0, all >= 0.
struct SyncModel {
  double alpha = 0.0;  // of f^-1
  double kappa = 0.0;  // of f^-1 (n - 2)
  double beta = 0.0;   // of (n - 2)
  double theta = 0.0;  // constant
  double rho = 0.0;    // of (n - 2) / n
};

// Parameters of the time of an iteration; seconds, clocks relative to f0, all >= 0.
struct ThroughputModel {
  double alpha_io = 0.0;
  double beta_io = 0.0;
  double alpha_grad = 0.0;
  double beta_grad = 0.0;
  double kappa_grad = 0.0;
  SyncModel local;      // on one node
  SyncModel node;       // on several nodes
  double gamma1 = 1.0;  // >= 1
  double gamma2 = 1.0;  // >= 1
};

// Parameters of eqs. 12-15 on one side of f0: polynomials in f, lowest power first; watts of one GPU, all >= 0. Below
// f0 the polynomials are linear and static power is constant; above f0 they are cubic and static power grows with f.
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

// Fits the model by least squares of the relative errors, within the bounds on the parameters that stand above. With
// `start`, the fit begins there, which suits a refit after a few more observations. Parameters about which no
// measurement tells keep their start values. A side of f0 without measurements takes the other side's power at f0, and
// continues it as the voltage implies. Deterministic. Takes some milliseconds for a few hundred measurements. Throws
// Error when there is no measurement.
[[nodiscard]] JobModel fit_job_model(std::span<const JobMeasurement> measured, Megahertz f0,
                                     const JobModel* start = nullptr);

// Mean absolute errors as fractions of the measured values. The error of energy is over the measurements that have an
// energy, and NaN if none has.
struct ModelError {
  double time = 0.0;
  double energy = 0.0;
};
[[nodiscard]] ModelError model_error(const JobModel& model, std::span<const JobMeasurement> measured);

}  // namespace flyball
