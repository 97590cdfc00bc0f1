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
#include "account/normal_equations.h"
#include "account/power_posterior.h"
#include "account/reading_watch.h"
#include "account/sweep.h"

namespace flyball {
namespace {

constexpr int kBlockWindows = 10;  // a block of readings is so many windows long, so that few windows reach into two

struct DeviceReadings {
  std::deque<Slot> history;
  std::array<LagEquations, 2> lags;  // as the halves
  SweptSums swept;
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
        watch_(options.attribution, kMostUnknowns, *this, options.adds, options.smoothing) {}

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
      for (auto& ran : slot.ran) ran.second /= seconds;
      auto& row = adds_up(id) ? slot.ran : slot.shares;
      if (is_remodelled(id)) {
        const std::vector<std::pair<std::size_t, double>> shares = slot.shares;
        add_due(device, slot, smoothing(id) / seconds, row);
        device.swept.add(shares, row, seconds / kUnitSegment);
      }
      ++device.blocks;
      const std::size_t half = half_of(device);
      device.halves[half].add(row, power.value(), seconds / kUnitSegment);
      if (options_.method != AccountMethod::kRegress) {
        device.lags[half].add(row, slot.first, slot.last, seconds, power.value(), seconds / kUnitSegment);
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

  [[nodiscard]] bool adds_up(DeviceId id) const { return id < options_.adds.size() && options_.adds[id]; }

  [[nodiscard]] double smoothing(DeviceId id) const {
    return id < options_.smoothing.size() ? options_.smoothing[id].value() : 0.0;
  }
  // Whether a reading is made of other parts than the sweep divides it into.
  [[nodiscard]] bool is_remodelled(DeviceId id) const { return adds_up(id) || smoothing(id) > 0.0; }

  static void add_due(DeviceReadings& device, const Slot& slot, double scale,
                      std::vector<std::pair<std::size_t, double>>& row) {
    if (scale <= 0.0) return;
    std::vector<std::size_t> touched;
    const auto add = [&](const std::vector<std::pair<std::size_t, double>>& terms, double factor) {
      for (const auto& [column, part] : terms) {
        if (column >= device.row.size()) device.row.resize(column + 1);
        if (device.row[column] == 0.0) touched.push_back(column);
        device.row[column] += factor * part;
      }
    };
    add(row, 1.0);
    add(slot.first_due, scale);
    add(slot.last_due, -scale);
    row.clear();
    for (const std::size_t column : touched) {
      if (device.row[column] != 0.0) row.emplace_back(column, std::exchange(device.row[column], 0.0));
    }
  }

  DeviceReadings& at(DeviceId id) {
    if (id >= devices_.size()) devices_.resize(id + 1);
    return devices_[id];
  }

  // The half of the readings to which the next one belongs. Blocks are assigned by the sequence of Thue and Morse,
  // which makes the halves equal and never falls into step with a program that repeats itself.
  static std::size_t half_of(const DeviceReadings& device) {
    return static_cast<std::size_t>(std::popcount(device.blocks)) % 2;
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
    device.halves[half_of(device)].add(row, reading.power.value(), 1.0);
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
    bool adds = false;
    Eigen::VectorXd ran;     // s, where powers add up
    Eigen::MatrixXd mixing;  // by the powers, what the sweep takes from each operation, in readings of weight 1
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
    problem.adds = adds_up(share.device);
    problem.ran = problem.seconds;
    for (OperationShare& operation : attribution.operations) {
      if (operation.device != share.device) continue;
      const auto column = static_cast<Eigen::Index>(watch_.column(operation.device, operation.operation));
      const double own = watch_.seconds(operation.device, operation.operation);
      problem.operations.push_back(&operation);
      problem.columns.push_back(column);
      problem.own_seconds.push_back(own);
      problem.seconds(column) += own;
      if (problem.adds) problem.ran(column) += watch_.ran(operation.device, operation.operation);
      problem.joules(column) += operation.energy.value();
    }
    if (options_.method == AccountMethod::kRegress || size > kMostJudged) return problem;
    problem.mixing = is_remodelled(share.device) ? devices_[share.device].swept.mixing(size)
                                                 : problem.all.mixing(static_cast<Eigen::Index>(size));
    return problem;
  }

  // From powers that add up to each operation's energy over the time that counts as its own.
  static void divide_by_shares(const Problem& problem, PowerPosterior& posterior) {
    const Eigen::Index size = problem.seconds.size();
    Eigen::MatrixXd rows = Eigen::MatrixXd::Identity(size, size);
    for (Eigen::Index i = 1; i < size; ++i) {
      if (problem.seconds(i) <= 0.0) continue;
      rows(i, i) = problem.ran(i) / problem.seconds(i);
      rows(i, 0) = 1.0 - rows(i, i);
    }
    posterior.power = rows * posterior.power;
    posterior.covariance = rows * posterior.covariance * rows.transpose();
  }

  RegressionFit fit(DeviceShare& share, Attribution& attribution) {
    DeviceReadings& device = devices_[share.device];
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
    LagEquations lags;
    if (posterior && options_.method != AccountMethod::kRegress && window_ == 0) {
      for (LagEquations& half : device.lags) half.grow(size);
      lags = device.lags[0];
      lags.add(device.lags[1], size);
      const double period = (share.busy + share.idle_time).value() / static_cast<double>(fit.readings);
      const LagDoubt doubt =
          lags.doubt(posterior->power, posterior->covariance, posterior->noise, kExpectedLag * period);
      fit.lag_deviation = Seconds(doubt.seconds);
      const Eigen::VectorXd moved = posterior->power;
      widen_by_ends(*posterior, problem.all.joined(lags.sums(size), moved), problem.all.squares(),
                    static_cast<double>(fit.readings), kExpectedLag * period);
      fit.explained = explained_with_ends(problem, device.lags, *posterior, moved, kExpectedLag * period);
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
      fit.lag = Seconds(problem.all.lag(lags, size, lambda, posterior->mean));
    }
    if (regress || posterior->displaced <= 0.0) fit.explained = explained(problem, size, lambda);
    const Eigen::VectorXd taken = regress ? Eigen::VectorXd() : Eigen::VectorXd(problem.mixing * power);
    if (problem.adds && posterior) divide_by_shares(problem, *posterior);
    fit.adds = problem.adds;
    fit.smoothing = Seconds(smoothing(share.device));
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
      take(share, problem, problem.joules + taken * kUnitSegment);
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
    return posterior.spread * length * problem.mixing;
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
  static std::optional<double> explained(const Problem& problem, std::size_t size, double lambda) {
    const auto& halves = problem.halves;
    const NormalEquations& all = problem.all;
    if (halves[0].readings() == 0 || halves[1].readings() == 0 || all.variance() <= 0.0) return std::nullopt;
    double residual = 0.0;
    for (const std::size_t half : {0u, 1u}) {
      const NormalEquations& other = halves[1 - half];
      const Eigen::VectorXd prior =
          problem.adds ? Eigen::VectorXd::Constant(problem.seconds.size(), other.mean()) : other.mean_powers(size);
      residual += halves[half].residual(other.solve_with(prior, lambda));
    }
    return std::max(0.0, 1.0 - residual / (all.variance() * all.weight()));
  }

  // The same with what is displaced at the readings' ends.
  static std::optional<double> explained_with_ends(const Problem& problem, const std::array<LagEquations, 2>& lags,
                                                   const PowerPosterior& posterior, const Eigen::VectorXd& power,
                                                   double lag) {
    const NormalEquations& all = problem.all;
    const bool is_halved = problem.halves[0].readings() > 0 && problem.halves[1].readings() > 0;
    if (!is_halved || all.variance() <= 0.0 || posterior.displaced <= 0.0) return std::nullopt;
    const auto size = static_cast<std::size_t>(power.size());
    std::array<JointSums, 2> joined;
    for (const std::size_t half : {0u, 1u}) joined[half] = problem.halves[half].joined(lags[half].sums(size), power);
    double residual = 0.0;
    for (const std::size_t half : {0u, 1u}) {
      const Eigen::VectorXd value = solve_joint(joined[1 - half], posterior, lag);
      residual += problem.halves[half].squares() - 2.0 * value.dot(joined[half].right) +
                  value.dot(joined[half].products * value);
    }
    return std::clamp(1.0 - residual / (all.variance() * all.weight()), 0.0, 1.0);
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
