// Starts with every coefficient free. Each round solves the free ones by Cholesky and exchanges all that are negative
// or have a negative gradient; when their number has not fallen for three rounds, only the last of them.
#include "account/nonnegative_fit.h"

#include <algorithm>
#include <vector>
#include <Eigen/Cholesky>

namespace flyball {
namespace {

// The minimum with all but the free coefficients at zero, and the gradient there.
struct Vertex {
  Eigen::VectorXd x;
  Eigen::VectorXd gradient;
};

Vertex vertex_of(const Eigen::MatrixXd& a, const Eigen::VectorXd& b, const std::vector<char>& free) {
  std::vector<Eigen::Index> columns;
  for (std::size_t i = 0; i < free.size(); ++i) {
    if (free[i] != 0) columns.push_back(static_cast<Eigen::Index>(i));
  }
  const auto count = static_cast<Eigen::Index>(columns.size());
  Eigen::MatrixXd part(count, count);
  Eigen::VectorXd right(count);
  for (Eigen::Index j = 0; j < count; ++j) {
    right(j) = b(columns[static_cast<std::size_t>(j)]);
    for (Eigen::Index i = j; i < count; ++i) {
      part(i, j) = a(columns[static_cast<std::size_t>(i)], columns[static_cast<std::size_t>(j)]);
    }
  }
  Vertex vertex;
  vertex.x = Eigen::VectorXd::Zero(b.size());
  if (count > 0) {
    const Eigen::VectorXd solved = part.selfadjointView<Eigen::Lower>().llt().solve(right);
    for (Eigen::Index j = 0; j < count; ++j) vertex.x(columns[static_cast<std::size_t>(j)]) = solved(j);
  }
  vertex.gradient = a.selfadjointView<Eigen::Lower>() * vertex.x - b;
  return vertex;
}

}  // namespace

Eigen::VectorXd nonnegative_minimum(const Eigen::MatrixXd& a, const Eigen::VectorXd& b) {
  constexpr int kPatience = 3;
  const auto size = static_cast<std::size_t>(b.size());
  const double small = 1e-12 * (b.size() > 0 ? b.cwiseAbs().maxCoeff() : 0.0);
  std::vector<char> free(size, 1);
  std::size_t least = size + 1;
  int patience = kPatience;
  Vertex vertex;
  // Murty's rule needs at most 2^size exchanges in theory and a few in practice.
  for (std::size_t rounds = 0; rounds < 50 + 10 * size; ++rounds) {
    vertex = vertex_of(a, b, free);
    std::vector<std::size_t> wrong;
    for (std::size_t i = 0; i < size; ++i) {
      const auto at = static_cast<Eigen::Index>(i);
      if (free[i] != 0 ? vertex.x(at) < 0.0 : vertex.gradient(at) < -small) wrong.push_back(i);
    }
    if (wrong.empty()) break;
    if (wrong.size() < least) {
      least = wrong.size();
      patience = kPatience;
    } else if (patience > 0) {
      --patience;
    } else {
      wrong = {wrong.back()};
    }
    for (const std::size_t i : wrong) free[i] = free[i] != 0 ? 0 : 1;
  }
  return vertex.x.cwiseMax(0.0);
}

}  // namespace flyball
