// A sink of reading_watch.h. A reading's row of the normal equations is the sum over the slots within its window. The
// equations are kept for two halves of the readings, whose sum is solved (nonnegative_fit.h) and which foretell each
// other.
#include "account/regression.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <Eigen/Core>

#include "account/lag_equations.h"
#include "account/nonnegative_fit.h"
#include "account/power_posterior.h"
#include "account/reading_watch.h"
#include "account/sweep.h"

namespace flyball {
namespace {

constexpr int kRounds = 8;         // of the search for lambda
constexpr int kBlockWindows = 10;  // a block of readings is so many windows long, so that few windows reach into two

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
  [[nodiscard]] Eigen::VectorXd mixed(const Eigen::VectorXd& power) const { return mixing(power.size()) * power; }

  // Solves for powers near `prior`, one per column; the larger lambda is, the nearer.
  [[nodiscard]] Eigen::VectorXd solve_with(const Eigen::VectorXd& prior, double lambda) const {
    Eigen::MatrixXd damped = products_.topLeftCorner(prior.size(), prior.size());
    damped.diagonal().array() += lambda;
    return nonnegative_minimum(damped, right_.head(prior.size()) + lambda * prior);
  }

  // Does the same with the lambda that fits the readings, and sets `lambda` to it.
  [[nodiscard]] Eigen::VectorXd solve(const Eigen::VectorXd& prior, double& lambda) const {
    const auto readings = static_cast<double>(readings_);
    Eigen::VectorXd power;
    lambda = 1e-2;
    for (int round = 0; round < kRounds; ++round) {
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

struct DeviceReadings {
  std::deque<Slot> history;
  LagEquations lag;
  std::array<NormalEquations, 2> halves;
  Nanoseconds blocks_since = 0;
  std::size_t blocks = 0;   // blocks begun, each of readings that follow each other
  std::vector<double> row;  // scratch, per column
};

class Regression {
 public:
  explicit Regression(const RegressionOptions& options)
      : options_(options),
        window_(to_nanoseconds(options.sensor_window)),
        watch_(options.attribution, kMostUnknowns, *this) {}

  void run(EventSource& events, PowerSource& power) { Sweep<ReadingWatch<Regression>>(watch_).run(events, power); }

  void on_reading(DeviceId id, const PowerSegment& segment) {
    if (window_ > 0 && wanted(id)) add_window(at(id), segment);
  }

  void on_slot(DeviceId id, Slot& slot, Watts power, bool inside) {
    if (!wanted(id)) return;
    DeviceReadings& device = at(id);
    // The gap in the history keeps a sensor's window from reaching out of the profile.
    if (!inside) {
      device.history.clear();
    } else if (window_ > 0) {
      device.history.push_back(std::move(slot));
    } else {
      // Readings are weighted by the length of their segment.
      const double seconds = to_seconds(slot.end - slot.begin).value();
      for (auto& share : slot.shares) share.second /= seconds;
      ++device.blocks;
      half_of(device).add(slot.shares, power.value(), seconds / kUnitSegment);
      if (options_.method != AccountMethod::kRegress) {
        device.lag.add(slot.shares, slot.first, slot.last, seconds, power.value(), seconds / kUnitSegment);
      }
    }
  }

  void on_gap(DeviceId id) { at(id).history.clear(); }

  RegressedAttribution result() {
    RegressedAttribution result;
    result.attribution = watch_.finish();
    devices_.resize(std::max(devices_.size(), watch_.devices()));
    for (DeviceShare& device : result.attribution.devices) {
      if (device.device < watch_.devices() && wanted(device.device)) {
        result.fits.push_back(fit(device, result.attribution));
        device.method = result.fits.back().method;
      }
    }
    return result;
  }

 private:
  [[nodiscard]] bool wanted(DeviceId id) const {
    return options_.devices.empty() || (id < options_.devices.size() && options_.devices[id]);
  }

  DeviceReadings& at(DeviceId id) {
    if (id >= devices_.size()) devices_.resize(id + 1);
    return devices_[id];
  }

  // The half of the readings to which the next one belongs. Blocks are assigned by the sequence of Thue and Morse,
  // which makes the halves equal and never falls into step with a program that repeats itself.
  static NormalEquations& half_of(DeviceReadings& device) {
    return device.halves[static_cast<std::size_t>(std::popcount(device.blocks)) % 2];
  }

  void add_window(DeviceReadings& device, const PowerSegment& reading) {
    const Nanoseconds begin = reading.begin - window_;
    while (!device.history.empty() && device.history.front().end <= begin) device.history.pop_front();
    if (device.history.empty() || device.history.front().begin > begin || device.history.back().end != reading.begin) {
      return;
    }
    std::vector<std::size_t> touched;
    for (const Slot& slot : device.history) {
      // Of the oldest slot only the part within the window counts, as if its work had been spread evenly.
      const double part = slot.begin >= begin
                              ? 1.0
                              : static_cast<double>(slot.end - begin) / static_cast<double>(slot.end - slot.begin);
      for (const auto& [column, seconds] : slot.shares) {
        if (column >= device.row.size()) device.row.resize(column + 1);
        if (device.row[column] == 0.0) touched.push_back(column);
        device.row[column] += part * seconds;
      }
    }
    std::vector<std::pair<std::size_t, double>> row;
    row.reserve(touched.size());
    for (const std::size_t column : touched) {
      row.emplace_back(column, device.row[column] / to_seconds(window_).value());
      device.row[column] = 0.0;
    }
    if (device.blocks == 0 || reading.begin >= device.blocks_since + kBlockWindows * window_) {
      ++device.blocks;
      device.blocks_since = reading.begin;
    }
    half_of(device).add(row, reading.power.value(), 1.0);
  }

  // The readings of one device and what they are to be fitted to, by column.
  struct Problem {
    NormalEquations all;
    std::array<NormalEquations, 2> halves;
    Eigen::VectorXd seconds;
    Eigen::VectorXd joules;  // by the sweep
    std::vector<OperationShare*> operations;
    std::vector<Eigen::Index> columns;  // of the operations
    std::vector<double> own_seconds;    // of the operations, of which some may have one column
  };

  Problem problem_of(const DeviceShare& share, Attribution& attribution) {
    const std::size_t size = watch_.columns(share.device);
    Problem problem;
    problem.halves = std::move(devices_[share.device].halves);
    for (NormalEquations& half : problem.halves) half.grow(size);
    problem.all = problem.halves[0];
    problem.all.add(problem.halves[1], size);
    problem.seconds = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(size));
    problem.joules = problem.seconds;
    problem.seconds(0) = share.idle_time.value();
    problem.joules(0) = share.idle.value();
    for (OperationShare& operation : attribution.operations) {
      if (operation.device != share.device) continue;
      const auto column = static_cast<Eigen::Index>(watch_.column(operation.device, operation.operation));
      const double own = watch_.seconds(operation.device, operation.operation);
      problem.operations.push_back(&operation);
      problem.columns.push_back(column);
      problem.own_seconds.push_back(own);
      problem.seconds(column) += own;
      problem.joules(column) += operation.energy.value();
    }
    return problem;
  }

  RegressionFit fit(DeviceShare& share, Attribution& attribution) {
    const DeviceReadings& device = devices_[share.device];
    RegressionFit fit;
    fit.device = share.device;
    fit.method = AccountMethod::kSweep;
    fit.readings = device.halves[0].readings() + device.halves[1].readings();
    if (fit.readings == 0) return fit;
    const Problem problem = problem_of(share, attribution);
    const auto size = static_cast<std::size_t>(problem.seconds.size());
    fit.unknowns = size;
    fit.deviation = Watts(std::sqrt(problem.all.variance()));
    std::optional<PowerPosterior> posterior;
    if (size <= kMostJudged) {
      // Windows that overlap tell the same again.
      const double period = (share.busy + share.idle_time).value() / static_cast<double>(fit.readings);
      const double apart = window_ > 0 ? std::min(1.0, period / to_seconds(window_).value()) : 1.0;
      posterior = problem.all.posterior(size, apart);
    }
    if (posterior && options_.method != AccountMethod::kRegress && window_ == 0) {
      const double period = (share.busy + share.idle_time).value() / static_cast<double>(fit.readings);
      const LagDoubt doubt =
          device.lag.doubt(posterior->power, posterior->covariance, posterior->noise, kExpectedLag * period);
      posterior->covariance += doubt.power * doubt.power.transpose();
      fit.lag_deviation = Seconds(doubt.seconds);
    }
    const bool regress = options_.method == AccountMethod::kRegress || window_ > 0 || !posterior;
    Eigen::VectorXd power;
    double lambda = 0.0;
    if (regress) {
      Eigen::VectorXd prior = Eigen::VectorXd::Zero(problem.seconds.size());
      for (Eigen::Index i = 0; i < prior.size(); ++i) {
        if (problem.seconds(i) > 0.0) prior(i) = problem.joules(i) / problem.seconds(i);
      }
      power = problem.all.solve(prior, lambda);
    } else {
      power = posterior->power;
      lambda = posterior->noise * posterior->noise / (posterior->spread * posterior->spread);
      fit.lag = Seconds(problem.all.lag(device.lag, size, lambda, posterior->mean));
    }
    fit.explained = explained(problem.halves, problem.all, size, lambda);
    if (options_.method == AccountMethod::kAuto && (!posterior || !is_better(problem, *posterior, fit))) {
      if (posterior) judge_sweep(problem, *posterior, attribution);
      return fit;
    }
    if (regress) {
      const double whole = power.dot(problem.seconds);
      if (whole <= 0.0) return fit;
      fit.scale = (share.measured - share.outside).value() / whole;  // energy outside of the profile is not divided
      fit.method = AccountMethod::kRegress;
      take(share, problem, fit.scale * power.cwiseProduct(problem.seconds));
    } else {
      fit.method = AccountMethod::kBoth;
      take(share, problem, problem.joules + problem.all.mixed(power) * kUnitSegment);
    }
    if (posterior) judge(problem, *posterior, fit.scale, attribution);
    return fit;
  }

  // Gives the operations and idle time the energies of their columns. Energies below 0, which the sweep's corrections
  // may come to by a little, become 0, at the cost of all others.
  static void take(DeviceShare& share, const Problem& problem, const Eigen::VectorXd& energies) {
    Eigen::VectorXd joules = energies.cwiseMax(0.0);
    const double positive = joules.sum();
    if (positive > 0.0) joules *= energies.sum() / positive;
    CompensatedSum attributed;
    for (std::size_t i = 0; i < problem.operations.size(); ++i) {
      OperationShare& operation = *problem.operations[i];
      const Eigen::Index column = problem.columns[i];
      const double whole = problem.seconds(column);
      const double energy = whole > 0.0 ? joules(column) * (problem.own_seconds[i] / whole) : 0.0;
      operation.energy = Joules(energy);
      attributed.add(energy);
    }
    share.attributed = Joules(attributed.value());
    share.idle = Joules(joules(0));
  }

  // Whether the readings tell the powers so well that the sweep's error is mended.
  static bool is_better(const Problem& problem, const PowerPosterior& posterior, const RegressionFit& fit) {
    if (!fit.explained || *fit.explained < kLeastExplained) return false;
    const Eigen::MatrixXd sweep = sweep_errors(problem, posterior);
    double before = 0.0;
    double after = 0.0;
    for (Eigen::Index i = 1; i < problem.seconds.size(); ++i) {
      before += sweep.row(i).norm();
      after += problem.seconds(i) * std::sqrt(posterior.covariance(i, i));
    }
    return after < kMostLeft * before;
  }

  // The errors of the sweep's energies, a row for each operation, in J for each operation's power that is off by a
  // standard deviation.
  static Eigen::MatrixXd sweep_errors(const Problem& problem, const PowerPosterior& posterior) {
    const double length = problem.seconds.sum() / problem.all.weight();  // of a reading of weight 1, s
    return posterior.spread * length * problem.all.mixing(problem.seconds.size());
  }

  // Says how far the sweep's energies can be trusted.
  static void judge_sweep(const Problem& problem, const PowerPosterior& posterior, Attribution& attribution) {
    const Eigen::MatrixXd errors = sweep_errors(problem, posterior);
    const Eigen::MatrixXd noise = problem.all.common(problem.seconds.size()) *
                                  std::pow(posterior.noise * problem.seconds.sum() / problem.all.weight(), 2);
    for (std::size_t i = 0; i < problem.operations.size(); ++i) {
      const Eigen::Index k = problem.columns[i];
      problem.operations[i]->error = Joules(posterior.quantile * std::sqrt(errors.row(k).squaredNorm() + noise(k, k)));
    }
    add_groups(problem, posterior, attribution, [&](const std::vector<Eigen::Index>& members) {
      Eigen::RowVectorXd sum = Eigen::RowVectorXd::Zero(errors.cols());
      double variance = 0.0;
      for (const Eigen::Index i : members) {
        sum += errors.row(i);
        for (const Eigen::Index k : members) variance += noise(i, k);
      }
      return std::sqrt(sum.squaredNorm() + variance);
    });
  }

  // Says how far energies can be trusted that follow from the posterior's powers.
  static void judge(const Problem& problem, const PowerPosterior& posterior, double scale, Attribution& attribution) {
    const auto& c = posterior.covariance;
    for (std::size_t i = 0; i < problem.operations.size(); ++i) {
      const Eigen::Index k = problem.columns[i];
      problem.operations[i]->error =
          Joules(posterior.quantile * scale * problem.seconds(k) * std::sqrt(std::max(c(k, k), 0.0)));
    }
    add_groups(problem, posterior, attribution, [&](const std::vector<Eigen::Index>& members) {
      double variance = 0.0;
      for (const Eigen::Index i : members) {
        for (const Eigen::Index k : members) variance += problem.seconds(i) * c(i, k) * problem.seconds(k);
      }
      return scale * std::sqrt(std::max(variance, 0.0));
    });
  }

  // Numbers the groups of the device. `deviation` gives the standard deviation of the sum of some columns.
  template <class Deviation>
  static void add_groups(const Problem& problem, const PowerPosterior& posterior, Attribution& attribution,
                         const Deviation& deviation) {
    for (const std::vector<Eigen::Index>& members : inseparable(posterior, problem.seconds)) {
      GroupShare group;
      group.group = static_cast<std::uint32_t>(attribution.groups.size() + 1);
      for (std::size_t i = 0; i < problem.operations.size(); ++i) {
        if (!std::binary_search(members.begin(), members.end(), problem.columns[i])) continue;
        OperationShare& operation = *problem.operations[i];
        group.device = operation.device;
        group.energy += operation.energy;
        operation.group = group.group;
      }
      group.error = Joules(posterior.quantile * deviation(members));
      attribution.groups.push_back(group);
    }
  }

  // How well each half of the readings is predicted by powers fitted to the other half. The readings that powers were
  // fitted to would also be explained by chance, the more so the more operations there are.
  static std::optional<double> explained(const std::array<NormalEquations, 2>& halves, const NormalEquations& all,
                                         std::size_t size, double lambda) {
    if (halves[0].readings() == 0 || halves[1].readings() == 0 || all.variance() <= 0.0) return std::nullopt;
    double residual = 0.0;
    for (const std::size_t half : {0u, 1u}) {
      const NormalEquations& other = halves[1 - half];
      residual += halves[half].residual(other.solve_with(other.mean_powers(size), lambda));
    }
    return std::max(0.0, 1.0 - residual / (all.variance() * all.weight()));
  }

  static constexpr double kUnitSegment = 0.1;  // s; weights matter only relative to each other
  static constexpr double kExpectedLag = 0.1;  // of the readings' length, before they tell it
  static constexpr double kLeastExplained = 0.5;
  static constexpr double kMostLeft = 0.7;  // of the sweep's error

  RegressionOptions options_;
  Nanoseconds window_;
  ReadingWatch<Regression> watch_;
  std::vector<DeviceReadings> devices_;
};

}  // namespace

RegressedAttribution attribute_by_regression(EventSource& events, PowerSource& power,
                                             const RegressionOptions& options) {
  Regression regression(options);
  ClosedEvents closed(events, options.attribution.closed_by);
  regression.run(closed, power);
  return regression.result();
}

}  // namespace flyball
