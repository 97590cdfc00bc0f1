// A sink of reading_watch.h that keeps six sums per operation.
#include "account/survey.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "account/power_posterior.h"
#include "account/reading_watch.h"
#include "account/sweep.h"

namespace flyball {
namespace {

struct HalfSums {
  double seconds = 0.0;
  double joules = 0.0;

  [[nodiscard]] double mean() const { return joules / seconds; }
};

struct ColumnSums {
  double seconds = 0.0;            // in readings
  double squares = 0.0;            // sum of T x^2, s
  std::array<HalfSums, 2> halves;  // of the readings inside the profile
};

struct DeviceSums {
  std::vector<ColumnSums> columns;
  std::array<HalfSums, 2> halves;
  double squares = 0.0;  // sum of T y^2 inside the profile
  double lengths = 0.0;  // sum of T^2
  double watts = 0.0;    // sum of y
  std::size_t readings = 0;
  double operations = 0.0;  // summed over the readings
  double pairs = 0.0;
};

class SurveySink {
 public:
  void on_reading(DeviceId /*id*/, const PowerSegment& /*segment*/) {}
  void on_gap(DeviceId /*id*/) {}

  void on_slot(DeviceId id, const Slot& slot, Watts power, bool inside) {
    DeviceSums& device = at(id);
    const double length = to_seconds(slot.end - slot.begin).value();
    const double watts = power.value();
    if (inside) ++device.readings;
    // Thue and Morse's sequence, as the fit has it.
    const auto half = static_cast<std::size_t>(std::popcount(device.readings)) % 2;
    for (const auto& [column, seconds] : slot.shares) {
      if (column >= device.columns.size()) device.columns.resize(column + 1);
      ColumnSums& sums = device.columns[column];
      sums.seconds += seconds;
      sums.squares += seconds * (seconds / length);
      if (!inside) continue;
      sums.halves[half].seconds += seconds;
      sums.halves[half].joules += seconds * watts;
    }
    if (!inside) return;
    const auto operations = static_cast<double>(slot.shares.size());
    device.operations += operations;
    device.pairs += operations * operations;
    device.halves[half].seconds += length;
    device.halves[half].joules += length * watts;
    device.squares += length * watts * watts;
    device.lengths += length * length;
    device.watts += watts;
  }

  [[nodiscard]] const DeviceSums* find(DeviceId id) const { return id < devices_.size() ? &devices_[id] : nullptr; }

 private:
  DeviceSums& at(DeviceId id) {
    if (id >= devices_.size()) devices_.resize(id + 1);
    return devices_[id];
  }

