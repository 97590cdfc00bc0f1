// Every stage is prepared once: when its operations can begin, what must follow them, and its hull. A number of windows
// on each side is then tried after the other, at several places of the trough, and the time is raised by bisection.
#include "plan/ramp_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/index.h"
#include "pipeline/timeline.h"
#include "profile/cost_curve.h"

namespace flyball {
namespace {

constexpr int kPlaces = 16;       // of the trough's window
constexpr int kMostWindows = 64;  // on each side
constexpr double kBoundRounding = 1e-7;

double seconds_of(Nanoseconds time) { return to_seconds(time).value(); }
double watts_of(const ClockOption& option) {
  return option.energy.value() / seconds_of(std::max<Nanoseconds>(1, to_nanoseconds(option.time)));
}

struct Operation {
  double begin = 0.0;  // s: not before this
  double after = 0.0;  // s: no less than this follows
  double work = 0.0;   // s: of the stage until its end
  double most = 0.0;   // W
};

struct Stage {
  std::vector<Operation> operations;
  double least = 0.0;        // W
  double idle = 0.0;         // W: the most that it draws when it waits
  double first_begin = 0.0;  // s: of what counts as work
  double last_after = 0.0;   // s
  CostCurve hull;            // energy above `least` per work over time per work, which stands in ns for s

  // How much of this time on either side of the trough can be spent on work.
  [[nodiscard]] double free_after(double x, double length) const {
    return std::max(0.0, length - std::max(0.0, first_begin - x));
  }
  [[nodiscard]] double free_before(double y, double length) const {
    return std::max(0.0, length - std::max(0.0, last_after - y));
  }
  // The most work that can be done by a moment.
  [[nodiscard]] double done_at_most(double moment) const {
    double before = 0.0;
    double least_of = std::numeric_limits<double>::infinity();
    for (const Operation& one : operations) {
      least_of = std::min(least_of, before + std::max(0.0, moment - one.begin));
      before = one.work;
    }
    return std::min(least_of, before);
  }
  // The least work that must be done so long before the end.
  [[nodiscard]] double done_at_least(double left) const {
    double most_of = 0.0;
    for (const Operation& one : operations) {
      most_of = std::max(most_of, one.work - std::max(0.0, left - one.after));
    }
    return most_of;
  }
  [[nodiscard]] double energy_above_least(double work, double time) const {
    if (work <= 0.0 || hull.empty()) return 0.0;
    const double ratio = 1e9 * time / work;
    double per_work = hull.front().net_joules;
    for (std::size_t v = 0; v + 1 < hull.size() && static_cast<double>(hull[v].time) < ratio; ++v) {
      const double length = static_cast<double>(hull[v + 1].time - hull[v].time);
      const double part = std::min(1.0, (ratio - static_cast<double>(hull[v].time)) / length);
      per_work = hull[v].net_joules + part * (hull[v + 1].net_joules - hull[v].net_joules);
    }
    return work * per_work;
  }
  // The most energy from the iteration's beginning until a moment, or from so long before its end.
  [[nodiscard]] double most_from_begin(double until) const {
    return most_within(until, operations.begin(), operations.end(), &Operation::begin);
  }
  [[nodiscard]] double most_until_end(double left) const {
    return most_within(left, operations.rbegin(), operations.rend(), &Operation::after);
  }

 private:
  // Operations come in the order of `distance`, at which each may be the first to run.
  template <class Iterator>
  [[nodiscard]] double most_within(double time, Iterator one, const Iterator& last, double Operation::*distance) const {
    double energy = 0.0;
    double power = idle;
    double since = 0.0;
    for (; one != last && (*one).*distance < time; ++one) {
      energy += power * ((*one).*distance - since);
      since = (*one).*distance;
      power = std::max(power, one->most);
    }
    return energy + power * (time - since);
  }
};

// Transfers beside the stages' work: what they may draw above the wait.
struct Beside {
  double begin = 0.0;
  double after = 0.0;
  double power = 0.0;
  double time = 0.0;
};

class RampBound {
 public:
  RampBound(const ComputationDag& dag, std::span<const Watts> blocking, double ramp, double window)
      : ramp_(ramp), window_(window) {
    std::vector<Nanoseconds> fastest(at(dag.size()));
    for (int i = 0; i < dag.size(); ++i) {
      fastest[at(i)] = std::numeric_limits<Nanoseconds>::max();
      for (const ClockOption& option : dag.type_of(i).options) {
        fastest[at(i)] = std::min(fastest[at(i)], to_nanoseconds(option.time));
      }
    }
    const Timeline timeline = emulate(dag, fastest);
    least_time_ = seconds_of(timeline.makespan);
    const auto begin = [&](int i) { return seconds_of(timeline.start[at(i)]); };
    const auto after = [&](int i) {
      return seconds_of(timeline.makespan - timeline.latest_start[at(i)] - fastest[at(i)]);
    };
    for (int s = 0; s < dag.stages(); ++s) {
      Stage stage;
      stage.least = stage.idle = blocking[at(s)].value();
      double work = 0.0;
      for (const int i : dag.stage_order(s)) {
        const OperationType& type = dag.type_of(i);
        for (const Watts above : type.waiting_above) {
          stage.idle = std::max(stage.idle, (blocking[at(s)] + above).value());
          stage.least = std::min(stage.least, (blocking[at(s)] + above).value());
        }
        double most = 0.0;
        for (const ClockOption& option : type.options) {
          if (type.waits) continue;
          most = std::max(most, watts_of(option));
          stage.least = std::min(stage.least, watts_of(option));
        }
        if (is_work(type)) {
          if (work == 0.0) stage.first_begin = begin(i);
          stage.last_after = after(i);
          work += seconds_of(fastest[at(i)]);
        }
        stage.operations.push_back({begin(i), after(i), work, most});
      }
      std::vector<ClockOption> per_work;
      for (const OperationType& type : dag.types()) {
        if (type.stage != s || !is_work(type)) continue;
        double shortest = std::numeric_limits<double>::infinity();
        for (const ClockOption& option : type.options) shortest = std::min(shortest, duration_of(option));
        if (!(shortest > 0.0)) continue;
        for (const ClockOption& option : type.options) {
          const double ratio = duration_of(option) / shortest;
          const double above = std::max(0.0, watts_of(option) - stage.least);
          per_work.push_back({option.frequency, Seconds(ratio), Joules(above * ratio)});
        }
      }
      stage.hull = hull_curve(pareto_options(per_work, Watts(0)), Watts(0));
      stages_.push_back(std::move(stage));
    }
    for (int i = 0; i < dag.size(); ++i) {
      const OperationType& type = dag.type_of(i);
      if (type.occupies_stage) continue;
      const double charged = charged_blocking(type, blocking[at(type.stage)]).value();
      for (const ClockOption& option : type.options) {
        const double above = watts_of(option) - charged;
        if (above > 0.0) beside_.push_back({begin(i), after(i), above, duration_of(option)});
      }
    }
  }

