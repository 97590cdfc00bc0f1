// Evaluates the curve of the bound, and runs the flow that finds it (parametric_flow.h).
#include "plan/relaxation.h"

#include <algorithm>
#include <utility>

#include "plan/parametric_flow.h"

namespace flyball {
namespace {

constexpr int kOperationsWithFinestPrices = 2000;
// The step's share grows with the operations to kLargestShare: a round costs more in a larger pipeline.
constexpr double kSharePerOperation = 1e-6;
constexpr double kLargestShare = 0.05;

}  // namespace

BoundCurve::BoundCurve(std::vector<Piece> pieces, Nanoseconds t_star) : pieces_(std::move(pieces)), t_star_(t_star) {
  std::reverse(pieces_.begin(), pieces_.end());
}

double BoundCurve::at(Nanoseconds time) const {
  const Nanoseconds t = std::clamp(time, t_min(), t_star_);
  const auto after = std::upper_bound(pieces_.begin(), pieces_.end(), t,
                                      [](Nanoseconds value, const Piece& piece) { return value < piece.from; });
  const Piece& piece = *(after - 1);
  return piece.intercept - piece.price * static_cast<double>(t);
}

Nanoseconds BoundCurve::least_total(Watts total_blocking) const {
  const double per_ns = total_blocking.value() * 1e-9;
  // Total energy falls as T grows while the price of time exceeds the blocking power.
  const auto flat = std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& p) { return p.price <= per_ns; });
  return flat == pieces_.end() ? t_star_ : flat->from;
}

Watts price_step_of(const ComputationDag& dag, std::span<const CostCurve> curves) {
  if (dag.size() <= kOperationsWithFinestPrices) return kFinestPrice;
  return price_step_of_share(curves, std::min(kLargestShare, kSharePerOperation * dag.size()));
}

Watts price_step_of_share(std::span<const CostCurve> curves, double share) {
  double joules = 0.0;
  double seconds = 0.0;
  for (const CostCurve& curve : curves) {
    joules += curve.front().net_joules - curve.back().net_joules;
    seconds += to_seconds(curve.back().time - curve.front().time).value();
  }
  return seconds > 0.0 ? std::max(kFinestPrice, Watts(share * joules / seconds)) : kFinestPrice;
}

RelaxationResult solve_relaxation(const ComputationDag& dag, std::span<const CostCurve> curves,
                                  const StretchVisitor& visit, std::optional<Watts> price_step) {
  return ParametricFlow(dag, curves, price_step.value_or(price_step_of(dag, curves)).value()).run(visit);
}

std::vector<std::vector<double>> prices_at(const ComputationDag& dag, std::span<const CostCurve> curves,
                                           std::span<const Nanoseconds> times) {
  std::vector<std::vector<double>> prices;
  std::vector<double> present(static_cast<std::size_t>(dag.size()), 0.0);
  ParametricFlow flow(dag, curves, price_step_of(dag, curves).value());
  static_cast<void>(flow.run([&](const FrontierStretch& stretch) {
    for (int i = 0; i < dag.size(); ++i) present[static_cast<std::size_t>(i)] = flow.price(i);
    while (prices.size() < times.size() && times[prices.size()] >= stretch.t_low) prices.push_back(present);
    return prices.size() < times.size();
  }));
  prices.resize(times.size(), present);
  return prices;
}

}  // namespace flyball