  std::vector<DeviceSums> devices_;
};

double repeated_means(const DeviceSums& device) {
  double squares_0 = 0.0;
  double squares_1 = 0.0;
  double products = 0.0;
  for (std::size_t i = 1; i < device.columns.size(); ++i) {
    const ColumnSums& sums = device.columns[i];
    if (sums.halves[0].seconds <= 0.0 || sums.halves[1].seconds <= 0.0) continue;
    const double weight = std::min(sums.halves[0].seconds, sums.halves[1].seconds);
    const double first = sums.halves[0].mean() - device.halves[0].mean();
    const double second = sums.halves[1].mean() - device.halves[1].mean();
    squares_0 += weight * first * first;
    squares_1 += weight * second * second;
    products += weight * first * second;
  }
  return squares_0 > 0.0 && squares_1 > 0.0 ? products / std::sqrt(squares_0 * squares_1) : 0.0;
}

void tell_stamps(const DeviceSums& device, DeviceSurvey& survey) {
  const auto count = static_cast<double>(device.readings);
  const double length = (device.halves[0].seconds + device.halves[1].seconds) / count;
  const double watts = device.watts / count;
  const double variance = device.lengths / count - length * length;
  if (variance <= 1e-12 * length * length || watts <= 0.0) return;
  const double common = (device.halves[0].joules + device.halves[1].joules) / count - length * watts;
  survey.uneven = std::sqrt(variance) / length;
  survey.by_length = (common / variance) * (length / watts);
}

// The variation of operations' powers, and half of a 90 % interval in units of it.
struct Spread {
  double watts = 0.0;
  double quantile = 0.0;
};

Spread spread_of(const DeviceSums& device) {
  const double length = device.halves[0].seconds + device.halves[1].seconds;
  if (length <= 0.0) return {};
  const double mean = (device.halves[0].joules + device.halves[1].joules) / length;
  const double variance = std::max(device.squares / length - mean * mean, 0.0);
  double composition = 0.0;
  double whole = 0.0;
  for (const ColumnSums& sums : device.columns) whole += sums.seconds;
  for (const ColumnSums& sums : device.columns) {
    const double share = sums.seconds / whole;
    composition += std::max(sums.squares / whole - share * share, 0.0);
  }
  const auto count = static_cast<double>(std::min(device.readings, device.columns.size()));
  const double expected = kPriorSpread * mean;
  const double told = composition * count;
  const double square = (count * variance + kPriorCount * expected * expected) / (told + kPriorCount);
  return {std::min(std::sqrt(square), mean), student_95(told + kPriorCount)};
}

}  // namespace

SurveyedAttribution survey_attribution(EventSource& events, PowerSource& power, const AttributionOptions& options,
                                       const std::vector<bool>& means) {
  SurveySink sink;
  ReadingWatch<SurveySink> watch(options, std::numeric_limits<std::size_t>::max() - 1, sink);
  ClosedEvents closed(events, options.closed_by);
  Sweep<ReadingWatch<SurveySink>>(watch).run(closed, power);
  SurveyedAttribution result;
  result.attribution = watch.finish();
  std::vector<Spread> spreads;
  std::vector<double> others;  // per device
  for (const DeviceShare& share : result.attribution.devices) {
    const DeviceSums* sums = sink.find(share.device);
    if (sums == nullptr) continue;
    DeviceSurvey& survey = result.devices.emplace_back();
    survey.device = share.device;
    survey.readings = sums->readings;
    if (sums->readings > 0) {
      survey.period =
          Seconds((sums->halves[0].seconds + sums->halves[1].seconds) / static_cast<double>(sums->readings));
    }
    survey.unknowns = watch.columns(share.device);
    survey.pairs = sums->pairs;
    if (sums->readings > 0) tell_stamps(*sums, survey);
    survey.repeated = repeated_means(*sums);
    double seconds = 0.0;
    double apart = 0.0;
    for (std::size_t i = 1; i < sums->columns.size(); ++i) {
      seconds += sums->columns[i].seconds;
      apart += sums->columns[i].squares;
    }
    survey.mixed = seconds > 0.0 ? 1.0 - apart / seconds : 0.0;
    if (share.device >= spreads.size()) {
      spreads.resize(share.device + 1);
      others.resize(share.device + 1);
    }
    spreads[share.device] = spread_of(*sums);
    const double operations = sums->readings > 0 ? sums->operations / static_cast<double>(sums->readings) : 0.0;
    others[share.device] = std::max(operations - 1.0, 1.0);
  }
  for (OperationShare& operation : result.attribution.operations) {
    const DeviceSums* sums = sink.find(operation.device);
    if (sums == nullptr || sums->readings == 0) continue;
    const std::size_t column = watch.column(operation.device, operation.operation);
    if (column >= sums->columns.size()) {
      operation.error = Joules(0);  // it has no time with power
      continue;
    }
    const ColumnSums& own = sums->columns[column];
    double mixed = std::max(own.seconds - own.squares, 0.0);
    if (operation.device < means.size() && !means[operation.device]) mixed = std::min(2.0 * mixed, own.seconds);
    const Spread& spread = spreads[operation.device];
    operation.error = Joules(spread.quantile * spread.watts * mixed * std::sqrt(1.0 + 1.0 / others[operation.device]));
  }
  return result;
}

}  // namespace flyball
