// Every operation and every wait adds its power where it begins and takes it away where it ends; the curve is the sum
// of these changes in order of time. Means come from the energy up to a moment, and oscillations from the Fourier
// series of a curve of steps, whose coefficients are sums over its steps.
#include "pipeline/power_curve.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

#include "base/index.h"

namespace flyball {
namespace {

struct Change {
  Nanoseconds time;
  double watts;
};

// Powers that differ by less are equal but for the rounding of sums.
constexpr double kSameWatts = 1e-6;

// Calls add(stage, piece) for all that draws power until `end`, on one GPU of each stage. Operations run for
// `durations` and draw the mean power of their options.
template <class Add>
void for_each_piece(const ComputationDag& dag, const ClockPlan& plan, std::span<const Watts> blocking,
                    const Timeline& timeline, std::span<const Nanoseconds> durations, Nanoseconds end, Add add) {
  const auto power_of = [&](int i) {
    const ClockOption& option = dag.type_of(i).options[plan[at(i)]];
    return option.energy / to_seconds(std::max<Nanoseconds>(1, to_nanoseconds(option.time)));
  };
  for (int stage = 0; stage < dag.stages(); ++stage) {
    for_each_wait(dag, plan, stage, durations, timeline.finish, end,
                  [&](Nanoseconds from, Nanoseconds until, Watts above) {
                    add(stage, PowerDraw{from, until, blocking[at(stage)] + above});
                  });
    for (const int i : dag.stage_order(stage)) {
      if (!dag.type_of(i).waits) add(stage, PowerDraw{timeline.start[at(i)], timeline.finish[at(i)], power_of(i)});
    }
  }
  for (int i = 0; i < dag.size(); ++i) {
    const OperationType& type = dag.type_of(i);
    if (type.occupies_stage) continue;
    const Watts above = power_of(i) - charged_blocking(type, blocking[at(type.stage)]);
    if (above > Watts(0)) add(type.stage, PowerDraw{timeline.start[at(i)], timeline.finish[at(i)], above});
  }
}

// The energy from the curve's beginning to any moment, before and after its period too.
class EnergyUntil {
 public:
  explicit EnergyUntil(const PowerCurve& curve) : curve_(curve) {
    for (std::size_t k = 0; k < curve.begin.size(); ++k) {
      sums_.push_back(total_);
      total_ += curve.power[k].value() * to_seconds(curve.end_of(k) - curve.begin[k]).value();
    }
  }

  [[nodiscard]] double operator()(Nanoseconds time) const {
    Nanoseconds periods = time / curve_.period;
    Nanoseconds rest = time % curve_.period;
    if (rest < 0) {
      --periods;
      rest += curve_.period;
    }
    const auto after = std::upper_bound(curve_.begin.begin(), curve_.begin.end(), rest);
    const auto k = static_cast<std::size_t>(after - curve_.begin.begin()) - 1;
    return static_cast<double>(periods) * total_ + sums_[k] +
           curve_.power[k].value() * to_seconds(rest - curve_.begin[k]).value();
  }
  [[nodiscard]] double total() const { return total_; }

