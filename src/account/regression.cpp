// Visits the sweep beside the accountant. For each device an integral of time over sharers tells what each operation
// has had since it was last looked at; a reading's row of the normal equations is the sum over the slots within its
// window. The equations are kept for two halves of the readings, whose sum is solved (nonnegative_fit.h) and which
// foretell each other.
#include "account/regression.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <utility>
#include <Eigen/Core>

#include "account/accountant.h"
#include "account/nonnegative_fit.h"
#include "account/sweep.h"

namespace flyball {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kIdle = 0;   // the column of "nothing ran"
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

// What ran between two readings, in seconds per column.
struct Slot {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  std::vector<std::pair<std::size_t, double>> shares;
};

struct OperationWatch {
  std::size_t column = kNone;
  std::uint32_t running = 0;
  std::size_t place = kNone;  // in the device's list of operations that run
  double since = 0.0;         // the device's integral when this operation was last settled
  double total = 0.0;         // s that count as its own
};

struct DeviceWatch {
  std::vector<OperationWatch> operations;
  std::vector<OperationId> running;
  std::uint64_t sharers = 0;
  double integral = 0.0;  // sum of s / sharers since the slot began
  double idle = 0.0;      // s, in the slot
  std::size_t columns = 1;
  bool open = false;  // a slot is under way
  Watts open_power;
  Slot slot;
  std::vector<double> in_slot;  // per column
  std::vector<std::size_t> touched;
  std::deque<Slot> history;
  std::array<NormalEquations, 2> halves;
  Nanoseconds blocks_since = 0;
  std::size_t blocks = 0;   // blocks begun, each of readings that follow each other
  std::vector<double> row;  // scratch, per column
};

class Regression {
 public:
  explicit Regression(const RegressionOptions& options)
      : accountant_(options.attribution),
        each_(options.attribution.multiplicity == Multiplicity::kEvents),
        profile_(options.attribution.window),
        window_(to_nanoseconds(options.sensor_window)) {}

  Accountant::Token on_begin(const TraceEvent& event) {
    DeviceWatch& device = device_at(event.device);
    if (event.operation >= device.operations.size()) device.operations.resize(event.operation + 1);
    OperationWatch& operation = device.operations[event.operation];
    if (operation.column == kNone) {
      operation.column = device.columns < kMostUnknowns ? device.columns++ : kMostUnknowns;
    }
    settle(device, operation);
    if (operation.running++ == 0) {
      operation.place = device.running.size();
      device.running.push_back(event.operation);
      ++device.sharers;
    } else if (each_) {
      ++device.sharers;
    }
    return accountant_.on_begin(event);
  }

  void on_end(DeviceId id, OperationId name, Nanoseconds begin, Nanoseconds end, Accountant::Token token) {
    DeviceWatch& device = devices_[id];
    OperationWatch& operation = device.operations[name];
    settle(device, operation);
    if (--operation.running == 0) {
      const OperationId last = device.running.back();
      device.running[operation.place] = last;
      device.operations[last].place = operation.place;
      device.running.pop_back();
      --device.sharers;
    } else if (each_) {
      --device.sharers;
    }
    accountant_.on_end(id, name, begin, end, token);
  }

  void on_segment(const PowerSegment& segment) {
    DeviceWatch& device = device_at(segment.device);
    close_slot(device);
    if (window_ > 0) add_window(device, segment);
    device.open = true;
    device.open_power = segment.power;
    device.slot = {segment.begin, segment.begin, {}};
    accountant_.on_segment(segment);
  }

  void on_power(DeviceId id, Nanoseconds begin, Nanoseconds end, Watts power) {
    DeviceWatch& device = devices_[id];
    const double seconds = to_seconds(end - begin).value();
    if (device.sharers > 0) {
      device.integral += seconds / static_cast<double>(device.sharers);
    } else {
      device.idle += seconds;
    }
    device.slot.end = end;
    accountant_.on_power(id, begin, end, power);
  }

  void on_no_power(DeviceId id, Nanoseconds begin, Nanoseconds end) {
    close_slot(devices_[id]);
    devices_[id].history.clear();
    accountant_.on_no_power(id, begin, end);
  }

  RegressedAttribution result() {
    RegressedAttribution result;
    for (DeviceWatch& device : devices_) close_slot(device);
    result.attribution = accountant_.result();
    for (DeviceShare& device : result.attribution.devices) {
      if (device.device < devices_.size()) result.fits.push_back(fit(device, result.attribution.operations));
    }
    return result;
  }

 private:
  DeviceWatch& device_at(DeviceId id) {
    if (id >= devices_.size()) devices_.resize(id + 1);
    return devices_[id];
  }

  // Adds the operation's share of the time since it was last settled.
  void settle(DeviceWatch& device, OperationWatch& operation) {
    if (operation.running > 0) {
      const double weight = each_ ? static_cast<double>(operation.running) : 1.0;
      const double seconds = weight * (device.integral - operation.since);
      operation.total += seconds;
      if (device.open && seconds > 0.0) {
        if (operation.column >= device.in_slot.size()) device.in_slot.resize(operation.column + 1);
        if (device.in_slot[operation.column] == 0.0) device.touched.push_back(operation.column);
        device.in_slot[operation.column] += seconds;
      }
    }
    operation.since = device.integral;
  }

