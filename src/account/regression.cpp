#include "account/regression.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <utility>
#include <Eigen/Core>

#include "account/accountant.h"
#include "account/nonnegative_fit.h"
#include "account/sweep.h"

namespace flyball {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kIdle = 0;  // column of "nothing ran"
constexpr int kRounds = 8;        // of finding lambda

// The sums of a growing least-squares problem.
class NormalEquations {
 public:
  void add(const std::vector<std::pair<std::size_t, double>>& row, double y) {
    for (const auto& term : row) grow(term.first + 1);
    for (const auto& [k, z] : row) {
      double* column = products_.col(static_cast<Eigen::Index>(k)).data();
      for (const auto& [i, x] : row) {
        if (k <= i) column[i] += x * z;
      }
      right_(static_cast<Eigen::Index>(k)) += z * y;
    }
    ++readings_;
    sum_ += y;
    squares_ += y * y;
  }

  [[nodiscard]] std::size_t readings() const { return readings_; }
  [[nodiscard]] double variance_sum() const {
    return readings_ == 0 ? 0.0 : squares_ - sum_ * sum_ / static_cast<double>(readings_);
  }

  // Powers near `prior` (one per column). Sets `residual`, the sum of squares left.
  [[nodiscard]] Eigen::VectorXd solve(const Eigen::VectorXd& prior, double& residual) {
    grow(static_cast<std::size_t>(prior.size()));
    const Eigen::Index size = prior.size();
    const Eigen::MatrixXd products = products_.topLeftCorner(size, size);
    const Eigen::VectorXd right = right_.head(size);
    const auto readings = static_cast<double>(readings_);
    const auto left_over = [&](const Eigen::VectorXd& power) {
      const Eigen::VectorXd fitted = products.selfadjointView<Eigen::Lower>() * power;
      return std::max(squares_ - 2.0 * power.dot(right) + power.dot(fitted), 1e-12 * squares_);
    };
    Eigen::VectorXd power = prior;
    residual = left_over(power);
    double lambda = 1e-2;
    for (int round = 0; round < kRounds; ++round) {
      Eigen::MatrixXd damped = products;
      damped.diagonal().array() += lambda;
      power = nonnegative_minimum(damped, right + lambda * prior);
      residual = left_over(power);
      const double noise = residual / readings;
      const double spread = std::max((power - prior).squaredNorm() / static_cast<double>(size), 1e-6);
      const double next = std::clamp(noise / spread, 1e-9 * readings, readings);
      if (std::abs(std::log(next / lambda)) < 0.1) break;
      lambda = next;
    }
    return power;
  }

 private:
  void grow(std::size_t size) {
    const auto wanted = static_cast<Eigen::Index>(size);
    if (wanted <= products_.rows()) return;
    const Eigen::Index old = products_.rows();
    const Eigen::Index room = std::max<Eigen::Index>(wanted, 2 * old);
    products_.conservativeResize(room, room);
    products_.rightCols(room - old).setZero();
    products_.bottomRows(room - old).setZero();
    right_.conservativeResize(room);
    right_.tail(room - old).setZero();
  }

  Eigen::MatrixXd products_;  // lower triangle
  Eigen::VectorXd right_;
  std::size_t readings_ = 0;
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
  std::size_t place = kNone;  // in the device's list of those that run
  double since = 0.0;         // the device's integral when last looked at
  double total = 0.0;         // s of its own
};

struct DeviceWatch {
  std::vector<OperationWatch> operations;
  std::vector<OperationId> running;
  std::uint64_t sharers = 0;
  double integral = 0.0;  // s over sharers, since the slot began
  double idle = 0.0;      // s, in the slot
  double idle_total = 0.0;
  std::size_t columns = 1;
  bool open = false;  // a slot is under way
  Watts open_power;
  Slot slot;
  std::vector<double> in_slot;  // per column
  std::vector<std::size_t> touched;
  std::deque<Slot> history;
  NormalEquations equations;
  std::vector<double> row;  // scratch, per column
};

class Regression {
 public:
  explicit Regression(const RegressionOptions& options)
      : accountant_(options.attribution),
        each_(options.attribution.multiplicity == Multiplicity::kEvents),
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
      device.idle_total += seconds;
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

  // Books what an operation has had since it was last looked at.
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
    if (window_ > 0) {
      device.history.push_back(std::move(slot));
      return;
    }
    // A long segment says more than a short one.
    const double seconds = to_seconds(slot.end - slot.begin).value();
    const double weight = std::sqrt(seconds / kUnitSegment);
    for (auto& share : slot.shares) share.second *= weight / seconds;
    device.equations.add(slot.shares, device.open_power.value() * weight);
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
      // Of the oldest only what lies in the window, as if it had been even.
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
    device.equations.add(row, reading.power.value());
  }

  RegressionFit fit(DeviceShare& share, std::vector<OperationShare>& operations) {
    DeviceWatch& device = devices_[share.device];
    RegressionFit fit;
    fit.device = share.device;
    fit.readings = device.equations.readings();
    if (fit.readings == 0) return fit;

    const std::size_t size = std::min(device.columns, kMostUnknowns) + (device.columns >= kMostUnknowns ? 1 : 0);
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
    double residual = 0.0;
    const Eigen::VectorXd power = device.equations.solve(prior, residual);
    fit.unknowns = size;
    const double varied = device.equations.variance_sum();
    fit.explained = varied > 0.0 ? std::max(0.0, 1.0 - residual / varied) : 0.0;

    const double whole = power.dot(seconds);
    if (whole <= 0.0) return fit;
    fit.scale = (share.measured - share.outside).value() / whole;  // outside, nothing is to be told apart
    JouleSum attributed;
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

  static constexpr double kUnitSegment = 0.1;  // s; weights only matter against each other

  Accountant accountant_;
  bool each_;
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
