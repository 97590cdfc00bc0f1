// Non-negative least squares on normal equations.
#pragma once

#include <Eigen/Core>

namespace flyball {

// Returns the minimum of 1/2 x'Ax - b'x over x >= 0 for a symmetric, positive definite A, by block principal pivoting
// (Kim and Park, SIAM J. Sci. Comput. 33, 2011), with Murty's single exchanges where blocks make no progress, which
// always ends. Only the lower triangle of A is read. Cost: a few Cholesky factorisations.
[[nodiscard]] Eigen::VectorXd nonnegative_minimum(const Eigen::MatrixXd& a, const Eigen::VectorXd& b);

}  // namespace flyball
