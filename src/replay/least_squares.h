// What the fits of an iteration's model share: how Ceres is asked, and how sure its answer is.
#pragma once

#include <ceres/ceres.h>

#include <string>
#include <vector>
#include <Eigen/Dense>

namespace flyball {

// Solves in place and returns half the sum of squares that is left; `source` names the runs in the InputError that is
// thrown where nothing usable is found.
double solve_least_squares(ceres::Problem& problem, const std::string& source);

// The covariance of all parameters of a problem with one cost function, at `blocks`: what its residuals leave open, by
// their own spread. Priors among the residuals keep it finite. Bounds are not seen.
[[nodiscard]] Eigen::MatrixXd covariance_of(const ceres::CostFunction& cost, const std::vector<double*>& blocks);

}  // namespace flyball