 private:
  const PowerCurve& curve_;
  std::vector<double> sums_;
  double total_ = 0.0;
};

}  // namespace

PowerCurve sum_of(const std::vector<PowerDraw>& pieces, Nanoseconds period, int copies) {
  std::vector<Change> changes;
  for (const PowerDraw& piece : pieces) {
    if (piece.until <= piece.from) continue;
    changes.push_back({piece.from, piece.power.value()});
    changes.push_back({piece.until, -piece.power.value()});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
  PowerCurve curve;
  curve.period = period;
  double watts = 0.0;
  for (std::size_t k = 0; k < changes.size();) {
    const Nanoseconds now = changes[k].time;
    for (; k < changes.size() && changes[k].time == now; ++k) watts += changes[k].watts;
    if (now == curve.period) break;
    const Watts power(watts * copies);
    if (!curve.power.empty() && std::abs((power - curve.power.back()).value()) < kSameWatts) continue;
    curve.begin.push_back(now);
    curve.power.push_back(power);
  }
  return curve;
}

PowerCurve power_curve(const ComputationDag& dag, const ClockPlan& plan, std::span<const Watts> blocking, int copies,
                       Nanoseconds period) {
  const std::vector<Nanoseconds> durations = plan_durations(dag, plan);
  const Timeline timeline = emulate(dag, durations);
  const Nanoseconds end = std::max(period, timeline.makespan);
  std::vector<PowerDraw> pieces;
  for_each_piece(dag, plan, blocking, timeline, durations, end,
                 [&](int /*stage*/, const PowerDraw& piece) { pieces.push_back(piece); });
  return sum_of(pieces, end, copies);
}

std::vector<PowerCurve> stage_power_curves(const ComputationDag& dag, const ClockPlan& plan,
                                           std::span<const Watts> blocking, const Timeline& timeline,
                                           std::span<const Nanoseconds> durations, Nanoseconds period) {
  const Nanoseconds end = std::max(period, timeline.makespan);
  std::vector<std::vector<PowerDraw>> pieces(at(dag.stages()));
  for_each_piece(dag, plan, blocking, timeline, durations, end,
                 [&](int stage, const PowerDraw& piece) { pieces[at(stage)].push_back(piece); });
  std::vector<PowerCurve> curves;
  curves.reserve(pieces.size());
  for (const std::vector<PowerDraw>& of_stage : pieces) curves.push_back(sum_of(of_stage, end, 1));
  return curves;
}

Watts peak_of(const PowerCurve& curve) { return *std::max_element(curve.power.begin(), curve.power.end()); }

double ramp_of(const PowerCurve& curve, Seconds window) {
  const EnergyUntil energy(curve);
  const Nanoseconds width = std::max<Nanoseconds>(1, to_nanoseconds(window));
  // From one window to the next the mean changes linearly in time between these moments.
  double most = 0.0;
  for (const Nanoseconds begin : curve.begin) {
    for (const Nanoseconds end : {begin, begin + width, begin + 2 * width}) {
      most = std::max(most, std::abs(energy(end) - 2.0 * energy(end - width) + energy(end - 2 * width)));
    }
  }
  const double seconds = to_seconds(width).value();
  return most / (seconds * seconds);
}

PowerSwing swing_of(const PowerCurve& curve) {
  const double period = to_seconds(curve.period).value();
  const int first = std::max(1, static_cast<int>(std::ceil(kSwingFromHz * period)));
  const int last = static_cast<int>(std::min(kSwingToHz * period, static_cast<double>(first + kMostHarmonics - 1)));
  if (last < first) return {};
  // A step at time b adds to harmonic k its height times exp(-2 pi i k b / period).
  std::vector<std::complex<double>> sums(at(last - first + 1));
  for (std::size_t j = 0; j < curve.begin.size(); ++j) {
    const Watts before = j > 0 ? curve.power[j - 1] : curve.power.back();
    const double step = (curve.power[j] - before).value();
    const double angle = -2.0 * std::numbers::pi * to_seconds(curve.begin[j]).value() / period;
    const std::complex<double> turn = std::polar(1.0, angle);
    std::complex<double> value = step * std::polar(1.0, angle * first);
    for (std::complex<double>& sum : sums) {
      sum += value;
      value *= turn;
    }
  }
  PowerSwing swing;
  for (int k = first; k <= last; ++k) {
    // The coefficient is the sum over 2 pi i k, the amplitude twice its size, and peak to peak twice that.
    const Watts peak_to_peak(2.0 * std::abs(sums[at(k - first)]) / (std::numbers::pi * k));
    if (peak_to_peak > swing.peak_to_peak) swing = {peak_to_peak, k / period};
  }
  return swing;
}

PowerShape shape_of(const PowerCurve& curve, Seconds ramp_window, bool with_swing) {
  PowerShape shape;
  shape.mean = Joules(EnergyUntil(curve).total()) / to_seconds(curve.period);
  shape.least = *std::min_element(curve.power.begin(), curve.power.end());
  shape.peak = peak_of(curve);
  for (std::size_t k = 0; k < curve.power.size(); ++k) {
    const Watts before = k > 0 ? curve.power[k - 1] : curve.power.back();
    shape.greatest_step = std::max(shape.greatest_step, Watts(std::abs((curve.power[k] - before).value())));
  }
  shape.ramp_w_per_s = ramp_of(curve, ramp_window);
  if (with_swing) shape.swing = swing_of(curve);
  return shape;
}

}  // namespace flyball
