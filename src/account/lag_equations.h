// How late a counter is: by the operations that run where one reading ends and the next begins.
//
// A counter that is late by d shows in a reading of length T what ran in a time d earlier. To first order, while d is
// short against the operations, its shares are x + d z with
//
//   z = (what ran at its begin - what ran at its end) / T
//
// so that y - P'x = d P'z. The sums tell d for given powers P, and the normal equations that belong to a given d; both
// in turns are Gauss and Newton's iteration.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>
#include <Eigen/Core>

#include "account/power_posterior.h"
#include "account/reading_watch.h"

namespace flyball {

inline constexpr std::size_t kEndShapes = 3;     // by the phase of what runs at an end: constant, linear, square
inline constexpr std::size_t kMostShaped = 150;  // operations; with more, constant alone

struct LagDoubt {
  double seconds = 0.0;   // the lag's standard deviation
  Eigen::VectorXd power;  // W, by which the powers move with a lag that is so much off
};

class LagEquations {
 public:
  using Row = std::vector<std::pair<std::size_t, double>>;
  using Running = std::vector<RunningPart>;

  // Of a reading: its shares, what ran at its ends as parts of 1, its length in seconds, its power and its weight.
  void add(const Row& shares, const Running& first, const Running& last, double seconds, double y, double weight);

  // Returns the lag in seconds for which the powers explain the readings best, from the sums of the fit without lag:
  // `products` (sum w x x', lower triangle) and `right` (sum w x y). `damping` and `prior` are the fit's: it pulls the
  // powers towards `prior` with so much weight. 0 where nothing tells it. Cost: a few factorisations.
  [[nodiscard]] double estimate(const Eigen::MatrixXd& products, const Eigen::VectorXd& right, double damping,
                                double prior) const;

  // What is not known of the lag, by the joint fit of powers and lag, with a standard deviation of `expected` seconds
  // before the readings tell anything. `covariance` is that of the powers for a known lag, `noise` the standard
  // deviation of a reading of weight 1.
  [[nodiscard]] LagDoubt doubt(const Eigen::VectorXd& power, const Eigen::MatrixXd& covariance, double noise,
                               double expected) const;

  // Both must have been grown to `size`.
  void add(const LagEquations& other, std::size_t size);
  [[nodiscard]] EndSums sums(std::size_t size) const;
  void grow(std::size_t size);

 private:
  Eigen::MatrixXd zx_;  // sum w z x'
  Eigen::MatrixXd zz_;  // sum w z z'
  Eigen::VectorXd zy_;  // sum w z y
};

}  // namespace flyball
