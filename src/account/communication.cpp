// Counts, on each device, the communication and the other work that are under way.
#include "account/communication.h"

#include <cstddef>

#include "account/sweep.h"

namespace flyball {
namespace {

class Overlap {
 public:
  explicit Overlap(const std::function<bool(OperationId)>& communicates) : communicates_(communicates) {}

  bool on_begin(const TraceEvent& event) {
    const bool communication = communicates_(event.operation);
    ++under_way(event.device, communication);
    return communication;
  }
  void on_end(DeviceId device, OperationId /*operation*/, Nanoseconds /*begin*/, Nanoseconds /*end*/,
              bool communication) {
    --under_way(device, communication);
  }
  void on_segment(const PowerSegment& /*segment*/) {}
  void on_power(DeviceId device, Nanoseconds begin, Nanoseconds end, Watts power) {
    if (const Seconds alone = pass(device, begin, end); alone > Seconds(0)) times[device].energy += power * alone;
  }
  void on_no_power(DeviceId device, Nanoseconds begin, Nanoseconds end) { (void)pass(device, begin, end); }

  std::vector<CommunicationTime> times;

 private:
  struct Counts {
    std::size_t communication = 0;
    std::size_t other = 0;
  };

  std::size_t& under_way(DeviceId device, bool communication) {
    if (device >= counts_.size()) {
      counts_.resize(device + std::size_t{1});
      times.resize(device + std::size_t{1});
    }
    return communication ? counts_[device].communication : counts_[device].other;
  }

  // Adds the time to that of the device, and returns what of it communication had alone.
  Seconds pass(DeviceId device, Nanoseconds begin, Nanoseconds end) {
    if (device >= counts_.size() || counts_[device].communication == 0) return Seconds(0);
    const Seconds length = to_seconds(end - begin);
    const bool alone = counts_[device].other == 0;
    (alone ? times[device].alone : times[device].beside) += length;
    return alone ? length : Seconds(0);
  }

  const std::function<bool(OperationId)>& communicates_;
  std::vector<Counts> counts_;
};

}  // namespace

std::vector<CommunicationTime> communication_time(EventSource& events, PowerSource& power,
                                                  const std::function<bool(OperationId)>& communicates) {
  Overlap overlap(communicates);
  Sweep<Overlap>(overlap).run(events, power);
  return std::move(overlap.times);
}

}  // namespace flyball
