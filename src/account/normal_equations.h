// The sums over readings that attribution's regression is solved from. Header only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>
#include <Eigen/Core>

#include "account/lag_equations.h"
#include "account/nonnegative_fit.h"
#include "account/power_posterior.h"

namespace flyball {

// The sums of a growing least-squares problem in which readings have weights.
class NormalEquations {
 public:
  void add(const std::vector<std::pair<std::size_t, double>>& row, double y, double weight) {
    for (const auto& term : row) grow(term.first + 1);
    for (const auto& [k, z] : row) {
      const auto at = static_cast<Eigen::Index>(k);
      double* column = products_.col(at).data();
      for (const auto& [i, x] : row) {
        if (k <= i) column[i] += weight * x * z;
      }
      right_(at) += weight * z * y;
      weights_(at) += weight * z;
    }
    ++readings_;
    weight_ += weight;
    sum_ += weight * y;
    squares_ += weight * y * y;
  }

  // Both must have been grown to `size`.
  void add(const NormalEquations& other, std::size_t size) {
    const auto count = static_cast<Eigen::Index>(size);
    products_.topLeftCorner(count, count) += other.products_.topLeftCorner(count, count);
    right_.head(count) += other.right_.head(count);
    weights_.head(count) += other.weights_.head(count);
    readings_ += other.readings_;
    weight_ += other.weight_;
    sum_ += other.sum_;
    squares_ += other.squares_;
  }

  [[nodiscard]] std::size_t readings() const { return readings_; }
  [[nodiscard]] double mean() const { return sum_ / weight_; }
  [[nodiscard]] double weight() const { return weight_; }
  // The readings' variance around their mean; 0 if it is within rounding.
  [[nodiscard]] double variance() const {
    const double square = squares_ / weight_;
    const double variance = square - mean() * mean();
    return variance > 1e-9 * square ? variance : 0.0;
  }
  // The sum of squares that these powers do not explain.
  [[nodiscard]] double residual(const Eigen::VectorXd& power) const {
    const Eigen::Index size = power.size();
    const Eigen::VectorXd fitted = products_.topLeftCorner(size, size).selfadjointView<Eigen::Lower>() * power;
    return std::max(squares_ - 2.0 * power.dot(right_.head(size)) + power.dot(fitted), 1e-12 * squares_);
  }

  // The mean reading while each operation ran, which for counters is the sweep's power. An operation that never ran
  // gets the mean of all readings.
  [[nodiscard]] Eigen::VectorXd mean_powers(std::size_t size) const {
    Eigen::VectorXd power = Eigen::VectorXd::Constant(static_cast<Eigen::Index>(size), mean());
    for (Eigen::Index i = 0; i < power.size(); ++i) {
      if (weights_(i) > 0.0) power(i) = right_(i) / weights_(i);
    }
    return power;
  }

  [[nodiscard]] PowerPosterior posterior(std::size_t size, double apart) const {
    const auto count = static_cast<Eigen::Index>(size);
    return infer_powers(apart * products_.topLeftCorner(count, count), apart * right_.head(count), apart * squares_,
                        apart * static_cast<double>(readings_));
  }

  [[nodiscard]] JointSums joined(const EndSums& ends, const Eigen::VectorXd& power) const {
    const Eigen::Index count = power.size();
    return join_ends(products_.topLeftCorner(count, count), right_.head(count), ends, power);
  }
  [[nodiscard]] double squares() const { return squares_; }

  [[nodiscard]] double lag(const LagEquations& equations, std::size_t size, double lambda, double prior) const {
    const auto count = static_cast<Eigen::Index>(size);
    return equations.estimate(products_.topLeftCorner(count, count), right_.head(count), lambda, prior);
  }

  // The time that each operation shares with each, in readings of weight 1.
  [[nodiscard]] Eigen::MatrixXd common(Eigen::Index size) const {
    return products_.topLeftCorner(size, size).selfadjointView<Eigen::Lower>();
  }
  // Each operation's time less what it shares with each: by the powers, what the sweep takes from it.
  [[nodiscard]] Eigen::MatrixXd mixing(Eigen::Index size) const {
    Eigen::MatrixXd mixing = -common(size);
    mixing.diagonal() += weights_.head(size);
    return mixing;
  }

