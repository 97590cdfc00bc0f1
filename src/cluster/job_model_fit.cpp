// Least squares of the logarithms of predicted over measured values, so that a configuration of a millisecond counts as
// much as one of a second. A weak pull towards the starting point determines what the measurements leave open.
#include <ceres/ceres.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/median.h"
#include "cluster/job_model.h"
#include "cluster/job_model_terms.h"

namespace flyball {
namespace {

constexpr double kPull = 3e-3;
constexpr double kMostGamma = 10.0;
constexpr int kFitIterations = 120;
constexpr int kRefitIterations = 12;

struct TimeRow {
  TimePoint at;
  double log_time = 0.0;
  double weight = 1.0;

  double residual(const double* p, double* slopes) const { return time_terms(p, at, slopes).log_time - log_time; }
};

struct PowerRow {
  PowerConditions at;
  double log_measured = 0.0;  // of one GPU: measured energy over predicted time
  double weight = 1.0;

  double residual(const double* p, double* slopes) const { return log_power(p, at, slopes) - log_measured; }
};

// All measurements and the pull are one block, since Ceres' work per block exceeds that of a row.
template <class Row, int Size>
class FitCost : public ceres::CostFunction {
 public:
  FitCost(std::vector<Row> rows, const std::array<double, Size>& start) : rows_(std::move(rows)), start_(start) {
    set_num_residuals(static_cast<int>(rows_.size()) + Size);
    mutable_parameter_block_sizes()->push_back(Size);
  }

  bool Evaluate(double const* const* parameters, double* residuals, double** jacobians) const override {
    const double* const p = parameters[0];
    double* slopes = jacobians != nullptr ? jacobians[0] : nullptr;
    for (const Row& row : rows_) {
      *residuals++ = row.weight * row.residual(p, slopes);
      if (slopes == nullptr) continue;
      for (int i = 0; i < Size; ++i) slopes[i] *= row.weight;
      slopes += Size;
    }
    for (std::size_t i = 0; i < Size; ++i) residuals[i] = kPull * (p[i] - start_[i]);
    if (slopes == nullptr) return true;
    std::fill_n(slopes, Size * Size, 0.0);
    for (int i = 0; i < Size; ++i) slopes[i * Size + i] = kPull;
    return true;
  }

 private:
  std::vector<Row> rows_;
  std::array<double, Size> start_;
};

double solve(ceres::Problem& problem, int iterations) {
  ceres::Solver::Options options;
  options.max_num_iterations = iterations;
  options.function_tolerance = 1e-7;
  // For the line search after a step that meets a bound: cubic interpolation would need all slopes at every point.
  options.line_search_interpolation_type = ceres::QUADRATIC;
  options.linear_solver_type = ceres::DENSE_NORMAL_CHOLESKY;  // the pull keeps it from being singular
  options.logging_type = ceres::SILENT;
  options.num_threads = 1;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  return summary.IsSolutionUsable() ? summary.final_cost : std::numeric_limits<double>::infinity();
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
  std::size_t i = kLocalSync;
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
  std::vector<TimeRow> rows;
  for (const JobMeasurement& point : measured) {
    rows.push_back(
        {time_point(point.configuration, f0, scales), std::log(point.cost.time.value() / scales.time), point.weight});
  }
  TimeParameters best{};
  double best_cost = std::numeric_limits<double>::infinity();
  for (const TimeParameters& from : starts) {
    TimeParameters p = from;
    for (std::size_t i = 0; i < p.size(); ++i) p[i] = std::max(p[i], i >= kGamma1 ? 1.0 : 0.0);
    p[kGamma1] = std::min(p[kGamma1], kMostGamma);
    p[kGamma2] = std::min(p[kGamma2], kMostGamma);
    ceres::Problem problem;
    problem.AddResidualBlock(new FitCost<TimeRow, kTimeParameters>(rows, p), nullptr, p.data());
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
    model.sync[i] = p[kSyncPower + i] * scale;
  }
  model.theta = p[kTheta];
  model.beta = p[kBeta];
  model.static_power = p[kStaticPower] * scale;
  return model;
}

PowerParameters from_power(const PowerModel& m, double scale) {
  PowerParameters p{};
  for (std::size_t i = 0; i < 4; ++i) {
    p[i] = m.grad[i] / scale;
    p[kSyncPower + i] = m.sync[i] / scale;
  }
  p[kTheta] = m.theta;
  p[kBeta] = m.beta;
  p[kStaticPower] = m.static_power / scale;
  return p;
}

PowerModel fit_power(std::span<const JobMeasurement> measured, Megahertz f0, const Scales& scales,
                     const TimeParameters& time, bool above, const PowerModel* start) {
  PowerParameters p = start != nullptr ? from_power(*start, scales.power)
                      : above          ? PowerParameters{0.01, 0.02, 0.02, 0.03, 1.0, 2.0, 0.02, 0.02, 0.02, 0.02, 0.3}
                                       : PowerParameters{0.03, 0.05, 0.0, 0.0, 1.0, 2.0, 0.03, 0.03, 0.0, 0.0, 0.3};
  p[kTheta] = std::max(p[kTheta], 1.0);
  std::vector<PowerRow> rows;
  for (const JobMeasurement& point : measured) {
    const TimePoint at = time_point(point.configuration, f0, scales);
    if ((at.f >= 1.0) != above || point.cost.energy.value() <= 0.0) continue;
    const TimeTerms terms = time_terms(time.data(), at, nullptr);
    const double iteration = std::exp(terms.log_time);
    // The measured energy over the predicted time is the power that gives the right energy.
    const double power = point.cost.energy.value() / (iteration * scales.time * point.configuration.gpus);
    rows.push_back({{point.configuration.local_batch(), at.f, above, terms.grad / iteration, terms.sync / iteration},
                    std::log(power / scales.power),
                    point.weight});
  }
  ceres::Problem problem;
  problem.AddResidualBlock(new FitCost<PowerRow, kPowerParameters>(std::move(rows), p), nullptr, p.data());
  for (int i = 0; i < kPowerParameters; ++i) problem.SetParameterLowerBound(p.data(), i, i == kTheta ? 1.0 : 0.0);
  problem.SetParameterUpperBound(p.data(), kTheta, 1000.0);
  // Below f0 power is linear in f (eqs. 13, 14): the square and cubic coefficients stay as they are.
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
