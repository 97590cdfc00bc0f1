// What the fits of an iteration's model share: solving by Ceres, and the covariance of the solution.
#pragma once

#include <ceres/ceres.h>

#include <string>
#include <vector>
#include <Eigen/Dense>

namespace flyball {

// Solves the problem in place and returns half the sum of squares that is left. Deterministic. Where no usable solution
// is found, throws InputError, in which `source` names the runs.
double solve_least_squares(ceres::Problem& problem, const std::string& source);

// Returns the covariance of all parameters of a problem with one cost function at the values `blocks`, estimated from
// the residuals' own spread. Priors among the residuals keep it finite; parameters that no residual depends on get
// zero. Bounds on the parameters are not taken into account.
[[nodiscard]] Eigen::MatrixXd covariance_of(const ceres::CostFunction& cost, const std::vector<double*>& blocks);

}  // namespace flyball