  [[nodiscard]] double least_time() const {
    double time = least_time_;
    for (int windows = 1; windows <= kMostWindows && (2 * windows + 1) * window_ <= time; ++windows) {
      for (int place = 0; place <= kPlaces; ++place) {
        time = raised(trough_of(window_ * place / kPlaces, windows), time);
      }
    }
    return time;
  }

 private:
  // The window around the iteration's beginning, and so many on each side of it.
  struct Trough {
    double x = 0.0;
    double y = 0.0;
    double length = 0.0;       // of the windows of a side
    double power = 0.0;        // W: the most in the mean
    double allowed = 0.0;      // J: on a side
    std::vector<double> done;  // work by `x` at most, of each stage
  };

  // What has one option may draw little, as loading does, and would make all work look cheap.
  static bool is_work(const OperationType& type) {
    return type.occupies_stage && !type.waits && type.options.size() > 1;
  }
  static double duration_of(const ClockOption& option) { return seconds_of(to_nanoseconds(option.time)); }

  [[nodiscard]] Trough trough_of(double y, int windows) const {
    Trough trough;
    trough.y = y;
    trough.x = window_ - y;
    trough.length = windows * window_;
    double energy = 0.0;
    for (const Stage& stage : stages_) {
      energy += stage.most_from_begin(trough.x) + stage.most_until_end(trough.y);
      trough.done.push_back(stage.done_at_most(trough.x));
    }
    for (const Beside& one : beside_) {
      const double time = std::max(0.0, trough.x - one.begin) + std::max(0.0, trough.y - one.after);
      energy += one.power * std::min(time, 2.0 * one.time);
    }
    trough.power = energy / window_;
    trough.allowed = trough.length * trough.power + 0.5 * ramp_ * window_ * window_ * windows * (windows + 1);
    return trough;
  }

  [[nodiscard]] bool impossible(const Trough& trough, double time) const {
    double first = 0.0;
    double last = 0.0;
    double both = 0.0;
    const double between = time - 2.0 * trough.length - window_;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const Stage& stage = stages_[s];
      const double end = trough.x + trough.length;
      const double by_end = stage.done_at_least(trough.y);
      const double after = stage.done_at_least(time - end) - trough.done[s];
      const double before = by_end - stage.done_at_most(time - trough.y - trough.length);
      const double least = stage.least * trough.length;
      const double free_after = stage.free_after(trough.x, trough.length);
      const double free_before = stage.free_before(trough.y, trough.length);
      const double of_first = stage.energy_above_least(after, free_after);
      const double of_last = stage.energy_above_least(before, free_before);
      first += least + of_first;
      last += least + of_last;
      const double together = by_end - trough.done[s] - between;
      both += 2.0 * least + std::max(of_first + of_last, stage.energy_above_least(together, free_after + free_before));
    }
    const double most = trough.allowed * (1.0 + kBoundRounding);
    return first > most || last > most || both > 2.0 * most;
  }

  // Returns the longest time, `time` or more, up to which the windows around the trough are impossible.
  [[nodiscard]] double raised(const Trough& trough, double time) const {
    constexpr int kDoublings = 10;
    constexpr int kHalvings = 40;
    if (!impossible(trough, time)) return time;
    double low = time;
    double high = time;
    for (int k = 0; k < kDoublings; ++k) {
      high *= 2.0;
      if (!impossible(trough, high)) break;
      low = high;
    }
    for (int k = 0; k < kHalvings; ++k) {
      const double middle = 0.5 * (low + high);
      (impossible(trough, middle) ? low : high) = middle;
    }
    return low;
  }

  double ramp_;
  double window_;
  double least_time_ = 0.0;
  std::vector<Stage> stages_;
  std::vector<Beside> beside_;
};

}  // namespace

Seconds least_time_within_ramp(const ComputationDag& dag, std::span<const Watts> blocking, double ramp_w_per_s,
                               Seconds window) {
  return Seconds(RampBound(dag, blocking, ramp_w_per_s, window.value()).least_time());
}

}  // namespace flyball