  // Solves for powers near `prior`, one per column; the larger lambda is, the nearer.
  [[nodiscard]] Eigen::VectorXd solve_with(const Eigen::VectorXd& prior, double lambda) const {
    Eigen::MatrixXd damped = products_.topLeftCorner(prior.size(), prior.size());
    damped.diagonal().array() += lambda;
    return nonnegative_minimum(damped, right_.head(prior.size()) + lambda * prior);
  }

  // Does the same with the lambda that fits the readings, and sets `lambda` to it.
  [[nodiscard]] Eigen::VectorXd solve(const Eigen::VectorXd& prior, double& lambda) const {
    constexpr int kLambdaRounds = 8;
    const auto readings = static_cast<double>(readings_);
    Eigen::VectorXd power;
    lambda = 1e-2;
    for (int round = 0; round < kLambdaRounds; ++round) {
      power = solve_with(prior, lambda);
      const double noise = residual(power) / readings;
      const double spread = std::max((power - prior).squaredNorm() / static_cast<double>(prior.size()), 1e-6);
      const double next = std::clamp(noise / spread, 1e-9 * readings, readings);
      if (std::abs(std::log(next / lambda)) < 0.1) break;
      lambda = next;
    }
    return power;
  }

  void grow(std::size_t size) {
    const auto wanted = static_cast<Eigen::Index>(size);
    if (wanted <= products_.rows()) return;
    const Eigen::Index old = products_.rows();
    const Eigen::Index room = std::max<Eigen::Index>(wanted, 2 * old);
    products_.conservativeResize(room, room);
    products_.rightCols(room - old).setZero();
    products_.bottomRows(room - old).setZero();
    for (Eigen::VectorXd* sums : {&right_, &weights_}) {
      sums->conservativeResize(room);
      sums->tail(room - old).setZero();
    }
  }

 private:
  Eigen::MatrixXd products_;  // lower triangle
  Eigen::VectorXd right_;
  Eigen::VectorXd weights_;
  std::size_t readings_ = 0;
  double weight_ = 0.0;
  double sum_ = 0.0;
  double squares_ = 0.0;
};

// Of operations that add their powers: sum w s x', with the shares s that the sweep gives them.
class SweptSums {
 public:
  void add(const std::vector<std::pair<std::size_t, double>>& shares,
           const std::vector<std::pair<std::size_t, double>>& ran, double weight) {
    for (const auto& term : ran) grow(term.first + 1);
    for (const auto& [i, s] : shares) {
      for (const auto& [k, x] : ran)
        sums_(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(k)) += weight * s * x;
    }
  }

  // By the powers, what the sweep takes from each operation: it should have its own power for as long as it ran, less
  // idle power in what of this time counts as others'.
  [[nodiscard]] Eigen::MatrixXd mixing(std::size_t size) {
    grow(size);
    const auto count = static_cast<Eigen::Index>(size);
    const Eigen::MatrixXd sums = sums_.topLeftCorner(count, count);
    const Eigen::VectorXd shared = sums.rowwise().sum();
    const Eigen::VectorXd ran = sums.colwise().sum();
    Eigen::MatrixXd mixing = -sums;
    for (Eigen::Index i = 1; i < count; ++i) {
      mixing(i, i) += ran(i);
      mixing(i, 0) += shared(i) - ran(i);
    }
    mixing(0, 0) += shared(0);
    return mixing;
  }

 private:
  void grow(std::size_t size) {
    const auto wanted = static_cast<Eigen::Index>(size);
    const Eigen::Index old = sums_.rows();
    if (wanted <= old) return;
    const Eigen::Index room = std::max<Eigen::Index>(wanted, 2 * old);
    sums_.conservativeResize(room, room);
    sums_.rightCols(room - old).setZero();
    sums_.bottomRows(room - old).setZero();
  }

  Eigen::MatrixXd sums_;
};

}  // namespace flyball