  void close_slot(DeviceWatch& device) {
    for (const OperationId name : device.running) settle(device, device.operations[name]);
    if (!device.open) return;
    device.open = false;
    Slot slot = std::move(device.slot);
    if (device.idle > 0.0) slot.shares.emplace_back(kIdle, device.idle);
    for (const std::size_t column : device.touched) {
      slot.shares.emplace_back(column, device.in_slot[column]);
      device.in_slot[column] = 0.0;
    }
    device.touched.clear();
    device.idle = 0.0;
    device.integral = 0.0;
    for (const OperationId name : device.running) device.operations[name].since = 0.0;
    if (slot.end <= slot.begin) return;
    // Outside of the profile it is unknown what ran, so that a reading there does not measure idle power. The gap in
    // the history keeps a sensor's window from reaching there.
    if (profile_ && (slot.begin < profile_->begin || slot.end > profile_->end)) {
      device.history.clear();
      return;
    }
    if (window_ > 0) {
      device.history.push_back(std::move(slot));
      return;
    }
    // Readings are weighted by the length of their segment.
    const double seconds = to_seconds(slot.end - slot.begin).value();
    for (auto& share : slot.shares) share.second /= seconds;
    ++device.blocks;
    half_of(device).add(slot.shares, device.open_power.value(), seconds / kUnitSegment);
  }

  // The half of the readings to which the next one belongs. Blocks are assigned by the sequence of Thue and Morse,
  // which makes the halves equal and never falls into step with a program that repeats itself.
  static NormalEquations& half_of(DeviceWatch& device) {
    return device.halves[static_cast<std::size_t>(std::popcount(device.blocks)) % 2];
  }

  void add_window(DeviceWatch& device, const PowerSegment& reading) {
    const Nanoseconds begin = reading.begin - window_;
    while (!device.history.empty() && device.history.front().end <= begin) device.history.pop_front();
    if (device.history.empty() || device.history.front().begin > begin || device.history.back().end != reading.begin) {
      return;
    }
    device.row.resize(device.columns + 1);
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

  RegressionFit fit(DeviceShare& share, std::vector<OperationShare>& operations) {
    DeviceWatch& device = devices_[share.device];
    RegressionFit fit;
    fit.device = share.device;
    fit.readings = device.halves[0].readings() + device.halves[1].readings();
    if (fit.readings == 0) return fit;

    const std::size_t size = std::min(device.columns, kMostUnknowns) + (device.columns >= kMostUnknowns ? 1 : 0);
    for (NormalEquations& half : device.halves) half.grow(size);
    NormalEquations all = device.halves[0];
    all.add(device.halves[1], size);
    Eigen::VectorXd seconds = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(size));
    Eigen::VectorXd joules = seconds;
    seconds(0) = share.idle_time.value();
    joules(0) = share.idle.value();
    for (const OperationShare& operation : operations) {
      if (operation.device != share.device) continue;
      const OperationWatch& watch = device.operations[operation.operation];
      seconds(static_cast<Eigen::Index>(watch.column)) += watch.total;
      joules(static_cast<Eigen::Index>(watch.column)) += operation.energy.value();
    }
    Eigen::VectorXd prior = Eigen::VectorXd::Zero(seconds.size());
    for (Eigen::Index i = 0; i < prior.size(); ++i) {
      if (seconds(i) > 0.0) prior(i) = joules(i) / seconds(i);
    }
    double lambda = 0.0;
    const Eigen::VectorXd power = all.solve(prior, lambda);
    fit.unknowns = size;
    fit.deviation = Watts(std::sqrt(all.variance()));
    fit.explained = explained(device.halves, all, size, lambda);

    const double whole = power.dot(seconds);
    if (whole <= 0.0) return fit;
    fit.scale = (share.measured - share.outside).value() / whole;  // energy outside of the profile is not divided
    CompensatedSum attributed;
    for (OperationShare& operation : operations) {
      if (operation.device != share.device) continue;
      const OperationWatch& watch = device.operations[operation.operation];
      const double energy = fit.scale * power(static_cast<Eigen::Index>(watch.column)) * watch.total;
      operation.energy = Joules(energy);
      attributed.add(energy);
    }
    share.attributed = Joules(attributed.value());
    share.idle = Joules(fit.scale * power(0) * seconds(0));
    return fit;
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

  Accountant accountant_;
  bool each_;
  std::optional<ProfiledWindow> profile_;
  Nanoseconds window_;
  std::vector<DeviceWatch> devices_;
};

}  // namespace

RegressedAttribution attribute_by_regression(EventSource& events, PowerSource& power,
                                             const RegressionOptions& options) {
  Regression regression(options);
  ClosedEvents closed(events, options.attribution.closed_by);
  Sweep<Regression>(regression).run(closed, power);
  return regression.result();
}

}  // namespace flyball
