// The sweep beside a watch of what ran in each reading: a visitor of sweep.h for whatever judges or fits readings.
//
// A sink has
//
//   void on_reading(DeviceId, const PowerSegment&)    a reading begins; the one before has been given to on_slot
//   void on_slot(DeviceId, Slot&, Watts, bool inside) what ran in a reading of that power; inside: of the profile. The
//                                                     sink may take the slot away
//   void on_gap(DeviceId)                             nothing is measured
//
// For each device an integral of time over sharers tells what each operation has had since it was last looked at.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "account/accountant.h"
#include "base/units.h"
#include "trace/trace.h"

namespace flyball {

inline constexpr std::size_t kIdleColumn = 0;  // of "nothing ran"

struct RunningPart {
  std::size_t column = 0;
  double part = 0.0;   // of 1, which is all that runs
  double phase = 0.5;  // which part of the latest execution was over
};

// What ran from one reading to the next, in seconds per column. The seconds of a slot add up to its length.
struct Slot {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  std::vector<std::pair<std::size_t, double>> shares;
  // Where asked for: the seconds in which each column ran, shared with none. What they are more than the length is
  // taken off idle time, so that they add up to the length, too.
  std::vector<std::pair<std::size_t, double>> ran;
  // What a counter that smooths still has to show at its begin and at its end: the mean of what ran before, in which
  // the past counts for less, by e for each of the device's time constants.
  std::vector<std::pair<std::size_t, double>> first_due;
  std::vector<std::pair<std::size_t, double>> last_due;
  // What ran at its begin and at its end.
  std::vector<RunningPart> first;
  std::vector<RunningPart> last;
};

template <class Sink>
class ReadingWatch {
 public:
  // Operations get columns from 1 on in the order in which they first run; from `most_columns` on they share one.
  // `adds[device]`: whether slots have `ran`, and count what runs at their ends in full. `smoothing[device]`: time
  // constant of its counter, for what is due; 0: none.
  ReadingWatch(const AttributionOptions& options, std::size_t most_columns, Sink& sink, std::vector<bool> adds = {},
               std::vector<Seconds> smoothing = {})
      : adds_(std::move(adds)),
        smoothing_(std::move(smoothing)),
        accountant_(options),
        each_(options.multiplicity == Multiplicity::kEvents),
        profile_(options.window),
        most_columns_(most_columns),
        sink_(sink) {}

  Accountant::Token on_begin(const TraceEvent& event) {
    Device& device = device_at(event.device);
    if (event.operation >= device.operations.size()) device.operations.resize(event.operation + 1);
    Operation& operation = device.operations[event.operation];
    if (operation.column == kIdleColumn) {
      operation.column = device.columns < most_columns_ ? device.columns++ : most_columns_;
    }
    settle(device, operation);
    operation.began = event.begin;
    operation.ends = event.end;
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
    Device& device = devices_[id];
    Operation& operation = device.operations[name];
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
    Device& device = device_at(segment.device);
    close_slot(segment.device, device);
    sink_.on_reading(segment.device, segment);
    device.open = true;
    device.power = segment.power;
    device.slot.begin = segment.begin;
    device.slot.end = segment.begin;
    device.slot.shares.clear();
    list_running(device, segment.begin, device.slot.first);
    if (device.smoothing > 0.0) list_due(device, segment.begin, device.slot.first_due);
    accountant_.on_segment(segment);
  }

  void on_power(DeviceId id, Nanoseconds begin, Nanoseconds end, Watts power) {
    Device& device = devices_[id];
    const double seconds = to_seconds(end - begin).value();
    if (device.sharers > 0) {
      device.integral += seconds / static_cast<double>(device.sharers);
      device.busy += seconds;
    } else {
      device.idle += seconds;
    }
    device.slot.end = end;
    if (device.smoothing > 0.0) remember(device, begin, end);
    accountant_.on_power(id, begin, end, power);
  }

  void on_no_power(DeviceId id, Nanoseconds begin, Nanoseconds end) {
    close_slot(id, devices_[id]);
    sink_.on_gap(id);
    accountant_.on_no_power(id, begin, end);
  }

  // Ends the readings under way, and returns what the sweep gives.
  [[nodiscard]] Attribution finish() {
    for (std::size_t i = 0; i < devices_.size(); ++i) close_slot(static_cast<DeviceId>(i), devices_[i]);
    return accountant_.result();
  }

  [[nodiscard]] std::size_t devices() const { return devices_.size(); }
  // All columns, that of idle included.
  [[nodiscard]] std::size_t columns(DeviceId id) const {
    const std::size_t own = devices_[id].columns;
    return own < most_columns_ ? own : most_columns_ + 1;
  }
  [[nodiscard]] std::size_t column(DeviceId id, OperationId name) const { return devices_[id].operations[name].column; }
  // The seconds that count as an operation's own.
  [[nodiscard]] double seconds(DeviceId id, OperationId name) const { return devices_[id].operations[name].total; }
  // The seconds in which it ran, where they are asked for.
  [[nodiscard]] double ran(DeviceId id, OperationId name) const { return devices_[id].operations[name].ran; }

