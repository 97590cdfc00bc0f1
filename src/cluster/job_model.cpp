// PowerFlow's equations in the order of the paper: parts of an iteration, its time, and its power by part.
#include "cluster/job_model.h"

#include <cmath>
#include <limits>

namespace flyball {
namespace {

double polynomial(const double (&coefficients)[4], double f) {
  return ((coefficients[3] * f + coefficients[2]) * f + coefficients[1]) * f + coefficients[0];
}

double sync_time(const SyncModel& sync, int gpus, double f) {  // eq. 4, one branch
  return sync.alpha / f + (sync.kappa / f + sync.beta + sync.rho / gpus) * (gpus - 2) + sync.theta;
}

struct Parts {
  double io = 0.0;
  double grad = 0.0;
  double sync = 0.0;
  double iteration = 0.0;
};

Parts parts_of(const ThroughputModel& model, const JobConfiguration& configuration, double f) {
  Parts parts;
  const double bs = configuration.local_batch();
  parts.io = model.alpha_io + model.beta_io * bs * configuration.gpus_per_node();  // eq. 2
  parts.grad = model.alpha_grad + (model.beta_grad + model.kappa_grad / f) * bs;   // eq. 3
  if (configuration.gpus > 1) {
    parts.sync = sync_time(configuration.nodes == 1 ? model.local : model.node, configuration.gpus, f);
  }
  const double g1 = model.gamma1;
  const double g2 = model.gamma2;
  const double local = std::pow(std::pow(parts.io, g1) + std::pow(parts.grad, g1), 1.0 / g1);
  parts.iteration = std::pow(std::pow(local, g2) + std::pow(parts.sync, g2), 1.0 / g2);  // eq. 5
  return parts;
}

}  // namespace

Seconds JobModel::iteration_time(const JobConfiguration& configuration) const {
  return Seconds(parts_of(throughput_, configuration, configuration.clock / f0_).iteration);
}

IterationCost JobModel::predict(const JobConfiguration& configuration) const {
  const double f = configuration.clock / f0_;
  const Parts parts = parts_of(throughput_, configuration, f);
  const PowerModel& power = f < 1.0 ? low_ : high_;
  const double fill = std::log(configuration.local_batch() + power.theta) + power.beta;
  const double grad = polynomial(power.grad, f) * fill;                                   // eqs. 12, 13
  const double sync = polynomial(power.sync, f);                                          // eq. 14
  const double still = f < 1.0 ? power.static_power : power.static_power * f;             // eq. 15
  const double of_one = grad * parts.grad + sync * parts.sync + still * parts.iteration;  // eqs. 7-9
  return {Seconds(parts.iteration), Joules(of_one * configuration.gpus)};                 // eq. 6
}

ModelError model_error(const JobModel& model, std::span<const JobMeasurement> measured) {
  double time = 0.0;
  double energy = 0.0;
  int energies = 0;
  for (const JobMeasurement& point : measured) {
    const IterationCost predicted = model.predict(point.configuration);
    time += std::abs(predicted.time / point.cost.time - 1.0);
    if (point.cost.energy.value() <= 0.0) continue;
    energy += std::abs(predicted.energy / point.cost.energy - 1.0);
    ++energies;
  }
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  return {measured.empty() ? nothing : time / static_cast<double>(measured.size()),
          energies == 0 ? nothing : energy / energies};
}

}  // namespace flyball
