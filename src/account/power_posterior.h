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
inline constexpr double kEndWork = 4e8;  // operations of floating point

// Sums over the readings of what is at their two ends: z has what runs at the begin less what runs at the end, as parts
// of 1 over the reading's length in seconds. Sizes are those of the powers.
struct EndSums {
  Eigen::MatrixXd zx;  // sum w z x'
  Eigen::MatrixXd zz;  // sum w z z'
  Eigen::VectorXd zy;  // sum w z y
};

struct PowerPosterior {
  Eigen::VectorXd power;       // W; never below 0
  Eigen::MatrixXd covariance;  // W^2, of the powers without that bound
  double mean = 0.0;           // W
  double spread = 0.0;         // W
  double noise = 0.0;          // W, of a reading of weight 1
  double displaced = 0.0;      // J, at a reading's end, by widen_by_ends()
  double determined = 0.0;     // number of directions that the readings decide, from 0 to the number of operations
  double quantile = 0.0;       // half of a 90 % interval over the standard deviation
};

// `products` (lower triangle of sum w x x'), `right` (sum w x y) and `squares` (sum w y^2) are over all readings; the
// x of a reading add up to 1. `readings` is their number, or that of as many independent ones. Cost: an
// eigendecomposition, 9 operations^3. Needs a reading and an operation.
[[nodiscard]] PowerPosterior infer_powers(const Eigen::MatrixXd& products, const Eigen::VectorXd& right, double squares,
                                          double readings);

// The normal equations of powers, of what is displaced at readings' ends, and of the lag that moves `power`.
struct JointSums {
  Eigen::MatrixXd products;
  Eigen::VectorXd right;
};
[[nodiscard]] JointSums join_ends(const Eigen::MatrixXd& products, const Eigen::VectorXd& right, const EndSums& ends,
                                  const Eigen::VectorXd& power);

// Widens `posterior`, which infer_powers() made of the same sums, by what the linear model does not know of: energy
// that shows in the reading before or after the one in which an operation took it. Power that rises within an
// operation, counters that smooth and stamps that are late all do this, and do it alike each time that a reading ends
// in the same operation, so that it does not average out. The model becomes
//
//   y_k = sum_j x_kj P_j + sum_j z_kj (g_j + d P_j) + e_k     g_j of mean 0, d of mean 0 and variance lag^2
//
// whose g_j, in J, have a variance that the readings tell: 0 where the model is right. `lag` is the standard deviation
// of d, in seconds, before the readings tell it. Cost: `kEndWork` operations of floating point, or three inversions of
// a matrix of as many rows as powers and g.
void widen_by_ends(PowerPosterior& posterior, const JointSums& joint, double squares, double readings, double lag);

// The powers, g and d by other readings of the same device, with the variances of `posterior`.
[[nodiscard]] Eigen::VectorXd solve_joint(const JointSums& joint, const PowerPosterior& posterior, double lag);

// Student's t at 0.95 with `freedom` degrees of freedom, to 1 % from 3 on (Abramowitz and Stegun 26.7.5).
[[nodiscard]] double student_95(double freedom);

// Sets of operations of which the readings know the sum and not the parts: parts are nearly in a null direction of X.
// `seconds` are the operations' times; column 0 belongs to none. The energies are seconds times power, their error the
// posterior's. Each set has two members or more, in rising order.
[[nodiscard]] std::vector<std::vector<Eigen::Index>> inseparable(const PowerPosterior& posterior,
                                                                 const Eigen::VectorXd& seconds);

}  // namespace flyball
