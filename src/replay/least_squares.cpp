// Ceres runs with fixed settings on one thread, so that the same runs give the same fit.
#include "replay/least_squares.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace flyball {

double solve_least_squares(ceres::Problem& problem, const std::string& source) {
  ceres::Solver::Options options;
  options.linear_solver_type = ceres::DENSE_QR;
  options.max_num_iterations = 400;
  options.function_tolerance = 1e-10;
  options.parameter_tolerance = 1e-10;
  options.logging_type = ceres::SILENT;
  options.num_threads = 1;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  if (summary.IsSolutionUsable()) return summary.final_cost;
  throw InputError({source}, "no model of an iteration fits these runs",
                   "check the units of its files (s, J, MHz), and that its ranks are pipeline stages");
}

Eigen::MatrixXd covariance_of(const ceres::CostFunction& cost, const std::vector<double*>& blocks) {
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Index rows = cost.num_residuals();
  Eigen::VectorXd residuals(rows);
  std::vector<RowMajor> parts;
  Eigen::Index columns = 0;
  for (const int size : cost.parameter_block_sizes()) {
    parts.emplace_back(RowMajor::Zero(rows, size));
    columns += size;
  }
  std::vector<double*> jacobians;
  for (RowMajor& part : parts) jacobians.push_back(part.data());
  cost.Evaluate(blocks.data(), residuals.data(), jacobians.data());
  Eigen::MatrixXd jacobian(rows, columns);
  Eigen::Index column = 0;
  for (const RowMajor& part : parts) {
    jacobian.middleCols(column, part.cols()) = part;
    column += part.cols();
  }
  const double variance = residuals.squaredNorm() / static_cast<double>(std::max<Eigen::Index>(1, rows - columns));
  // A parameter that no residual sees keeps a variance of zero rather than an infinite one.
  return variance * (jacobian.transpose() * jacobian).completeOrthogonalDecomposition().pseudoInverse();
}

}  // namespace flyball
