// A visitor of the sweep. Of each device it keeps the integral of a share's power so far, and of each operation that of
// one of its executions; an event gets the difference between its end and its begin, as in accountant.h.
#include "account/event_joules.h"

#include <cstddef>

#include "account/sweep.h"

namespace flyball {
namespace {

// What one sharer has had so far.
struct SharerIntegral {
  CompensatedSum joules;
  CompensatedSum seconds;  // for which the power is known, divided by the sharers among executions of one operation

  void add_part(const SharerIntegral& whole, const SharerIntegral& since, std::uint32_t parts) {
    joules.add(whole.joules.since(since.joules) / parts);
    seconds.add(whole.seconds.since(since.seconds) / parts);
  }
};

class EventJoules {
 public:
  using Token = SharerIntegral;

  EventJoules(Multiplicity multiplicity, const std::vector<OperationShare>& fitted, AccountedEvents& accounted)
      : each_(multiplicity == Multiplicity::kEvents), accounted_(accounted) {
    for (const OperationShare& share : fitted) {
      Device& device = device_at(share.device);
      device.fitted = true;
      operation_at(device, share.operation).fitted = share.mean_power();
    }
  }

  Token on_begin(const TraceEvent& event) {
    Device& device = device_at(event.device);
    if (each_) {
      ++device.sharers;
      return device.share;
    }
    Operation& operation = operation_at(device, event.operation);
    settle(device, operation);
    if (operation.running++ == 0) ++device.sharers;
    return operation.execution;
  }

  void on_end(DeviceId id, OperationId name, Nanoseconds begin, Nanoseconds end, const Token& since) {
    Device& device = devices_[id];
    Operation& operation = operation_at(device, name);
    settle(device, operation);
    const SharerIntegral& now = each_ ? device.share : operation.execution;
    const double joules =
        device.fitted ? operation.fitted.value() * now.seconds.since(since.seconds) : now.joules.since(since.joules);
    if (each_ || --operation.running == 0) --device.sharers;
    accounted_.on_event({begin, end, id, name, Joules(joules)});
  }

  void on_segment(const PowerSegment& segment) { device_at(segment.device); }

  void on_power(DeviceId id, Nanoseconds begin, Nanoseconds end, Watts power) {
    Device& device = devices_[id];
    const double seconds = to_seconds(end - begin).value();
    device.share.seconds.add(seconds);
    if (device.sharers > 0) device.share.joules.add(power.value() * seconds / static_cast<double>(device.sharers));
    accounted_.on_power(id, begin, end, power);
  }

  void on_no_power(DeviceId /*id*/, Nanoseconds /*begin*/, Nanoseconds /*end*/) {}

 private:
  struct Operation {
    std::uint32_t running = 0;
    SharerIntegral since;      // the device's share when `execution` was brought up to date
    SharerIntegral execution;  // what each of those that run has had
    Watts fitted;
  };
  struct Device {
    bool fitted = false;
    std::uint64_t sharers = 0;
    SharerIntegral share;
    std::vector<Operation> operations;
  };

  static void settle(const Device& device, Operation& operation) {
    if (operation.running > 0) operation.execution.add_part(device.share, operation.since, operation.running);
    operation.since = device.share;
  }
  Device& device_at(DeviceId id) {
    if (id >= devices_.size()) devices_.resize(id + std::size_t{1});
    return devices_[id];
  }
  static Operation& operation_at(Device& device, OperationId id) {
    if (id >= device.operations.size()) device.operations.resize(id + std::size_t{1});
    return device.operations[id];
  }

  bool each_;
  AccountedEvents& accounted_;
  std::vector<Device> devices_;
};

}  // namespace

void account_events(EventSource& events, PowerSource& power, Multiplicity multiplicity,
                    const std::vector<OperationShare>& fitted, AccountedEvents& accounted) {
  EventJoules visitor(multiplicity, fitted, accounted);
  Sweep<EventJoules>(visitor).run(events, power);
}

}  // namespace flyball
