// Both traces are laid into bins of 1 ms, which are joined in pairs when there are more than 2^18. Correlations of all
// lags come from one FFT (Cooley and Tukey) for the products, and from prefix sums for means and variances over what
// both cover. The parabola through the best lag and its neighbours gives the part of a bin.
#include "account/clock_offset.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

namespace flyball {
namespace {

constexpr std::size_t kMostBins = std::size_t{1} << 18;
constexpr double kWeak = 0.3;
constexpr double kEqual = 0.95;        // of the best correlation: an offset that reaches it fits as well
constexpr double kBeyondChance = 4.0;  // times the root mean square of other offsets' correlations

// Amounts over time in equal bins. When the bins are used up, pairs of them become one, so that memory and cost do not
// depend on the span.
class Bins {
 public:
  explicit Bins(Nanoseconds width) : width_(width) {}

  // Spreads `amount` evenly over [begin, end); if that has no length, it goes into one bin.
  void add(Nanoseconds begin, Nanoseconds end, double amount) {
    if (values_.empty()) origin_ = begin / width_ - (begin % width_ < 0 ? 1 : 0);
    make_room(begin, std::max(begin, end - 1));
    const double per_ns = end > begin ? amount / static_cast<double>(end - begin) : 0.0;
    std::size_t bin = index(begin);
    if (end <= begin) {
      values_[bin] += amount;
      return;
    }
    for (Nanoseconds at = begin; at < end; ++bin) {
      const Nanoseconds stop = std::min(end, start_of(bin + 1));
      values_[bin] += per_ns * static_cast<double>(stop - at);
      at = stop;
    }
  }

  void coarsen() {
    // Pairs begin at an even number, so that all Bins of equal width have the same edges.
    if (origin_ % 2 != 0) {
      values_.insert(values_.begin(), 0.0);
      --origin_;
    }
    const std::size_t half = (values_.size() + 1) / 2;
    for (std::size_t i = 0; i < half; ++i) {
      values_[i] = values_[2 * i] + (2 * i + 1 < values_.size() ? values_[2 * i + 1] : 0.0);
    }
    values_.resize(half);
    origin_ /= 2;
    width_ *= 2;
  }

  [[nodiscard]] Nanoseconds width() const { return width_; }
  [[nodiscard]] std::int64_t origin() const { return origin_; }  // of the first bin, in widths
  [[nodiscard]] const std::vector<double>& values() const { return values_; }

 private:
  [[nodiscard]] std::int64_t number(Nanoseconds time) const { return time / width_ - (time % width_ < 0 ? 1 : 0); }
  [[nodiscard]] std::size_t index(Nanoseconds time) const { return static_cast<std::size_t>(number(time) - origin_); }
  [[nodiscard]] Nanoseconds start_of(std::size_t bin) const {
    return (origin_ + static_cast<std::int64_t>(bin)) * width_;
  }

  void make_room(Nanoseconds first, Nanoseconds last) {
    while (true) {
      const std::int64_t low = std::min(number(first), origin_);
      const std::int64_t high = std::max(number(last), origin_ + static_cast<std::int64_t>(values_.size()) - 1);
      if (high - low < static_cast<std::int64_t>(kMostBins)) {
        if (low < origin_) {
          values_.insert(values_.begin(), static_cast<std::size_t>(origin_ - low), 0.0);
          origin_ = low;
        }
        // Grows in large steps, since events come one by one.
        const auto size = static_cast<std::size_t>(high - low + 1);
        if (size > values_.size()) values_.resize(size, 0.0);
        return;
      }
      coarsen();
    }
  }

