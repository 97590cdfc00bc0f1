// A reading's z has the few operations that run at its two ends, so that its sums cost little beside the fit's own.
#include "account/lag_equations.h"

#include <algorithm>
#include <cmath>
#include <Eigen/Cholesky>

namespace flyball {

void LagEquations::add(const Row& shares, const Row& first, const Row& last, double seconds, double y, double weight) {
  Row z;
  for (const auto& [column, part] : first) z.emplace_back(column, part / seconds);
  for (const auto& [column, part] : last) z.emplace_back(column, -part / seconds);
  for (const Row* row : {&shares, static_cast<const Row*>(&z)}) {
    for (const auto& term : *row) grow(term.first + 1);
  }
  for (const auto& [i, a] : z) {
    const auto at = static_cast<Eigen::Index>(i);
    zy_(at) += weight * a * y;
    for (const auto& [k, x] : shares) zx_(at, static_cast<Eigen::Index>(k)) += weight * a * x;
    for (const auto& [k, b] : z) zz_(at, static_cast<Eigen::Index>(k)) += weight * a * b;
  }
}

double LagEquations::estimate(const Eigen::MatrixXd& products, const Eigen::VectorXd& right, double damping,
                              double prior) const {
  constexpr int kRounds = 20;
  const Eigen::Index size = right.size();
  if (zy_.size() < size) return 0.0;
  const Eigen::MatrixXd whole = products.selfadjointView<Eigen::Lower>();
  const auto zx = zx_.topLeftCorner(size, size);
  const auto zz = zz_.topLeftCorner(size, size);
  const auto zy = zy_.head(size);
  double lag = 0.0;
  for (int round = 0; round < kRounds; ++round) {
    Eigen::MatrixXd moved = whole + lag * (zx + zx.transpose()) + (lag * lag) * zz;
    moved.diagonal().array() += damping;
    const Eigen::VectorXd power = moved.llt().solve(((right + lag * zy).array() + damping * prior).matrix());
    const double slope = power.dot(zz * power);
    if (!(slope > 0.0)) return 0.0;
    const double next = power.dot(zy - zx * power) / slope;
    if (!std::isfinite(next)) return 0.0;
    const bool settled = std::abs(next - lag) < 1e-6;
    lag = next;
    if (settled) break;
  }
  return lag;
}

LagDoubt LagEquations::doubt(const Eigen::VectorXd& power, const Eigen::MatrixXd& covariance, double noise,
                             double expected) const {
  const Eigen::Index size = power.size();
  if (zy_.size() < size) return {expected, Eigen::VectorXd::Zero(size)};
  const double variance = noise * noise;
  // Schur's complement of the lag in the normal equations of powers and lag.
  const Eigen::VectorXd common = zx_.topLeftCorner(size, size).transpose() * power;
  const Eigen::VectorXd moved = covariance * common / variance;
  const double own = power.dot(zz_.topLeftCorner(size, size) * power) - common.dot(moved);
  const double precision = std::max(own, 0.0) / variance + 1.0 / (expected * expected);
  const double deviation = 1.0 / std::sqrt(precision);
  return {deviation, deviation * moved};
}

void LagEquations::grow(std::size_t size) {
  const auto wanted = static_cast<Eigen::Index>(size);
  const Eigen::Index old = zy_.size();
  if (wanted <= old) return;
  const Eigen::Index room = std::max<Eigen::Index>(wanted, 2 * old);
  for (Eigen::MatrixXd* sums : {&zx_, &zz_}) {
    sums->conservativeResize(room, room);
    sums->rightCols(room - old).setZero();
    sums->bottomRows(room - old).setZero();
  }
  zy_.conservativeResize(room);
  zy_.tail(room - old).setZero();
}

}  // namespace flyball
