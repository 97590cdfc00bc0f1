// Options are sorted by time and filtered in one pass; the hull is Andrew's monotone chain. The exponential is fitted
// by Ceres in coordinates scaled to the unit square, from three starting slopes, and its samples go through the same
// chain.
#include "profile/cost_curve.h"

#include <ceres/ceres.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/lower_hull.h"

namespace flyball {
namespace {

void push_convex(CostCurve& curve, CurveVertex next) {
  push_lower_hull(curve, next, [](const CurveVertex& a, const CurveVertex& b) {
    return (b.net_joules - a.net_joules) / static_cast<double>(b.time - a.time);
  });
}

struct ExponentialResidual {
  double t;       // scaled to [0, 1]
  double energy;  // scaled

  template <class T>
  bool operator()(const T* const p, T* residual) const {
    residual[0] = p[0] * exp(p[1] * t) + p[2] - energy;
    return true;
  }
};

}  // namespace

std::vector<std::size_t> pareto_indices(const std::vector<ClockOption>& measured, Watts blocking, double noise) {
  std::vector<std::size_t> sorted(measured.size());
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  std::stable_sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) {
    const Nanoseconds ta = to_nanoseconds(measured[a].time);
    const Nanoseconds tb = to_nanoseconds(measured[b].time);
    return ta != tb ? ta < tb : net_joules(measured[a], blocking) < net_joules(measured[b], blocking);
  });
  std::vector<std::size_t> kept;
  for (const std::size_t k : sorted) {
    if (!kept.empty()) {
      const ClockOption& last = measured[kept.back()];
      const double worth = noise * last.energy.value();
      if (!(net_joules(measured[k], blocking) < net_joules(last, blocking) - worth)) continue;
    }
    kept.push_back(k);
  }
  return kept;
}

std::vector<ClockOption> pareto_options(const std::vector<ClockOption>& measured, Watts blocking, double noise) {
  std::vector<ClockOption> kept;
  for (const std::size_t k : pareto_indices(measured, blocking, noise)) kept.push_back(measured[k]);
  return kept;
}

CostCurve hull_curve(const std::vector<ClockOption>& pareto, Watts blocking) {
  CostCurve curve;
  for (const ClockOption& option : pareto)
    push_convex(curve, {to_nanoseconds(option.time), net_joules(option, blocking)});
  return curve;
}

double ExponentialFit::at(Seconds t) const { return a * std::exp(b * (t - origin).value()) + c; }

ExponentialFit fit_exponential(const std::vector<ClockOption>& pareto, Watts blocking) {
  // Scaled to the unit square: the parameters are then of order one whatever the operation's size.
  const Seconds t0 = pareto.front().time;
  const double t_range = (pareto.back().time - t0).value();
  const double low = net_joules(pareto.back(), blocking);
  const double e_range = net_joules(pareto.front(), blocking) - low;

  ExponentialFit best;
  double best_cost = std::numeric_limits<double>::infinity();
  for (const double start : {-1.0, -3.0, -8.0}) {
    double p[3] = {1.0, start, 0.0};
    ceres::Problem problem;
    for (const ClockOption& option : pareto) {
      auto* cost = new ceres::AutoDiffCostFunction<ExponentialResidual, 1, 3>(new ExponentialResidual{
          (option.time - t0).value() / t_range, (net_joules(option, blocking) - low) / e_range});
      problem.AddResidualBlock(cost, nullptr, p);
    }
    // Falling and convex: a > 0 and b < 0.
    problem.SetParameterLowerBound(p, 0, 1e-6);
    problem.SetParameterUpperBound(p, 1, -1e-6);
    ceres::Solver::Options options;
    options.max_num_iterations = 200;
    options.logging_type = ceres::SILENT;
    options.num_threads = 1;
    ceres::Solver::Summary summary;
    ceres::Solve(options, &problem, &summary);
    if (!summary.IsSolutionUsable() || summary.final_cost >= best_cost) continue;
    best_cost = summary.final_cost;
    best = {p[0] * e_range, p[1] / t_range, p[2] * e_range + low, t0, 0.0};
  }
  if (!std::isfinite(best_cost)) throw Error("no exponential fits the measured options; use the hull cost model");

  double squares = 0.0;
  double gross = 0.0;
  for (const ClockOption& option : pareto) {
    squares += std::pow(best.at(option.time) - net_joules(option, blocking), 2);
    gross += option.energy.value();
  }
  const auto n = static_cast<double>(pareto.size());
  best.rms_relative = std::sqrt(squares / n) / (gross / n);
  return best;
}

CostCurve exponential_curve(const std::vector<ClockOption>& pareto, Watts blocking, Nanoseconds step) {
  if (pareto.size() < 3) return hull_curve(pareto, blocking);
  const ExponentialFit fit = fit_exponential(pareto, blocking);
  const Nanoseconds first = to_nanoseconds(pareto.front().time);
  const Nanoseconds last = to_nanoseconds(pareto.back().time);
  CostCurve curve;
  for (Nanoseconds t = first; t < last; t += step) push_convex(curve, {t, fit.at(to_seconds(t))});
  push_convex(curve, {last, fit.at(to_seconds(last))});
  return curve;
}

}  // namespace flyball
