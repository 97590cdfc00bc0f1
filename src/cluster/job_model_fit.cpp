// Least squares of the logarithms of predicted over measured, so that a configuration of a millisecond counts as much as
// one of a second. A weak pull to the starting point settles what the measurements leave open.
#include <ceres/ceres.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cluster/job_model.h"

namespace flyball {
namespace {

constexpr double kPull = 3e-3;
constexpr double kTiny = 1e-12;  // a power of 0 has no derivative
constexpr double kMostGamma = 10.0;
constexpr int kFitIterations = 120;
constexpr int kRefitIterations = 12;

// ---- time: alpha_io beta_io alpha_grad beta_grad kappa_grad, 5 local, 5 node, gamma1 gamma2; times over `scale`,
// what is per sample over `scale / batch`.
constexpr int kTimeParameters = 17;
constexpr int kGamma1 = 15;
constexpr int kGamma2 = 16;
using TimeParameters = std::array<double, kTimeParameters>;

struct TimePoint {
  double bs = 1.0;  // over the typical local batch
  double r = 1.0;
  double n = 1.0;
  bool one_node = true;
  double f = 1.0;
};

template <class T>
struct TimeParts {
  T grad;
  T sync;
  T iteration;
};

template <class T>
TimeParts<T> time_parts(const T* const p, const TimePoint& at) {
  using std::pow;
  const T io = p[0] + p[1] * (at.bs * at.r) + kTiny;
  const T grad = p[2] + (p[3] + p[4] / at.f) * at.bs + kTiny;
  const T local = pow(pow(io, p[kGamma1]) + pow(grad, p[kGamma1]), 1.0 / p[kGamma1]);
  if (at.n < 2.0) return {grad, T(0.0), local};
  const T* const s = p + (at.one_node ? 5 : 10);
  const T sync = s[0] / at.f + (s[1] / at.f + s[2] + s[4] / at.n) * (at.n - 2.0) + s[3] + kTiny;
  return {grad, sync, pow(pow(local, p[kGamma2]) + pow(sync, p[kGamma2]), 1.0 / p[kGamma2])};
}

struct TimeResidual {
  TimePoint at;
  double log_time;
  double weight;

  template <class T>
  bool operator()(const T* const p, T* residual) const {
    using std::log;
    residual[0] = weight * (log(time_parts(p, at).iteration) - log_time);
    return true;
  }
};

// A residual of some of a block's parameters: derivatives by the others are 0, and not carried through the arithmetic.
template <class Residual, int Size, int Used>
class PartialCost : public ceres::SizedCostFunction<1, Size> {
 public:
  PartialCost(Residual residual, const std::array<int, Used>& used) : residual_(residual), used_(used) {}

  bool Evaluate(double const* const* parameters, double* residuals, double** jacobians) const override {
    const double* const values = parameters[0];
    if (jacobians == nullptr || jacobians[0] == nullptr) return residual_(values, residuals);
    using Jet = ceres::Jet<double, Used>;
    std::array<Jet, Size> p;
    for (std::size_t i = 0; i < Size; ++i) p[i].a = values[i];
    for (std::size_t i = 0; i < Used; ++i) p[static_cast<std::size_t>(used_[i])].v[static_cast<int>(i)] = 1.0;
    Jet result;
    residual_(p.data(), &result);
    residuals[0] = result.a;
    std::fill_n(jacobians[0], Size, 0.0);
    for (std::size_t i = 0; i < Used; ++i) jacobians[0][used_[i]] = result.v[static_cast<int>(i)];
    return true;
  }

 private:
  Residual residual_;
  std::array<int, Used> used_;
};

ceres::CostFunction* cost_of(const TimeResidual& residual) {
  if (residual.at.n < 2.0) {
    return new PartialCost<TimeResidual, kTimeParameters, 6>(residual, {0, 1, 2, 3, 4, kGamma1});
  }
  const int sync = residual.at.one_node ? 5 : 10;
  return new PartialCost<TimeResidual, kTimeParameters, 12>(
      residual, {0, 1, 2, 3, 4, sync, sync + 1, sync + 2, sync + 3, sync + 4, kGamma1, kGamma2});
}

template <int Size>
struct Pull {
  std::array<double, Size> start;

  template <class T>
  bool operator()(const T* const p, T* residual) const {
    for (int i = 0; i < Size; ++i) residual[i] = kPull * (p[i] - start[static_cast<std::size_t>(i)]);
    return true;
  }
};

// ---- power on one side of f0: 4 kappa_grad, theta, beta, 4 sync, static; powers over `scale`.
constexpr int kPowerParameters = 11;
using PowerParameters = std::array<double, kPowerParameters>;

struct PowerResidual {
  double bs;  // samples
  double f;
  double grad_time;  // over the iteration's
  double sync_time;
  bool above;
  double log_power;  // of one GPU, measured energy over predicted time
  double weight;

