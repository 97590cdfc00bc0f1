// All rounds of the fixed point work in the eigenbasis of X'WX, where they cost a pass over the operations each.
#include "account/power_posterior.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>

#include "account/nonnegative_fit.h"

namespace flyball {
namespace {

constexpr double kIdleSpread = 2.0;
constexpr int kMostRounds = 200;
constexpr double kTold = 0.1;  // an operation whose error is below this part of its energy needs no group

}  // namespace

double student_95(double freedom) {
  constexpr double kZ = 1.6448536269514722;
  constexpr double kZ3 = kZ * kZ * kZ;
  constexpr double kZ5 = kZ3 * kZ * kZ;
  const double f = std::max(freedom, 1.0);
  return kZ + (kZ3 + kZ) / (4.0 * f) + (5.0 * kZ5 + 16.0 * kZ3 + 3.0 * kZ) / (96.0 * f * f);
}

PowerPosterior infer_powers(const Eigen::MatrixXd& products, const Eigen::VectorXd& right, double squares,
                            double readings) {
  const Eigen::Index size = right.size();
  const Eigen::MatrixXd whole = products.selfadjointView<Eigen::Lower>();
  const Eigen::VectorXd weights = whole.rowwise().sum();
  Eigen::VectorXd scale = Eigen::VectorXd::Ones(size);
  scale(0) = kIdleSpread;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(scale.asDiagonal() * whole * scale.asDiagonal());
  const Eigen::VectorXd values = solver.eigenvalues().cwiseMax(0.0);
  const Eigen::MatrixXd& basis = solver.eigenvectors();
  const Eigen::VectorXd right_in = basis.transpose() * scale.cwiseProduct(right);
  const Eigen::VectorXd weights_in = basis.transpose() * scale.cwiseProduct(weights);
  Eigen::VectorXd operations = Eigen::VectorXd::Ones(size);
  if (size > 1) operations(0) = 0.0;
  const Eigen::VectorXd mean_of = basis.transpose() * scale.cwiseProduct(operations / operations.sum());

  const double weight = weights.sum();
  const double sum = right.sum();
  PowerPosterior posterior;
  posterior.mean = sum / weight;
  const double expected = std::max(kPriorSpread * posterior.mean, 1e-9);
  const double least_noise = std::max(1e-10 * squares / readings, 1e-18);
  double spread = expected * expected;
  double noise = std::max(0.1 * (squares - posterior.mean * sum) / readings, least_noise);
  double lambda = noise / spread;
  for (int round = 0; round < kMostRounds; ++round) {
    const Eigen::VectorXd pull = right_in - posterior.mean * weights_in;
    const Eigen::VectorXd moved = pull.array() / (values.array() + lambda);
    posterior.determined = (values.array() / (values.array() + lambda)).sum();
    const double mean = posterior.mean;
    const double residual = squares - 2.0 * mean * sum + mean * mean * weight - 2.0 * moved.dot(pull) +
                            (values.array() * moved.array().square()).sum();
    noise = std::max(residual / std::max(readings - posterior.determined, 1.0), least_noise);
    spread = (moved.squaredNorm() + kPriorCount * expected * expected) / (posterior.determined + kPriorCount);
    posterior.mean += mean_of.dot(moved);
    const double next = noise / spread;
    const bool settled = std::abs(std::log(next / lambda)) < 1e-6;
    lambda = next;
    if (settled) break;
  }
  posterior.spread = std::sqrt(spread);
  posterior.noise = std::sqrt(noise);
  const double freedom = std::min(posterior.determined + kPriorCount, readings - posterior.determined);
  posterior.quantile = student_95(freedom);
  const Eigen::MatrixXd half =
      scale.asDiagonal() * basis * (noise / (values.array() + lambda)).sqrt().matrix().asDiagonal();
  posterior.covariance.noalias() = half * half.transpose();

  const Eigen::VectorXd prior_weights = lambda * scale.array().square().inverse();
  Eigen::MatrixXd damped = whole;
  damped.diagonal() += prior_weights;
  posterior.power = nonnegative_minimum(damped, right + posterior.mean * prior_weights);
  return posterior;
}

JointSums join_ends(const Eigen::MatrixXd& products, const Eigen::VectorXd& right, const EndSums& ends,
                    const Eigen::VectorXd& power) {
  const Eigen::Index n = right.size();
  const Eigen::Index m = ends.zy.size();
  const Eigen::Index size = n + m + 1;
  JointSums joint;
  Eigen::MatrixXd& whole = joint.products;
  whole.resize(size, size);
  whole.topLeftCorner(n, n) = products.selfadjointView<Eigen::Lower>();
  whole.block(n, 0, m, n) = ends.zx;
  whole.block(0, n, n, m) = ends.zx.transpose();
  whole.block(n, n, m, m) = ends.zz;
  whole.col(size - 1).head(n) = ends.zx.topRows(n).transpose() * power;
  whole.col(size - 1).segment(n, m) = ends.zz.leftCols(n) * power;
  whole(size - 1, size - 1) = power.dot(ends.zz.topLeftCorner(n, n) * power);
  whole.row(size - 1) = whole.col(size - 1).transpose();
  joint.right.resize(size);
  joint.right << right, ends.zy, power.dot(ends.zy.head(n));
  return joint;
}

Eigen::VectorXd solve_joint(const JointSums& joint, const PowerPosterior& posterior, double lag) {
  const Eigen::Index n = posterior.power.size();
  const Eigen::Index size = joint.right.size();
  const double variance = posterior.noise * posterior.noise;
  Eigen::VectorXd prior = Eigen::VectorXd::Constant(size, variance / (posterior.displaced * posterior.displaced));
  prior.head(n).setConstant(variance / (posterior.spread * posterior.spread));
  prior(0) /= kIdleSpread * kIdleSpread;
  prior(size - 1) = variance / (lag * lag);
  Eigen::MatrixXd damped = joint.products;
  damped.diagonal() += prior;
  Eigen::VectorXd told = joint.right;
  told.head(n) += posterior.mean * prior.head(n);
  return damped.llt().solve(told);
}

void widen_by_ends(PowerPosterior& posterior, const JointSums& joint, double squares, double readings, double lag) {
  const Eigen::Index n = posterior.power.size();
  const Eigen::Index size = joint.right.size();
  const Eigen::Index m = size - n - 1;
  const Eigen::MatrixXd& whole = joint.products;
  const Eigen::VectorXd& told = joint.right;
  const double expected = std::max(kPriorSpread * posterior.mean, 1e-9);
  const double least_noise = std::max(1e-10 * squares / readings, 1e-18);
  double noise = posterior.noise * posterior.noise;
  double spread = posterior.spread * posterior.spread;
  const double weight = whole.diagonal().segment(n, m).sum();
  if (!(weight > 0.0)) return;
  double displaced = noise * readings / weight;  // J^2: all of the noise is of this kind
  Eigen::VectorXd prior(size);
  Eigen::MatrixXd covariance;
  Eigen::VectorXd mean = Eigen::VectorXd::Zero(size);
  Eigen::VectorXd value;
  double determined = 0.0;
  const double cube = std::pow(static_cast<double>(size), 3);
  const int rounds = static_cast<int>(std::clamp(kEndWork / (2.0 * cube), 3.0, 20.0));
  for (int round = 0; round < rounds; ++round) {
    prior.head(n).setConstant(1.0 / spread);
    prior(0) /= kIdleSpread * kIdleSpread;
    prior.segment(n, m).setConstant(1.0 / displaced);
    prior(size - 1) = 1.0 / (lag * lag);
    mean.head(n).setConstant(posterior.mean);
    Eigen::MatrixXd precision = whole / noise;
    precision.diagonal() += prior;
    covariance = precision.llt().solve(Eigen::MatrixXd::Identity(size, size));
    value = covariance * (told / noise + prior.cwiseProduct(mean));
    if (!value.allFinite()) return;
    const Eigen::VectorXd counts = (1.0 - prior.array() * covariance.diagonal().array()).max(0.0);
    const Eigen::VectorXd moved = value - mean;
    const double residual = squares - 2.0 * value.dot(told) + value.dot(whole * value);
    determined = counts.head(n).sum();
    const double at_ends = counts.segment(n, m).sum();
    const double next = std::max(residual / std::max(readings - counts.sum(), 1.0), least_noise);
    Eigen::VectorXd scaled = moved.head(n);
    scaled(0) /= kIdleSpread;
    spread = (scaled.squaredNorm() + kPriorCount * expected * expected) / (determined + kPriorCount);
    const double left = std::max(moved.segment(n, m).squaredNorm() / std::max(at_ends, 1e-6), 1e-12 * displaced);
    const bool settled = std::abs(std::log(left / displaced)) < 0.01 && std::abs(std::log(next / noise)) < 0.001;
    displaced = std::clamp(left, 1e-3 * displaced, 1e3 * displaced);
    noise = next;
    if (n > 1) posterior.mean += scaled.tail(n - 1).mean();
    if (settled) break;
  }
  posterior.spread = std::sqrt(spread);
  posterior.noise = std::sqrt(noise);
  posterior.determined = determined;
  posterior.displaced = std::sqrt(displaced);
  posterior.quantile = student_95(std::min(determined + kPriorCount, readings - determined));
  posterior.covariance = covariance.topLeftCorner(n, n);
  posterior.power = value.head(n).cwiseMax(0.0);
}

std::vector<std::vector<Eigen::Index>> inseparable(const PowerPosterior& posterior, const Eigen::VectorXd& seconds) {
  const Eigen::Index size = seconds.size();
  const Eigen::MatrixXd error = seconds.asDiagonal() * posterior.covariance * seconds.asDiagonal();
  const double quantile = posterior.quantile;
  std::vector<Eigen::Index> doubtful;
  for (Eigen::Index i = 1; i < size; ++i) {
    const double energy = std::max(seconds(i) * posterior.power(i), 0.0);
    if (seconds(i) > 0.0 && quantile * std::sqrt(error(i, i)) > kTold * energy) doubtful.push_back(i);
  }
  // Each is joined with those whose error goes against its own the most, or half as much.
  std::vector<std::size_t> root(doubtful.size());
  std::iota(root.begin(), root.end(), std::size_t{0});
  const auto root_of = [&root](std::size_t i) {
    while (root[i] != i) i = root[i] = root[root[i]];
    return i;
  };
  for (std::size_t i = 0; i < doubtful.size(); ++i) {
    double most = 0.0;
    for (std::size_t k = 0; k < doubtful.size(); ++k) {
      if (k != i) most = std::min(most, error(doubtful[i], doubtful[k]));
    }
    for (std::size_t k = 0; k < doubtful.size() && most < 0.0; ++k) {
      if (k != i && error(doubtful[i], doubtful[k]) <= 0.5 * most) root[root_of(k)] = root_of(i);
    }
  }
  std::map<std::size_t, std::vector<Eigen::Index>> sets;
  for (std::size_t i = 0; i < doubtful.size(); ++i) sets[root_of(i)].push_back(doubtful[i]);
  std::vector<std::vector<Eigen::Index>> groups;
  for (auto& [first, members] : sets) {
    if (members.size() < 2) continue;
    double apart = 0.0;
    double together = 0.0;
    for (const Eigen::Index i : members) {
      apart += error(i, i);
      for (const Eigen::Index k : members) together += error(i, k);
    }
    if (together < 0.25 * apart) groups.push_back(std::move(members));
  }
  std::sort(groups.begin(), groups.end());
  return groups;
}

}  // namespace flyball