  Nanoseconds width_;
  std::int64_t origin_ = 0;
  std::vector<double> values_;
};

// Fourier transform in place (Cooley and Tukey). The size must be a power of two.
void transform(std::vector<std::complex<double>>& a, bool inverse) {
  const std::size_t n = a.size();
  for (std::size_t i = 1, j = 0; i < n; ++i) {
    std::size_t bit = n >> 1;
    for (; (j & bit) != 0; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(a[i], a[j]);
  }
  std::vector<std::complex<double>> roots(n / 2);
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const double angle = 2.0 * M_PI * static_cast<double>(i) / static_cast<double>(n);
    roots[i] = {std::cos(angle), inverse ? std::sin(angle) : -std::sin(angle)};
  }
  for (std::size_t length = 2; length <= n; length *= 2) {
    const std::size_t step = n / length;
    for (std::size_t i = 0; i < n; i += length) {
      for (std::size_t k = 0; k < length / 2; ++k) {
        const std::complex<double> odd = a[i + k + length / 2] * roots[k * step];
        a[i + k + length / 2] = a[i + k] - odd;
        a[i + k] += odd;
      }
    }
  }
  if (inverse) {
    for (std::complex<double>& value : a) value /= static_cast<double>(n);
  }
}

std::vector<double> prefix_sums(const std::vector<double>& values, bool squared) {
  std::vector<double> sums(values.size() + 1, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    sums[i + 1] = sums[i] + (squared ? values[i] * values[i] : values[i]);
  }
  return sums;
}

// Pearson's correlation with `y` of `x` shifted by each lag, over the bins that both cover; weight[lag] is their
// number.
struct Correlation {
  std::int64_t first_lag = 0;
  std::vector<double> value;
  std::vector<double> bins;
};

Correlation correlate(std::vector<double> x, std::vector<double> y) {
  // Sums of deviations from the mean lose least. Deviations within rounding do not count as varying.
  double rounding_x = 0.0;
  double rounding_y = 0.0;
  for (const auto& [values, rounding] : {std::pair(&x, &rounding_x), {&y, &rounding_y}}) {
    double mean = 0.0;
    for (const double v : *values) mean += v;
    mean /= static_cast<double>(values->size());
    for (double& v : *values) v -= mean;
    *rounding = 1e-20 * mean * mean;
  }
  std::size_t n = 1;
  while (n < x.size() + y.size()) n *= 2;
  std::vector<std::complex<double>> a(n);
  std::vector<std::complex<double>> b(n);
  std::copy(x.begin(), x.end(), a.begin());
  std::copy(y.begin(), y.end(), b.begin());
  transform(a, false);
  transform(b, false);
  for (std::size_t i = 0; i < n; ++i) a[i] = std::conj(a[i]) * b[i];
  transform(a, true);

  const std::vector<double> sx = prefix_sums(x, false);
  const std::vector<double> sxx = prefix_sums(x, true);
  const std::vector<double> sy = prefix_sums(y, false);
  const std::vector<double> syy = prefix_sums(y, true);
  const auto nx = static_cast<std::int64_t>(x.size());
  const auto ny = static_cast<std::int64_t>(y.size());
  Correlation result;
  result.first_lag = 1 - nx;
  for (std::int64_t lag = 1 - nx; lag < ny; ++lag) {  // x[i] meets y[i + lag]
    const auto begin = static_cast<std::size_t>(std::max<std::int64_t>(0, -lag));
    const auto end = static_cast<std::size_t>(std::min(nx, ny - lag));
    const auto begin_y = static_cast<std::size_t>(static_cast<std::int64_t>(begin) + lag);
    const auto end_y = static_cast<std::size_t>(static_cast<std::int64_t>(end) + lag);
    const auto count = static_cast<double>(end - begin);
    const double mean_x = (sx[end] - sx[begin]) / count;
    const double mean_y = (sy[end_y] - sy[begin_y]) / count;
    const double var_x = (sxx[end] - sxx[begin]) / count - mean_x * mean_x;
    const double var_y = (syy[end_y] - syy[begin_y]) / count - mean_y * mean_y;
    const double xy = a[static_cast<std::size_t>(lag >= 0 ? lag : static_cast<std::int64_t>(n) + lag)].real() / count;
    const double floor_x = 1e-9 * (sxx.back() / static_cast<double>(nx));
    const double floor_y = 1e-9 * (syy.back() / static_cast<double>(ny));
    const bool moves = var_x > std::max(floor_x, rounding_x) && var_y > std::max(floor_y, rounding_y);
    result.value.push_back(moves ? std::clamp((xy - mean_x * mean_y) / std::sqrt(var_x * var_y), -1.0, 1.0) : 0.0);
    result.bins.push_back(count);
  }
  return result;
}

using LagSums = std::map<std::int64_t, std::pair<double, double>>;  // by lag: weighted correlation, weight

// The largest weight among the lags whose correlation reaches `least` and is exceeded by neither neighbour's, which
// leaves out the slopes of a broad peak. 0 if there is no such lag.
double most_weight_of_peaks(const LagSums& sums, double least) {
  const auto value = [](LagSums::const_iterator entry) { return entry->second.first / entry->second.second; };
  double most = 0.0;
  for (auto entry = sums.begin(); entry != sums.end(); ++entry) {
    const double own = value(entry);
    if (own < least || (entry != sums.begin() && value(std::prev(entry)) > own)) continue;
    if (std::next(entry) != sums.end() && value(std::next(entry)) > own) continue;
    most = std::max(most, entry->second.second);
  }
  return most;
}

struct DeviceBins {
  std::optional<Bins> busy;
  std::optional<Bins> power;
  std::optional<Bins> powered;  // how much of each bin has a known power
  Nanoseconds busy_until = 0;

