// Both traces are laid into bins of 1 ms, which are joined in pairs when there are more than 2^18. Correlations of all
// lags come from fast Fourier transforms for the products, and from prefix sums for means and variances over what
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
#include <vector>
#include <unsupported/Eigen/FFT>

namespace flyball {
namespace {

constexpr std::size_t kMostBins = std::size_t{1} << 18;
constexpr std::size_t kFewBins = std::size_t{1} << 14;
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
        const auto size = static_cast<std::size_t>(high - low + 1);
        // More than a few bins will be many, and memory that is reserved and not used costs nothing.
        if (size > kFewBins && values_.capacity() < kMostBins) values_.reserve(kMostBins);
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

std::vector<double> prefix_sums(const std::vector<double>& values, bool squared) {
  std::vector<double> sums(values.size() + 1, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    sums[i + 1] = sums[i] + (squared ? values[i] * values[i] : values[i]);
  }
  return sums;
}

// The sum of x[i] y[i + lag] over all i, for each lag from 1 - x.size() to y.size() - 1.
std::vector<double> sums_of_products(const std::vector<double>& x, const std::vector<double>& y) {
  std::size_t n = 1;
  while (n < x.size() + y.size()) n *= 2;
  std::vector<double> a(n);
  std::vector<double> b(n);
  std::copy(x.begin(), x.end(), a.begin());
  std::copy(y.begin(), y.end(), b.begin());
  Eigen::FFT<double> fft(Eigen::default_fft_impl<double>(), Eigen::FFT<double>::HalfSpectrum);
  std::vector<std::complex<double>> spectrum_x;
  std::vector<std::complex<double>> spectrum_y;
  fft.fwd(spectrum_x, a);
  fft.fwd(spectrum_y, b);
  for (std::size_t i = 0; i < spectrum_x.size(); ++i) spectrum_x[i] = std::conj(spectrum_x[i]) * spectrum_y[i];
  fft.inv(a, spectrum_x, static_cast<Eigen::Index>(n));
  // Of a negative lag, the sum stands at the end.
  std::vector<double> sums;
  for (std::size_t i = n + 1 - x.size(); i < n; ++i) sums.push_back(a[i]);
  for (std::size_t i = 0; i < y.size(); ++i) sums.push_back(a[i]);
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
  const std::vector<double> products = sums_of_products(x, y);
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
    const double xy = products[static_cast<std::size_t>(lag - result.first_lag)] / count;
    const double floor_x = 1e-9 * (sxx.back() / static_cast<double>(nx));
    const double floor_y = 1e-9 * (syy.back() / static_cast<double>(ny));
    const bool moves = var_x > std::max(floor_x, rounding_x) && var_y > std::max(floor_y, rounding_y);
    result.value.push_back(moves ? std::clamp((xy - mean_x * mean_y) / std::sqrt(var_x * var_y), -1.0, 1.0) : 0.0);
    result.bins.push_back(count);
  }
  return result;
}

using LagSums = std::map<std::int64_t, std::pair<double, double>>;  // by lag: weighted correlation, weight

double correlation_at(LagSums::const_iterator entry) { return entry->second.first / entry->second.second; }

// The largest weight among the lags whose correlation reaches `least` and is exceeded by neither neighbour's, which
// leaves out the slopes of a broad peak. 0 if there is no such lag.
double most_weight_of_peaks(const LagSums& sums, double least) {
  double most = 0.0;
  for (auto entry = sums.begin(); entry != sums.end(); ++entry) {
    const double own = correlation_at(entry);
    if (own < least || (entry != sums.begin() && correlation_at(std::prev(entry)) > own)) continue;
    if (std::next(entry) != sums.end() && correlation_at(std::next(entry)) > own) continue;
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

struct Span {
  Nanoseconds first = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds last = std::numeric_limits<Nanoseconds>::min();

  void cover(Nanoseconds begin, Nanoseconds end) {
    first = std::min(first, begin);
    last = std::max(last, end);
  }
  [[nodiscard]] bool overlaps(const Span& other) const { return first < other.last && other.first < last; }
};

struct BinnedTraces {
  std::map<DeviceId, DeviceBins> devices;  // those that are in both traces
  Span events;
  Span power;
};

// Reads both. Events are laid into bins of a quarter of a segment of the power trace, since finer ones say nothing,
// unless a width is `given`.
BinnedTraces read_traces(EventSource& events, PowerSource& power, Nanoseconds width, bool given) {
  BinnedTraces traces;
  double covered = 0.0;
  double segments = 0.0;
  PowerSegment segment;
  while (power.next(segment)) {
    if (segment.end <= segment.begin) continue;
    DeviceBins& device = traces.devices[segment.device];
    if (!device.power) {
      device.power.emplace(width);
      device.powered.emplace(width);
    }
    const auto length = static_cast<double>(segment.end - segment.begin);
    device.powered->add(segment.begin, segment.end, length);
    device.power->add(segment.begin, segment.end, segment.power.value() * length);
    traces.power.cover(segment.begin, segment.end);
    covered += length;
    segments += 1.0;
  }
  while (!given && segments > 0.0 && 8.0 * segments * static_cast<double>(width) <= covered) width *= 2;
  TraceEvent event;
  while (events.next(event)) {
    add_busy(traces.devices[event.device], event, width);
    traces.events.cover(event.begin, event.end);
  }
  std::erase_if(traces.devices, [](const auto& device) { return !device.second.busy || !device.second.power; });
  return traces;
}

// Gives all devices bins of one width, the coarsest that were needed, and returns it.
Nanoseconds join_bins(BinnedTraces& traces) {
  Nanoseconds width = 0;
  for (const auto& [id, bins] : traces.devices) width = std::max({width, bins.busy->width(), bins.power->width()});
  for (auto& [id, bins] : traces.devices) {
    while (bins.busy->width() < width) bins.busy->coarsen();
    while (bins.power->width() < width) {
      bins.power->coarsen();
      bins.powered->coarsen();
    }
  }
  return width;
}

// Adds a device's correlations to the sums, weighted by the bins that they are based on, for lags of at most `reach`.
// Returns whether the device's work and power change at all.
bool add_correlations(const DeviceBins& bins, std::int64_t reach, LagSums& sums) {
  const Correlation one = correlate(bins.busy->values(), bins.mean_power());
  const std::int64_t between = bins.power->origin() - bins.busy->origin();
  const double least = static_cast<double>(std::min(bins.busy->values().size(), bins.power->values().size())) / 2.0;
  bool moves = false;
  for (std::size_t i = 0; i < one.value.size(); ++i) {
    const std::int64_t lag = one.first_lag + static_cast<std::int64_t>(i) + between;
    if (one.bins[i] < least || one.bins[i] < 4.0 || std::abs(lag) > reach) continue;
    auto& [sum, weight] = sums[lag];
    sum += one.value[i] * one.bins[i];
    weight += one.bins[i];
    moves = moves || one.value[i] != 0.0;
  }
  return moves;
}

double best_correlation(const LagSums& sums, double least_weight) {
  double best = -2.0;
  for (auto entry = sums.begin(); entry != sums.end(); ++entry) {
    if (entry->second.second >= least_weight) best = std::max(best, correlation_at(entry));
  }
  return best;
}

// Of the lags that fit as well as the best, up to noise, the smallest. Between different clocks, where the traces do
// not overlap as they are, a small offset is no more likely than a large one. What counts there is how much the
// shifted traces overlap: a regular program fits as well with only half of it over power.
LagSums::const_iterator choose_lag(const LagSums& sums, bool overlap) {
  const double best_of_all = best_correlation(sums, 0.0);
  const double least_weight = overlap ? 0.0 : kEqual * most_weight_of_peaks(sums, kEqual * best_of_all);
  const double best = best_correlation(sums, least_weight);
  auto chosen = sums.end();
  for (auto entry = sums.begin(); entry != sums.end(); ++entry) {
    if (correlation_at(entry) < best - 1e-3 || entry->second.second < least_weight) continue;
    if (chosen == sums.end() || std::abs(entry->first) < std::abs(chosen->first)) chosen = entry;
  }
  return chosen;
}

// The part of a bin by which the peak lies beside the chosen lag, by the parabola through it and its neighbours.
double part_of_bin(const LagSums& sums, LagSums::const_iterator chosen) {
  if (chosen == sums.begin() || std::next(chosen) == sums.end()) return 0.0;
  const auto before = std::prev(chosen);
  const auto after = std::next(chosen);
  if (before->first != chosen->first - 1 || after->first != chosen->first + 1) return 0.0;
  const double left = correlation_at(before);
  const double right = correlation_at(after);
  const double bend = left - 2.0 * correlation_at(chosen) + right;
  return bend < 0.0 ? std::clamp(0.5 * (left - right) / bend, -0.5, 0.5) : 0.0;
}

// What the lags away from the chosen peak say.
struct OtherLags {
  double best = -1.0;  // correlation
  std::int64_t best_lag = 0;
  double mean_square = 0.0;
};

// The peak reaches to where the correlation has fallen to half of its own.
OtherLags look_at_others(const LagSums& sums, LagSums::const_iterator chosen) {
  const double half = 0.5 * correlation_at(chosen);
  auto left = chosen;
  while (left != sums.begin() && correlation_at(left) >= half) --left;
  auto right = chosen;
  while (right != sums.end() && correlation_at(right) >= half) ++right;
  OtherLags others;
  double count = 0.0;
  for (auto entry = sums.begin(); entry != sums.end(); ++entry) {
    const bool outside = entry->first < left->first || (right != sums.end() && entry->first > right->first);
    if (!outside) continue;
    const double own = correlation_at(entry);
    others.mean_square += own * own;
    count += 1.0;
    if (own <= others.best) continue;
    others.best = own;
    others.best_lag = entry->first;
  }
  others.mean_square /= std::max(1.0, count);
  return others;
}

// Correlations between unrelated traces become large by chance if the traces rarely change. How large is told by the
// root mean square of the correlations at other lags.
OffsetVerdict verdict_on(const ClockOffset& found, const OtherLags& others) {
  if (found.correlation < kWeak) return OffsetVerdict::kWeak;
  const bool by_chance = found.correlation < kBeyondChance * std::sqrt(others.mean_square);
  const bool ambiguous = found.runner_up > kEqual * found.correlation || by_chance;
  return ambiguous ? OffsetVerdict::kAmbiguous : OffsetVerdict::kCertain;
}

}  // namespace

ClockOffset estimate_clock_offset(EventSource& events, PowerSource& power, const ClockOffsetOptions& options) {
  ClockOffset result;
  const Nanoseconds given = to_nanoseconds(options.bin);
  const Nanoseconds first_width = given > 0 ? given : 1'000'000;
  BinnedTraces traces = read_traces(events, power, first_width, given > 0);
  if (traces.devices.empty()) return result;
  const Nanoseconds width = join_bins(traces);
  const Seconds bin = to_seconds(width);
  result.resolution = bin;

  const bool overlap = traces.events.overlaps(traces.power);
  const std::int64_t reach = overlap ? std::llround(options.reach / bin) : std::numeric_limits<std::int64_t>::max();
  LagSums sums;
  for (const auto& [id, bins] : traces.devices) {
    if (add_correlations(bins, reach, sums)) result.devices.push_back(id);
  }
  if (result.devices.empty() || sums.empty()) return result;

  const auto chosen = choose_lag(sums, overlap);
  result.correlation = correlation_at(chosen);
  result.offset =
      std::llround((static_cast<double>(chosen->first) + part_of_bin(sums, chosen)) * static_cast<double>(width));
  if (const auto unshifted = sums.find(0); overlap && unshifted != sums.end()) {
    result.correlation_unshifted = correlation_at(unshifted);
  }
  const OtherLags others = look_at_others(sums, chosen);
  result.runner_up = std::max(others.best, 0.0);
  result.runner_up_offset = bin * static_cast<double>(others.best_lag);
  result.verdict = verdict_on(result, others);
  return result;
}

}  // namespace flyball