  template <class T>
  bool operator()(const T* const p, T* residual) const {
    using std::log;
    const auto polynomial = [&](const T* const c) { return ((c[3] * f + c[2]) * f + c[1]) * f + c[0]; };
    const T grad = polynomial(p) * (log(bs + p[4]) + p[5]);
    const T still = above ? T(p[10] * f) : p[10];
    residual[0] = weight * (log(grad * grad_time + polynomial(p + 6) * sync_time + still + kTiny) - log_power);
    return true;
  }
};

double solve(ceres::Problem& problem, int iterations) {
  ceres::Solver::Options options;
  options.max_num_iterations = iterations;
  options.function_tolerance = 1e-7;
  options.linear_solver_type = ceres::DENSE_QR;
  options.logging_type = ceres::SILENT;
  options.num_threads = 1;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  return summary.IsSolutionUsable() ? summary.final_cost : std::numeric_limits<double>::infinity();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Scales {
  double time = 1.0;
  double batch = 1.0;
  double power = 1.0;
};

TimePoint time_point(const JobConfiguration& configuration, Megahertz f0, const Scales& scales) {
  return {configuration.local_batch() / scales.batch, configuration.gpus_per_node(),
          static_cast<double>(configuration.gpus), configuration.nodes == 1, configuration.clock / f0};
}

TimeParameters to_parameters(const ThroughputModel& m, const Scales& s) {
  const double per_sample = s.batch / s.time;
  TimeParameters p{m.alpha_io / s.time, m.beta_io * per_sample, m.alpha_grad / s.time, m.beta_grad * per_sample,
                   m.kappa_grad * per_sample};
  std::size_t i = 5;
  for (const SyncModel* sync : {&m.local, &m.node}) {
    for (const double value : {sync->alpha, sync->kappa, sync->beta, sync->theta, sync->rho}) p[i++] = value / s.time;
  }
  p[kGamma1] = m.gamma1;
  p[kGamma2] = m.gamma2;
  return p;
}

ThroughputModel to_model(const TimeParameters& p, const Scales& s) {
  const double per_sample = s.time / s.batch;
  ThroughputModel m;
  m.alpha_io = p[0] * s.time;
  m.beta_io = p[1] * per_sample;
  m.alpha_grad = p[2] * s.time;
  m.beta_grad = p[3] * per_sample;
  m.kappa_grad = p[4] * per_sample;
  m.local = {p[5] * s.time, p[6] * s.time, p[7] * s.time, p[8] * s.time, p[9] * s.time};
  m.node = {p[10] * s.time, p[11] * s.time, p[12] * s.time, p[13] * s.time, p[14] * s.time};
  m.gamma1 = p[kGamma1];
  m.gamma2 = p[kGamma2];
  return m;
}

TimeParameters fit_time(std::span<const JobMeasurement> measured, Megahertz f0, const Scales& scales,
                        const ThroughputModel* start) {
  std::vector<TimeParameters> starts;
  if (start != nullptr) {
    starts.push_back(to_parameters(*start, scales));
  } else {
    for (const auto& [gamma1, gamma2] : {std::pair(1.3, 1.3), std::pair(4.0, 4.0), std::pair(4.0, 1.2)}) {
      starts.push_back(
          {0.02, 0.02, 0.1, 0.3, 0.5, 0.02, 0.01, 0.01, 0.1, 0.02, 0.02, 0.01, 0.01, 0.2, 0.02, gamma1, gamma2});
    }
  }
  TimeParameters best{};
  double best_cost = std::numeric_limits<double>::infinity();
  for (const TimeParameters& from : starts) {
    TimeParameters p = from;
    for (std::size_t i = 0; i < p.size(); ++i) p[i] = std::max(p[i], i >= kGamma1 ? 1.0 : 0.0);
    p[kGamma1] = std::min(p[kGamma1], kMostGamma);
    p[kGamma2] = std::min(p[kGamma2], kMostGamma);
    ceres::Problem problem;
    for (const JobMeasurement& point : measured) {
      problem.AddResidualBlock(cost_of({time_point(point.configuration, f0, scales),
                                        std::log(point.cost.time.value() / scales.time), point.weight}),
                               nullptr, p.data());
    }
    problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Pull<kTimeParameters>, kTimeParameters, kTimeParameters>(
                                 new Pull<kTimeParameters>{p}),
                             nullptr, p.data());
    for (int i = 0; i < kTimeParameters; ++i) {
      problem.SetParameterLowerBound(p.data(), i, i >= kGamma1 ? 1.0 : 0.0);
      if (i >= kGamma1) problem.SetParameterUpperBound(p.data(), i, kMostGamma);
    }
    const double cost = solve(problem, start != nullptr ? kRefitIterations : kFitIterations);
    if (cost >= best_cost) continue;
    best_cost = cost;
    best = p;
  }
  if (!std::isfinite(best_cost)) throw Error("the throughput model cannot be fitted to these measurements");
  return best;
}

PowerModel to_power(const PowerParameters& p, double scale) {
  PowerModel model;
  for (std::size_t i = 0; i < 4; ++i) {
    model.grad[i] = p[i] * scale;
    model.sync[i] = p[6 + i] * scale;
  }
  model.theta = p[4];
  model.beta = p[5];
  model.static_power = p[10] * scale;
  return model;
}

PowerParameters from_power(const PowerModel& m, double scale) {
  PowerParameters p{};
  for (std::size_t i = 0; i < 4; ++i) {
    p[i] = m.grad[i] / scale;
    p[6 + i] = m.sync[i] / scale;
  }
  p[4] = m.theta;
  p[5] = m.beta;
  p[10] = m.static_power / scale;
  return p;
}

PowerModel fit_power(std::span<const JobMeasurement> measured, Megahertz f0, const Scales& scales,
                     const TimeParameters& time, bool above, const PowerModel* start) {
  PowerParameters p = start != nullptr ? from_power(*start, scales.power)
                      : above          ? PowerParameters{0.01, 0.02, 0.02, 0.03, 1.0, 2.0, 0.02, 0.02, 0.02, 0.02, 0.3}
                                       : PowerParameters{0.03, 0.05, 0.0, 0.0, 1.0, 2.0, 0.03, 0.03, 0.0, 0.0, 0.3};
  p[4] = std::max(p[4], 1.0);
  ceres::Problem problem;
  for (const JobMeasurement& point : measured) {
    const TimePoint at = time_point(point.configuration, f0, scales);
    if ((at.f >= 1.0) != above || point.cost.energy.value() <= 0.0) continue;
    const TimeParts<double> parts = time_parts(time.data(), at);
    // Energy over the predicted time: what the model's power must be for the energy to come out right.
    const double power = point.cost.energy.value() / (parts.iteration * scales.time * point.configuration.gpus);
    auto* residual = new PowerResidual{point.configuration.local_batch(),
                                       at.f,
                                       parts.grad / parts.iteration,
                                       parts.sync / parts.iteration,
                                       above,
                                       std::log(power / scales.power),
                                       point.weight};
    problem.AddResidualBlock(new ceres::AutoDiffCostFunction<PowerResidual, 1, kPowerParameters>(residual), nullptr,
                             p.data());
  }
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Pull<kPowerParameters>, kPowerParameters, kPowerParameters>(
                               new Pull<kPowerParameters>{p}),
                           nullptr, p.data());
  for (int i = 0; i < kPowerParameters; ++i) problem.SetParameterLowerBound(p.data(), i, i == 4 ? 1.0 : 0.0);
  problem.SetParameterUpperBound(p.data(), 4, 1000.0);
  // Linear below f0 (eqs. 13, 14).
  if (!above) problem.SetManifold(p.data(), new ceres::SubsetManifold(kPowerParameters, {2, 3, 8, 9}));
  if (!std::isfinite(solve(problem, start != nullptr ? kRefitIterations : kFitIterations))) {
    throw Error("the energy model cannot be fitted to these measurements");
  }
  return to_power(p, scales.power);
}

double at_break(const double (&c)[4]) { return c[0] + c[1] + c[2] + c[3]; }

// Below f0 the voltage does not change: dynamic power is proportional to f and static power stays.
PowerModel continued_below(const PowerModel& high) {
  PowerModel low = high;
  for (double(*c)[4] : {&low.grad, &low.sync}) {
    const double value = at_break(*c);
    (*c)[0] = (*c)[2] = (*c)[3] = 0.0;
    (*c)[1] = value;
  }
  return low;
}

// Above f0 the voltage rises with f: dynamic power goes with f^3, static power with f.
PowerModel continued_above(const PowerModel& low) {
  PowerModel high = low;
  for (double(*c)[4] : {&high.grad, &high.sync}) {
    const double value = at_break(*c);
    (*c)[0] = (*c)[1] = (*c)[2] = 0.0;
    (*c)[3] = value;
  }
  return high;
}

}  // namespace