 private:
  struct Operation {
    std::size_t column = kIdleColumn;  // until it first runs
    std::uint32_t running = 0;
    std::size_t place = 0;  // in the device's list of operations that run
    Nanoseconds began = 0;  // the latest execution
    Nanoseconds ends = 0;
    double since = 0.0;  // the device's integral when this operation was last settled
    double total = 0.0;  // s
    double ran_since = 0.0;
    double ran = 0.0;  // s
  };
  struct Device {
    std::vector<Operation> operations;
    std::vector<OperationId> running;
    std::uint64_t sharers = 0;
    double integral = 0.0;  // sum of s / sharers since the slot began
    double idle = 0.0;      // s, in the slot
    double busy = 0.0;      // s, in the slot
    bool adds = false;
    double smoothing = 0.0;                // s
    Nanoseconds due_since = 0;             // when `due` had its scale
    std::vector<double> due;               // per column, times exp((now - due_since) / smoothing)
    std::vector<double> ran_in_slot;       // per column
    std::vector<RunningPart> running_now;  // scratch
    std::size_t columns = 1;
    bool open = false;  // a slot is under way
    Watts power;
    Slot slot;
    std::vector<double> in_slot;  // per column
    std::vector<std::size_t> touched;
  };

  Device& device_at(DeviceId id) {
    for (std::size_t i = devices_.size(); i <= id; ++i) {
      Device& device = devices_.emplace_back();
      device.adds = i < adds_.size() && adds_[i];
      if (i < smoothing_.size()) device.smoothing = smoothing_[i].value();
    }
    return devices_[id];
  }

  static void remember(Device& device, Nanoseconds begin, Nanoseconds end) {
    constexpr double kMostGrowth = 100.0;  // as a power of e
    const auto since = [&device](Nanoseconds time) {
      return to_seconds(time - device.due_since).value() / device.smoothing;
    };
    if (since(end) > kMostGrowth) {
      const Nanoseconds latest = std::max(begin, end - to_nanoseconds(Seconds(0.5 * kMostGrowth * device.smoothing)));
      const double shrunk = std::exp(-since(latest));
      for (double& due : device.due) due *= shrunk;
      device.due_since = begin = latest;
    }
    const double whole = std::exp(since(end)) - std::exp(since(begin));
    std::vector<RunningPart>& running = device.running_now;
    list_running(device, begin, running);
    for (const RunningPart& one : running) {
      if (one.column >= device.due.size()) device.due.resize(one.column + 1);
      device.due[one.column] += one.part * whole;
    }
  }

  static void list_due(const Device& device, Nanoseconds now, std::vector<std::pair<std::size_t, double>>& list) {
    constexpr double kLittle = 1e-4;
    list.clear();
    const double scale = std::exp(-to_seconds(now - device.due_since).value() / device.smoothing);
    double rest = 1.0;
    for (std::size_t column = 1; column < device.due.size(); ++column) {
      const double part = scale * device.due[column];
      if (part < kLittle) continue;
      list.emplace_back(column, part);
      rest -= part;
    }
    list.emplace_back(kIdleColumn, rest);
  }

  static void list_running(const Device& device, Nanoseconds now, std::vector<RunningPart>& list) {
    list.clear();
    const auto count = static_cast<double>(device.running.size());
    const double idle = device.adds ? 1.0 - count : (device.sharers == 0 ? 1.0 : 0.0);
    if (idle != 0.0) list.push_back({kIdleColumn, idle, 0.5});
    for (const OperationId name : device.running) {
      const Operation& operation = device.operations[name];
      const auto length = static_cast<double>(operation.ends - operation.began);
      const double phase = length > 0.0 ? static_cast<double>(now - operation.began) / length : 0.5;
      list.push_back({operation.column, device.adds ? 1.0 : 1.0 / count, std::clamp(phase, 0.0, 1.0)});
    }
  }

  // Adds the operation's share of the time since it was last settled.
  void settle(Device& device, Operation& operation) {
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
    if (device.adds) settle_ran(device, operation);
  }

  void settle_ran(Device& device, Operation& operation) {
    const double weight = each_ ? static_cast<double>(operation.running) : 1.0;
    const double seconds = operation.running > 0 ? weight * (device.busy - operation.ran_since) : 0.0;
    operation.ran_since = device.busy;
    if (seconds <= 0.0) return;
    operation.ran += seconds;
    if (!device.open) return;
    if (operation.column >= device.ran_in_slot.size()) device.ran_in_slot.resize(operation.column + 1);
    device.ran_in_slot[operation.column] += seconds;
  }

  void close_slot(DeviceId id, Device& device) {
    for (const OperationId name : device.running) settle(device, device.operations[name]);
    if (!device.open) return;
    device.open = false;
    Slot& slot = device.slot;
    if (device.idle > 0.0) slot.shares.emplace_back(kIdleColumn, device.idle);
    slot.ran.clear();
    double alone = device.idle + device.busy;
    for (const std::size_t column : device.touched) {
      slot.shares.emplace_back(column, device.in_slot[column]);
      device.in_slot[column] = 0.0;
      if (!device.adds) continue;
      slot.ran.emplace_back(column, device.ran_in_slot[column]);
      alone -= std::exchange(device.ran_in_slot[column], 0.0);
    }
    if (device.adds) slot.ran.emplace_back(kIdleColumn, alone);
    device.touched.clear();
    device.idle = 0.0;
    device.integral = 0.0;
    device.busy = 0.0;
    for (const OperationId name : device.running) {
      device.operations[name].since = 0.0;
      device.operations[name].ran_since = 0.0;
    }
    if (slot.end <= slot.begin) return;
    list_running(device, slot.end, slot.last);
    if (device.smoothing > 0.0) list_due(device, slot.end, slot.last_due);
    // Outside of the profile it is unknown what ran, so that a reading there does not measure idle power.
    const bool inside = !profile_ || (slot.begin >= profile_->begin && slot.end <= profile_->end);
    sink_.on_slot(id, slot, device.power, inside);
  }

  std::vector<bool> adds_;
  std::vector<Seconds> smoothing_;
  Accountant accountant_;
  bool each_;
  std::optional<ProfiledWindow> profile_;
  std::size_t most_columns_;
  Sink& sink_;
  std::vector<Device> devices_;
};

}  // namespace flyball
