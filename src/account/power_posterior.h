// How well readings tell the mean powers of operations: the posterior of a linear model whose variances the readings
// themselves give (empirical Bayes).
//
//   y_k = sum_j x_kj P_j + e_k     e_k of variance noise^2 / w_k,   P_j of mean `mean` and variance spread^2
//
// x_kj is the share of reading k in which operation j ran, w_k the reading's weight. The posterior covariance is
// noise^2 (X'WX + lambda I)^-1 with lambda = noise^2 / spread^2; noise, spread and mean are found by MacKay's fixed
// point (Neural Computation 4, 1992). Where readings tell nothing (operations that always run in one ratio) the spread
// itself is unknown. An inverse-gamma prior stands in for it: operations draw `kPriorSpread` of the mean more or less,
// which counts as much as `kPriorCount` operations of known power. Column 0, idle power, may be twice as far away.
#pragma once

#include <vector>
#include <Eigen/Core>

namespace flyball {

inline constexpr double kPriorSpread = 0.4;  // of the mean; kernels of a GPU draw from 0.3 to 1 of its limit
inline constexpr double kPriorCount = 8.0;

struct PowerPosterior {
  Eigen::VectorXd power;       // W; never below 0
  Eigen::MatrixXd covariance;  // W^2, of the powers without that bound
  double mean = 0.0;           // W
  double spread = 0.0;         // W
  double noise = 0.0;          // W, of a reading of weight 1
  double determined = 0.0;     // number of directions that the readings decide, from 0 to the number of operations
  double quantile = 0.0;       // half of a 90 % interval over the standard deviation
};

// `products` (lower triangle of sum w x x'), `right` (sum w x y) and `squares` (sum w y^2) are over all readings; the
// x of a reading add up to 1. `readings` is their number, or that of as many independent ones. Cost: an
// eigendecomposition, 9 operations^3. Needs a reading and an operation.
[[nodiscard]] PowerPosterior infer_powers(const Eigen::MatrixXd& products, const Eigen::VectorXd& right, double squares,
                                          double readings);

// Student's t at 0.95 with `freedom` degrees of freedom, to 1 % from 3 on (Abramowitz and Stegun 26.7.5).
[[nodiscard]] double student_95(double freedom);

// Sets of operations of which the readings know the sum and not the parts: parts are nearly in a null direction of X.
// `seconds` are the operations' times; column 0 belongs to none. The energies are seconds times power, their error the
// posterior's. Each set has two members or more, in rising order.
[[nodiscard]] std::vector<std::vector<Eigen::Index>> inseparable(const PowerPosterior& posterior,
                                                                 const Eigen::VectorXd& seconds);

}  // namespace flyball