  // Mean power of each bin. Where it is unknown (in a gap, at the ends), the mean of all bins is taken, which
  // correlates with nothing.
  [[nodiscard]] std::vector<double> mean_power() const {
    std::vector<double> values = power->values();
    const std::vector<double>& known = powered->values();
    const double mean =
        std::accumulate(values.begin(), values.end(), 0.0) / std::accumulate(known.begin(), known.end(), 0.0);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = known[i] > 0.0 ? values[i] / known[i] : mean;
    return values;
  }
};

// Adds the busy time of an event: the part of it that is after all earlier ones. A device's events must come in order.
void add_busy(DeviceBins& device, const TraceEvent& event, Nanoseconds width) {
  if (!device.busy) {
    device.busy.emplace(width);
    device.busy_until = event.begin;
  }
  const Nanoseconds begin = std::max(event.begin, device.busy_until);
  if (event.end > begin) {
    device.busy->add(begin, event.end, static_cast<double>(event.end - begin));
    device.busy_until = event.end;
  } else {
    device.busy->add(event.begin, event.begin, 0.0);
  }
}

}  // namespace

ClockOffset estimate_clock_offset(EventSource& events, PowerSource& power, const ClockOffsetOptions& options) {
  ClockOffset result;
  const Nanoseconds given = to_nanoseconds(options.bin);
  std::map<DeviceId, DeviceBins> devices;
  // Power comes first, since bins finer than its segments say nothing.
  double segment_time = 0.0;
  std::uint64_t segment_count = 0;
  PowerSegment segment;
  const Nanoseconds first_width = given > 0 ? given : 1'000'000;
  Nanoseconds power_first = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds power_last = std::numeric_limits<Nanoseconds>::min();
  while (power.next(segment)) {
    if (segment.end <= segment.begin) continue;
    DeviceBins& device = devices[segment.device];
    if (!device.power) {
      device.power.emplace(first_width);
      device.powered.emplace(first_width);
    }
    const auto length = static_cast<double>(segment.end - segment.begin);
    device.powered->add(segment.begin, segment.end, length);
    device.power->add(segment.begin, segment.end, segment.power.value() * length);
    power_first = std::min(power_first, segment.begin);
    power_last = std::max(power_last, segment.end);
    segment_time += static_cast<double>(segment.end - segment.begin);
    ++segment_count;
  }
  TraceEvent event;
  Nanoseconds events_first = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds events_last = std::numeric_limits<Nanoseconds>::min();
  while (events.next(event)) {
    add_busy(devices[event.device], event, first_width);
    events_first = std::min(events_first, event.begin);
    events_last = std::max(events_last, event.end);
  }
  for (auto device = devices.begin(); device != devices.end();) {
    const bool both = device->second.busy && device->second.power;
    device = both ? std::next(device) : devices.erase(device);
  }
  if (devices.empty() || segment_count == 0) return result;

  // One width for all devices: a quarter of a segment, but at least the coarsest bins that were needed.
  Nanoseconds width = first_width;
  const double wanted = given > 0 ? 0.0 : segment_time / static_cast<double>(segment_count) / 4.0;
  while (static_cast<double>(width) * 2.0 <= wanted) width *= 2;
  for (const auto& [id, bins] : devices) width = std::max({width, bins.busy->width(), bins.power->width()});
  result.resolution = to_seconds(width);

  // Correlations are averaged over the devices, weighted by the bins that they are based on.
  const bool overlap = events_first < power_last && power_first < events_last;
  const auto reach = static_cast<std::int64_t>(std::llround(options.reach.value() * 1e9 / static_cast<double>(width)));
  LagSums sums;
  for (auto& [id, bins] : devices) {
    while (bins.busy->width() < width) bins.busy->coarsen();
    while (bins.power->width() < width) {
      bins.power->coarsen();
      bins.powered->coarsen();
    }
    const Correlation one = correlate(bins.busy->values(), bins.mean_power());
    const std::int64_t between = bins.power->origin() - bins.busy->origin();
    const double least = static_cast<double>(std::min(bins.busy->values().size(), bins.power->values().size())) / 2.0;
    bool moves = false;
    for (std::size_t i = 0; i < one.value.size(); ++i) {
      const std::int64_t lag = one.first_lag + static_cast<std::int64_t>(i) + between;
      if (one.bins[i] < least || one.bins[i] < 4.0) continue;
      if (overlap && std::abs(lag) > reach) continue;
      auto& [sum, weight] = sums[lag];
      sum += one.value[i] * one.bins[i];
      weight += one.bins[i];
      moves = moves || one.value[i] != 0.0;
    }
    if (moves) result.devices.push_back(id);
  }
  if (result.devices.empty() || sums.empty()) return result;
  const auto value = [](const std::pair<double, double>& entry) { return entry.first / entry.second; };
  double best = -2.0;
  for (const auto& [lag, entry] : sums) best = std::max(best, value(entry));
  // Between different clocks a small offset is no more likely than a large one. What counts is how much the traces
  // overlap: a regular program fits as well with only half of it over power.
  const double least_weight = overlap ? 0.0 : kEqual * most_weight_of_peaks(sums, kEqual * best);
  if (least_weight > 0.0) {
    best = -2.0;
    for (const auto& [lag, entry] : sums) {
      if (entry.second >= least_weight) best = std::max(best, value(entry));
    }
  }
  // Of the offsets that fit as well as the best, up to noise, the smallest is taken.
  auto chosen = sums.end();
  for (auto entry = sums.begin(); entry != sums.end(); ++entry) {
    if (value(entry->second) < best - 1e-3 || entry->second.second < least_weight) continue;
    if (chosen == sums.end() || std::abs(entry->first) < std::abs(chosen->first)) chosen = entry;
  }
  result.correlation = value(chosen->second);
  if (const auto unshifted = sums.find(0); overlap && unshifted != sums.end()) {
    result.correlation_unshifted = value(unshifted->second);
  }
  // Interpolates between bins by the parabola through the best bin and its neighbours.
  double part = 0.0;
  if (chosen != sums.begin() && std::next(chosen) != sums.end() && std::prev(chosen)->first == chosen->first - 1 &&
      std::next(chosen)->first == chosen->first + 1) {
    const double left = value(std::prev(chosen)->second);
    const double right = value(std::next(chosen)->second);
    const double bend = left - 2.0 * result.correlation + right;
    if (bend < 0.0) part = std::clamp(0.5 * (left - right) / bend, -0.5, 0.5);
  }
  result.offset = std::llround((static_cast<double>(chosen->first) + part) * static_cast<double>(width));
  // The next peak lies beyond where the correlation has fallen to half of this one's.
  const auto falls = [&](double v) { return v < 0.5 * result.correlation; };
  auto left = chosen;
  while (left != sums.begin() && !falls(value(left->second))) --left;
  auto right = chosen;
  while (right != sums.end() && !falls(value(right->second))) ++right;
  double runner_up = -1.0;
  double squares = 0.0;
  double others = 0.0;
  for (auto entry = sums.begin(); entry != sums.end(); ++entry) {
    const bool outside = entry->first < left->first || (right != sums.end() && entry->first > right->first);
    if (!outside) continue;
    squares += value(entry->second) * value(entry->second);
    others += 1.0;
    if (value(entry->second) <= runner_up) continue;
    runner_up = value(entry->second);
    result.runner_up_offset = Seconds(static_cast<double>(entry->first) * static_cast<double>(width) * 1e-9);
  }
  result.runner_up = std::max(runner_up, 0.0);
  // How large correlations between unrelated traces become by chance. They are large if the traces rarely change.
  const double chance = others > 0.0 ? std::sqrt(squares / others) : 0.0;
  if (result.correlation < kWeak) {
    result.verdict = OffsetVerdict::kWeak;
  } else if (result.runner_up > kEqual * result.correlation || result.correlation < kBeyondChance * chance) {
    result.verdict = OffsetVerdict::kAmbiguous;
  } else {
    result.verdict = OffsetVerdict::kCertain;
  }
  return result;
}

}  // namespace flyball