JobModel fit_job_model(std::span<const JobMeasurement> measured, Megahertz f0, const JobModel* start) {
  if (measured.empty()) throw Error("no measurements to fit a performance model to");
  std::vector<double> times;
  std::vector<double> batches;
  std::vector<double> powers;
  bool below = false;
  bool above = false;
  for (const JobMeasurement& point : measured) {
    times.push_back(point.cost.time.value());
    batches.push_back(point.configuration.local_batch());
    if (point.cost.energy.value() <= 0.0) continue;
    powers.push_back(point.cost.power().value() / point.configuration.gpus);
    (point.configuration.clock < f0 ? below : above) = true;
  }
  Scales scales;
  scales.time = median(times);
  scales.batch = median(batches);
  if (!powers.empty()) scales.power = median(powers);

  const TimeParameters time = fit_time(measured, f0, scales, start != nullptr ? &start->throughput() : nullptr);
  PowerModel low = start != nullptr ? start->low() : PowerModel{};
  PowerModel high = start != nullptr ? start->high() : PowerModel{};
  if (below) low = fit_power(measured, f0, scales, time, false, start != nullptr ? &low : nullptr);
  if (above) high = fit_power(measured, f0, scales, time, true, start != nullptr ? &high : nullptr);
  if (above && !below) low = continued_below(high);
  if (below && !above) high = continued_above(low);
  return {f0, to_model(time, scales), low, high};
}

}  // namespace flyball
