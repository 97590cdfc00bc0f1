// Plans are replayed with options drawn around each operation's smooth curve. Draws come in pairs, one on each side of
// the curve, which makes the mean converge faster (antithetic variates).
#include "plan/expected_saving.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "pipeline/timeline.h"

namespace flyball {
namespace {

constexpr std::uint64_t kSeed = 20240611;

// Running mean and standard deviation (Welford).
class Moments {
 public:
  void add(double value) {
    const double before = value - mean_;
    mean_ += before / ++count_;
    squares_ += before * (value - mean_);
  }
  [[nodiscard]] Expected expected() const { return {mean_, std::sqrt(squares_ / (count_ - 1))}; }

 private:
  int count_ = 0;
  double mean_ = 0.0;
  double squares_ = 0.0;
};

struct Replayed {
  double seconds = 0.0;
  double joules = 0.0;
};

}  // namespace

// Replays plans with drawn options.
class ExpectedReplay {
 public:
  ExpectedReplay(const PlanProblem& problem, const MeasurementNoise& noise) : problem_(problem), noise_(noise) {
    for (const OperationType& type : problem.dag->types()) {
      measured_.push_back(type.options);
      drawn_[0].push_back(type.options);
      drawn_[1].push_back(type.options);
    }
  }

  // Draws two sets of options, one on each side of the mean.
  void draw(NoiseSource& random) {
    for (std::size_t type = 0; type < measured_.size(); ++type) {
      const auto& curves = noise_.types_[type];
      if (!curves) continue;
      const std::size_t count = measured_[type].size();
      one_.resize(count);
      other_.resize(count);
      curves->times.draw(random, one_, other_);
      for (std::size_t k = 0; k < count; ++k) {
        drawn_[0][type][k].time = Seconds(std::exp(one_[k]));
        drawn_[1][type][k].time = Seconds(std::exp(other_[k]));
      }
      curves->energies.draw(random, one_, other_);
      for (std::size_t k = 0; k < count; ++k) {
        drawn_[0][type][k].energy = Joules(std::exp(one_[k]));
        drawn_[1][type][k].energy = Joules(std::exp(other_[k]));
      }
    }
  }

  Replayed replay(std::size_t side, const ComputationDag& dag, const ClockPlan& plan, Seconds straggler) {
    const auto count = static_cast<std::size_t>(dag.size());
    durations_.resize(count);
    finish_.resize(count);
    double net = 0.0;
    for (std::size_t i = 0; i < count; ++i) {
      const auto type = static_cast<std::size_t>(dag[static_cast<int>(i)].type);
      const ClockOption& option = drawn_[side][type][plan[i]];
      durations_[i] = to_nanoseconds(option.time);
      net += net_joules(option, problem_.charged_blocking(problem_.dag->types()[type]));
    }
    const Seconds time = to_seconds(makespan(dag, durations_, finish_));
    const WaitingAbove above = sum_of(waiting_above(dag, plan, durations_, finish_));
    const Seconds wait = std::max(Seconds(0), straggler - time);
    const Joules waiting = problem_.total_blocking() * (time + wait) + above.inside + above.after * wait;
    return {time.value(), net + waiting.value()};
  }

 private:
  const PlanProblem& problem_;
  const MeasurementNoise& noise_;
  std::vector<std::vector<ClockOption>> measured_;  // by type
  std::vector<std::vector<ClockOption>> drawn_[2];
  std::vector<double> one_, other_;  // scratch, as are the next two
  std::vector<Nanoseconds> durations_, finish_;
};

MeasurementNoise::MeasurementNoise(const ComputationDag& dag) {
  double count = 0.0;
  known_ = true;
  for (const OperationType& type : dag.types()) {
    std::optional<Curves>& curves = types_.emplace_back();
    if (type.options.size() < 2) continue;
    // Options that labels tell apart lie on no curve over the clock.
    if (type.options.size() < SmoothCurve::kLeastPoints || !type.labels.empty()) {
      known_ = false;
      continue;
    }
    std::vector<double> clocks;
    std::vector<double> times;
    std::vector<double> energies;
    for (const ClockOption& option : type.options) {
      clocks.push_back(option.frequency.value());
      times.push_back(std::log(option.time.value()));
      energies.push_back(std::log(option.energy.value()));
    }
    curves = Curves{SmoothCurve(clocks, times), SmoothCurve(clocks, energies)};
    time_ += curves->times.noise();
    energy_ += curves->energies.noise();
    ++count;
  }
  known_ = known_ && count > 0.0;
  if (!known_) return;
  time_ /= count;
  energy_ /= count;
}

ExpectedFigures expected_figures(const PlanProblem& problem, const MeasurementNoise& noise, const ComputationDag& dag,
                                 const ClockPlan& plan, std::optional<Seconds> straggler_time) {
  assert(noise.known());
  const ClockPlan baseline = max_clock_plan(problem);
  const Seconds straggler = straggler_time.value_or(Seconds(0));
  ExpectedReplay replay(problem, noise);
  NoiseSource random(kSeed);
  Moments time;
  Moments energy;
  Moments saving;
  Moments slowdown;
  for (int pair = 0; pair < kExpectedReplays / 2; ++pair) {
    replay.draw(random);
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      const Replayed before = replay.replay(side, *problem.dag, baseline, straggler);
      const Replayed after = replay.replay(side, dag, plan, straggler);
      time.add(after.seconds);
      energy.add(after.joules);
      saving.add(100.0 * (1.0 - after.joules / before.joules));
      slowdown.add(100.0 * (after.seconds / before.seconds - 1.0));
    }
  }
  return {time.expected(), energy.expected(), saving.expected(), slowdown.expected()};
}

}  // namespace flyball
