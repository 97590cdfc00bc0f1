// A reading's z has the few operations that run at its two ends, so that its sums cost little beside the fit's own.
#include "account/lag_equations.h"

#include <algorithm>
#include <cmath>
#include <Eigen/Cholesky>

namespace flyball {
namespace {

// Where an operation's constant shape stands; the other shapes, of the first operations alone, follow it.
Eigen::Index place(std::size_t column) {
  const std::size_t shaped = std::min(column, kMostShaped);
  return static_cast<Eigen::Index>(kEndShapes * shaped + (column - shaped));
}

std::vector<Eigen::Index> constant_places(Eigen::Index size) {
  std::vector<Eigen::Index> places;
  for (Eigen::Index i = 0; i < size; ++i) places.push_back(place(static_cast<std::size_t>(i)));
  return places;
}

}  // namespace

void LagEquations::add(const Row& shares, const Running& first, const Running& last, double seconds, double y,
                       double weight) {
  for (const auto& term : shares) grow(term.first + 1);
  Row z;
  const auto add_end = [&](const Running& running, double sign) {
    for (const RunningPart& one : running) {
      grow(one.column + 1);
      const double part = sign * one.part / seconds;
      const double at = 2.0 * one.phase - 1.0;
      const auto first_shape = static_cast<std::size_t>(place(one.column));
      z.emplace_back(first_shape, part);
      if (one.column >= kMostShaped) continue;
      // Legendre's polynomials, of mean square 1
      z.emplace_back(first_shape + 1, part * std::sqrt(3.0) * at);
      z.emplace_back(first_shape + 2, part * std::sqrt(5.0) * (1.5 * at * at - 0.5));
    }
  };
  add_end(first, 1.0);
  add_end(last, -1.0);
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
  if (zx_.cols() < size) return 0.0;
  const Eigen::MatrixXd whole = products.selfadjointView<Eigen::Lower>();
  const std::vector<Eigen::Index> ends = constant_places(size);
  const Eigen::MatrixXd zx = zx_(ends, Eigen::seqN(0, size));
  const Eigen::MatrixXd zz = zz_(ends, ends);
  const Eigen::VectorXd zy = zy_(ends);
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
  if (zx_.cols() < size) return {expected, Eigen::VectorXd::Zero(size)};
  const std::vector<Eigen::Index> ends = constant_places(size);
  const double variance = noise * noise;
  // Schur's complement of the lag in the normal equations of powers and lag.
  const Eigen::MatrixXd zx = zx_(ends, Eigen::seqN(0, size));
  const Eigen::MatrixXd zz = zz_(ends, ends);
  const Eigen::VectorXd common = zx.transpose() * power;
  const Eigen::VectorXd moved = covariance * common / variance;
  const double own = power.dot(zz * power) - common.dot(moved);
  const double precision = std::max(own, 0.0) / variance + 1.0 / (expected * expected);
  const double deviation = 1.0 / std::sqrt(precision);
  return {deviation, deviation * moved};
}

void LagEquations::add(const LagEquations& other, std::size_t size) {
  const auto count = static_cast<Eigen::Index>(size);
  const Eigen::Index ends = place(size);
  zx_.topLeftCorner(ends, count) += other.zx_.topLeftCorner(ends, count);
  zz_.topLeftCorner(ends, ends) += other.zz_.topLeftCorner(ends, ends);
  zy_.head(ends) += other.zy_.head(ends);
}

EndSums LagEquations::sums(std::size_t size) const {
  const auto count = static_cast<Eigen::Index>(size);
  const Eigen::Index shapes = size <= kMostShaped ? Eigen::Index{kEndShapes} : 1;
  // The shapes of an operation follow each other; here all of one shape do.
  std::vector<Eigen::Index> order;
  for (Eigen::Index shape = 0; shape < shapes; ++shape) {
    for (const Eigen::Index at : constant_places(count)) order.push_back(at + shape);
  }
  return {zx_(order, Eigen::seqN(0, count)), zz_(order, order), zy_(order)};
}

void LagEquations::grow(std::size_t size) {
  const auto wanted = static_cast<Eigen::Index>(size);
  const Eigen::Index old = zx_.cols();
  if (wanted <= old) return;
  const Eigen::Index room = std::max<Eigen::Index>(wanted, 2 * old);
  const Eigen::Index old_ends = zy_.size();
  const Eigen::Index ends = place(static_cast<std::size_t>(room));
  zx_.conservativeResize(ends, room);
  zx_.rightCols(room - old).setZero();
  zx_.bottomRows(ends - old_ends).setZero();
  zz_.conservativeResize(ends, ends);
  zz_.rightCols(ends - old_ends).setZero();
  zz_.bottomRows(ends - old_ends).setZero();
  zy_.conservativeResize(ends);
  zy_.tail(ends - old_ends).setZero();
}

}  // namespace flyball
