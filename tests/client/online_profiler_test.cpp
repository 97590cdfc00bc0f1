#include "client/online_profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "client/instruction_energy.h"

namespace flyball {
namespace {

constexpr double kWaitingWatts = 75.0;

struct Kind {
  double seconds;        // at the highest clock
  double clocked_share;  // of them, in proportion to 1/f
  double dynamic_watts;  // at the highest clock, beside 100 W
};
constexpr Kind kKinds[] = {{0.037, 0.6, 180.0}, {0.083, 0.5, 150.0}};
constexpr double kHighest = 1400.0;

double seconds_at(const Kind& kind, double mhz) {
  return kind.seconds * (kind.clocked_share * kHighest / mhz + 1.0 - kind.clocked_share);
}
double watts_at(const Kind& kind, double mhz) { return 100.0 + kind.dynamic_watts * std::pow(mhz / kHighest, 2.5); }

// A rank that runs four microbatches per step, waits between them as its neighbours have it, and whose energy counter
// changes every `period`; we see a change up to `sampling` late.
class Rank {
 public:
  Rank(Nanoseconds period, Nanoseconds sampling, double time_noise, unsigned seed)
      : period_(period), sampling_(sampling), time_noise_(time_noise), random_(seed) {}

  StepRecord step(double mhz) {
    StepRecord record;
    record.begin = now_;
    record.in_effect = 1;
    for (int i = 0; i < 8; ++i) {
      wait(Seconds(std::uniform_real_distribution<>(0.0, 0.06)(random_)));
      const auto type = static_cast<std::uint16_t>(i % 2);
      double length = seconds_at(kKinds[type], mhz) * (1.0 + time_noise_ * normal_(random_));
      if (std::uniform_int_distribution<>(0, 19)(random_) == 0) length *= 1.5;  // something got in its way
      const Nanoseconds begin = now_;
      draw(watts_at(kKinds[type], mhz), Seconds(length));
      if (disturbed_ && i % 3 != 0) wait(Seconds(0.5 * length));  // the process is not woken: the board only waits
      record.spans.push_back({type, begin, now_});
    }
    wait(Seconds(0.02));
    record.end = now_;
    return record;
  }

  void disturb(bool on) { disturbed_ = on; }
  // From now on a change is seen so much later.
  void lag(Nanoseconds lag) { lag_ = lag; }

  CounterNews news(Nanoseconds after) {
    CounterNews news;
    for (const CounterPoint& point : points_) {
      if (point.time > after && point.time <= now_) news.changes.push_back(point);
    }
    news.settled = now_ - lag_;
    return news;
  }

 private:
  void wait(Seconds time) { draw(kWaitingWatts, time); }

  void draw(double watts, Seconds time) {
    const Nanoseconds end = now_ + to_nanoseconds(time);
    while (now_ < end) {
      const Nanoseconds next = std::min(end, (now_ / period_ + 1) * period_);
      joules_ += watts * to_seconds(next - now_).value();
      now_ = next;
      if (now_ % period_ != 0) continue;
      const Nanoseconds late = std::uniform_int_distribution<Nanoseconds>(0, sampling_)(random_);
      points_.push_back({now_ + lag_ + late, Joules(std::floor(joules_ * 1e3) * 1e-3)});
    }
  }

  Nanoseconds period_;
  Nanoseconds sampling_;
  double time_noise_;
  bool disturbed_ = false;
  Nanoseconds lag_ = 0;
  std::mt19937 random_;
  std::normal_distribution<> normal_;
  Nanoseconds now_ = 1'000'000'000;
  double joules_ = 0.0;
  std::vector<CounterPoint> points_;
};

std::vector<Megahertz> clock_list(double highest, double lowest, double step) {
  std::vector<Megahertz> clocks;
  for (double mhz = highest; mhz >= lowest; mhz -= step) clocks.emplace_back(mhz);
  return clocks;
}

std::vector<ProfiledClock> sweep(Rank& rank, OnlineProfiler& profiler) {
  std::vector<ProfiledClock> results;
  while (const auto clock = profiler.step_begin()) {
    profiler.step_end(rank.step(clock->value()));
    const auto news = profiler.evaluate([&](Nanoseconds after) { return rank.news(after); }, 2);
    results.insert(results.end(), news.begin(), news.end());
  }
  return results;
}

// A machine that is busy with something else for the five steps of one clock: of three instructions two take half as
// long again, waiting power on the board. Five steps more, and energies are as at the other clocks. Without them the
// equations gave the forward 30 % too little, and the planner chose it.
TEST(OnlineProfiler, MeasuresAClockAgainThatOthersHaveDisturbed) {
  Rank rank(100 * kMillisecond, 4 * kMillisecond, 0.002, 11);
  const std::vector<Megahertz> clocks = clock_list(kHighest, 1200, 50);
  OnlineProfiler profiler(clocks, {.steps_per_clock = 5, .rises_to_stop = 5, .warm_up_steps = 0});
  std::vector<ProfiledClock> results;
  int steps = 0;
  while (const auto clock = profiler.step_begin()) {
    // The third clock's steps are the eleventh to the fifteenth.
    rank.disturb(steps >= 10 && steps < 15);
    profiler.step_end(rank.step(clock->value()));
    ++steps;
    const auto news = profiler.evaluate([&](Nanoseconds after) { return rank.news(after); }, 2);
    results.insert(results.end(), news.begin(), news.end());
  }
  EXPECT_EQ(steps, 5 * 5 + 5);
  ASSERT_EQ(results.size(), clocks.size());
  for (const ProfiledClock& result : results) {
    for (std::size_t type = 0; type < 2; ++type) {
      const double seconds = seconds_at(kKinds[type], result.clock.value());
      EXPECT_NEAR(result.activity.types[type].time.value(), seconds, 0.01 * seconds) << result.clock.value();
      const double joules = seconds * watts_at(kKinds[type], result.clock.value());
      EXPECT_NEAR(result.activity.types[type].energy.value(), joules, 0.06 * joules) << result.clock.value();
    }
  }
}

// Where runs differ by themselves, at every clock alike (a fifth of their length is one standard deviation, the middle
// half then 0.27 wide), only the first clock is tried four times: 3 x 5 steps more than 5 clocks take.
TEST(OnlineProfiler, DoesNotWaitForRunsToAgreeThatNeverDo) {
  Rank rank(100 * kMillisecond, 4 * kMillisecond, 0.2, 12);
  OnlineProfiler profiler(clock_list(kHighest, 1200, 50),
                          {.steps_per_clock = 5, .rises_to_stop = 5, .warm_up_steps = 0});
  int steps = 0;
  while (const auto clock = profiler.step_begin()) {
    profiler.step_end(rank.step(clock->value()));
    ++steps;
  }
  EXPECT_EQ(steps, 5 * 5 + 3 * 5);
}

// Instructions of 37 ms against a counter that changes every 100 ms: twenty steps of eight instructions are enough.
TEST(InstructionEnergy, IsRightForInstructionsShorterThanTheSensorsPeriod) {
  Rank rank(100 * kMillisecond, 4 * kMillisecond, 0.002, 7);
  std::vector<InstructionSpan> spans;
  StepRecord step;
  for (int i = 0; i < 20; ++i) {
    step = rank.step(kHighest);
    spans.insert(spans.end(), step.spans.begin(), step.spans.end());
  }
  const auto points = rank.news(0).changes;
  const ActivityEstimate estimate = estimate_activity(spans, points, 1'000'000'000, step.end, 2);
  for (std::size_t type = 0; type < 2; ++type) {
    const InstructionEstimate& found = estimate.types[type];
    EXPECT_NEAR(found.time.value(), kKinds[type].seconds, 0.002 * kKinds[type].seconds);
    const double joules = kKinds[type].seconds * watts_at(kKinds[type], kHighest);
    EXPECT_NEAR(found.energy.value(), joules, 0.02 * joules) << type;
    EXPECT_GT(found.outliers, 0u);
    EXPECT_EQ(found.samples + found.outliers, 80u);
  }
  EXPECT_NEAR(estimate.waiting.value(), kWaitingWatts, 4.0);
}

// The counter shows what had flowed 30 ms before, and is read up to 4 ms late. Steps are tried by fortieths of 100 ms.
// Without its lag the energies would be off by far more than where there is none.
TEST(InstructionEnergy, ACountersLagIsFound) {
  Rank rank(100 * kMillisecond, 4 * kMillisecond, 0.002, 7);
  rank.lag(30 * kMillisecond);
  std::vector<InstructionSpan> spans;
  StepRecord step;
  for (int i = 0; i < 20; ++i) {
    step = rank.step(kHighest);
    spans.insert(spans.end(), step.spans.begin(), step.spans.end());
  }
  const auto points = rank.news(0).changes;
  CounterLag lag;
  EXPECT_EQ(lag.found(), 0);
  lag.add(spans, points, 1'000'000'000, step.end, 2);
  EXPECT_NEAR(static_cast<double>(lag.found()), 32e6, 2.6e6);
  const auto worst = [&](Nanoseconds by) {
    const ActivityEstimate estimate = estimate_activity(spans, points, 1'000'000'000, step.end, 2, by);
    double off = 0.0;
    for (std::size_t type = 0; type < 2; ++type) {
      const double joules = kKinds[type].seconds * watts_at(kKinds[type], kHighest);
      off = std::max(off, std::abs(estimate.types[type].energy.value() / joules - 1.0));
    }
    return off;
  };
  EXPECT_LT(worst(lag.found()), 0.02);
  EXPECT_GT(worst(0), 0.1);
}

TEST(InstructionEnergy, WhereThereIsNoLagNoneIsFound) {
  Rank rank(100 * kMillisecond, 1, 0.002, 7);
  std::vector<InstructionSpan> spans;
  StepRecord step;
  for (int i = 0; i < 20; ++i) {
    step = rank.step(kHighest);
    spans.insert(spans.end(), step.spans.begin(), step.spans.end());
  }
  CounterLag lag;
  lag.add(spans, rank.news(0).changes, 1'000'000'000, step.end, 2);
  EXPECT_EQ(lag.found(), 0);
}

TEST(InstructionEnergy, OneBrokenReadingDoesNotCount) {
  Rank rank(100 * kMillisecond, 0, 0.0, 3);
  std::vector<InstructionSpan> spans;
  StepRecord step;
  for (int i = 0; i < 20; ++i) {
    step = rank.step(kHighest);
    spans.insert(spans.end(), step.spans.begin(), step.spans.end());
  }
  auto points = rank.news(0).changes;
  const auto clean = estimate_activity(spans, points, 1'000'000'000, step.end, 2);
  points[points.size() / 2].energy += Joules(500);
  const auto dirty = estimate_activity(spans, points, 1'000'000'000, step.end, 2);
  for (std::size_t type = 0; type < 2; ++type) {
    EXPECT_NEAR(dirty.types[type].energy / clean.types[type].energy, 1.0, 0.005);
  }
  EXPECT_EQ(clean.equations, dirty.equations + 2);
}

// A last stage, whose instructions follow each other without a wait, on a machine so busy that every fifth change of
// the counter is seen up to 80 ms late and so spoils two equations. Of a hundred such sweeps of one clock, hardly any
// may be far off: one whose forward looks cheap would have every plan run it there.
TEST(InstructionEnergy, ReadingsThatComeLateDoNotCount) {
  constexpr std::array kSeconds = {0.051, 0.132};
  constexpr std::array kWatts = {237.0, 228.0};
  int far_off = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    const auto share = [&] { return std::generate_canonical<double, 53>(random); };
    std::vector<InstructionSpan> spans;
    std::vector<CounterPoint> points;
    Nanoseconds now = 0;
    Nanoseconds next = 37 * kMillisecond;
    double joules = 0.0;
    for (std::size_t i = 0; i < 120; ++i) {
      const std::size_t type = i % 2;
      const Nanoseconds end = now + to_nanoseconds(Seconds(kSeconds[type] * (1.0 + 0.002 * share())));
      spans.push_back({static_cast<std::uint16_t>(type), now, end});
      while (now < end) {
        const Nanoseconds until = std::min(next, end);
        joules += kWatts[type] * to_seconds(until - now).value();
        now = until;
        if (now < next) continue;
        const double late = share() < 0.2 ? 0.08 * share() : 0.005 * share();
        points.push_back({next + to_nanoseconds(Seconds(late)), Joules(joules)});
        next += 100 * kMillisecond;
      }
    }
    const ActivityEstimate estimate = estimate_activity(spans, points, 0, now, 2);
    const Watts forward = estimate.types[0].energy / estimate.types[0].time;
    far_off += std::abs(forward.value() / kWatts[0] - 1.0) > 0.1 ? 1 : 0;
  }
  EXPECT_LE(far_off, 5);
}

// Five steps of twelve backwards, of which the first adds to no gradients yet: it is 5 % shorter, as on real A100s,
// where the others differ by 0.2 %.
TEST(InstructionEnergy, FirstBackwardsAreKeptApart) {
  std::mt19937 random(3);
  std::normal_distribution<double> noise(1.0, 0.002);
  std::vector<double> times;
  for (int step = 0; step < 5; ++step) {
    for (int microbatch = 0; microbatch < 12; ++microbatch) {
      times.push_back(0.040 * (microbatch == 0 ? 0.95 : 1.0) * noise(random));
    }
  }
  const RobustMean mean = robust_mean(times);
  EXPECT_LE(mean.used, 55U);
  // Of 55 such values the mean is known to 0.2 % / sqrt(55) = 0.027 %; with the first ones it would be 0.42 % too low.
  EXPECT_NEAR(mean.mean, 0.040, 4 * 0.00027 * 0.040);
}

// The mean of 0.9, 1.0, 1.1 and 1.0 is 1.0 and their squares' sum 0.02, over three degrees of freedom; 9 is an outlier.
TEST(InstructionEnergy, DeviationsAreThoseOfTheRunsThatCount) {
  std::vector<double> times = {0.9, 1.0, 9.0, 1.1, 1.0};
  const RobustMean mean = robust_mean(times);
  EXPECT_EQ(mean.used, 4U);
  EXPECT_NEAR(mean.deviation, std::sqrt(0.02 / 3.0), 1e-12);
  std::vector<double> one = {2.0};
  EXPECT_EQ(robust_mean(one).deviation, 0.0);
}

// Types that always run together cannot be told apart: both get the mean power, and the sum stays right.
TEST(InstructionEnergy, InseparableTypesShareTheMeanPower) {
  std::vector<InstructionSpan> spans;
  std::vector<CounterPoint> points = {{0, Joules(0)}};
  for (int i = 0; i < 20; ++i) {
    const Nanoseconds begin = kMillisecond * 100 * i;
    spans.push_back({0, begin, begin + 40 * kMillisecond});
    spans.push_back({1, begin + 40 * kMillisecond, begin + 100 * kMillisecond});
    points.push_back({begin + 100 * kMillisecond, Joules(20.0 * (i + 1))});
  }
  const auto estimate = estimate_activity(spans, points, 0, 2000 * kMillisecond, 2);
  EXPECT_NEAR(estimate.types[0].energy.value(), 200.0 * 0.04, 0.01);
  EXPECT_NEAR(estimate.types[1].energy.value(), 200.0 * 0.06, 0.01);
}

// Runs of 90, 100, 110 and 110 ms in each of five steps scatter so much that none is an outlier. The common estimate is
// of the second and third, 105 ms; with the first and the last, which have their own, it would be 102.5 ms.
TEST(InstructionEnergy, FirstAndLastRunsCountOnce) {
  using enum Microbatches;
  std::vector<InstructionSpan> spans;
  std::vector<CounterPoint> points = {{0, Joules(0)}};
  for (int step = 0; step < 5; ++step) {
    Nanoseconds begin = 500 * kMillisecond * step;
    for (const auto& [length, of] : {std::pair(90, kFirst), {100, kAll}, {110, kAll}, {110, kLast}}) {
      spans.push_back({0, begin, begin + length * kMillisecond, of});
      begin += length * kMillisecond;
    }
    points.push_back({500 * kMillisecond * (step + 1), Joules(50.0 * (step + 1))});
  }
  const auto estimate = estimate_activity(spans, points, 0, 2500 * kMillisecond, 1);
  EXPECT_NEAR(estimate.types[0].time.value(), 0.105, 1e-9);
  EXPECT_EQ(estimate.types[0].samples, 10u);
  EXPECT_NEAR(estimate.first[0].time.value(), 0.090, 1e-9);
  EXPECT_NEAR(estimate.last[0].time.value(), 0.110, 1e-9);
}

TEST(InstructionEnergy, NothingMeasuredIsNothing) {
  const auto estimate = estimate_activity({}, {}, 0, 1, 2);
  EXPECT_EQ(estimate.types.size(), 2u);
  EXPECT_EQ(estimate.types[0].samples, 0u);
  EXPECT_EQ(estimate.equations, 0u);
}

TEST(OnlineProfiler, RecoversTheCurvesAndStopsBeyondTheLeastEnergy) {
  Rank rank(100 * kMillisecond, 4 * kMillisecond, 0.002, 11);
  OnlineProfiler::Options options;
  options.steps_per_clock = 20;
  OnlineProfiler profiler(clock_list(kHighest, 200, 50), options);
  EXPECT_FALSE(profiler.progress().finished);
  const auto results = sweep(rank, profiler);
  ASSERT_TRUE(profiler.progress().finished);
  EXPECT_EQ(profiler.progress().clocks_done, static_cast<int>(results.size()));
  // The true energy of a step's instructions falls down to 700 MHz.
  const auto energy = [](double mhz) {
    double joules = 0.0;
    for (const Kind& kind : kKinds) joules += 4.0 * seconds_at(kind, mhz) * watts_at(kind, mhz);
    return joules;
  };
  double least = kHighest;
  for (double mhz = kHighest; mhz >= 200; mhz -= 50) {
    if (energy(mhz) < energy(least)) least = mhz;
  }
  EXPECT_LE(results.back().clock.value(), least - 3 * 50);
  EXPECT_GE(results.back().clock.value(), least - 9 * 50);
  EXPECT_GT(results.back().clock.value(), 200);
  for (const ProfiledClock& result : results) {
    const double mhz = result.clock.value();
    for (std::size_t type = 0; type < 2; ++type) {
      const double seconds = seconds_at(kKinds[type], mhz);
      EXPECT_NEAR(result.activity.types[type].time.value(), seconds, 0.003 * seconds);
      const double joules = seconds * watts_at(kKinds[type], mhz);
      EXPECT_NEAR(result.activity.types[type].energy.value(), joules, 0.04 * joules) << mhz;
    }
    EXPECT_NEAR(result.step_energy.value(), energy(mhz), 0.02 * energy(mhz));
  }
}

TEST(OnlineProfiler, StaysAtEachClockForItsSteps) {
  Rank rank(20 * kMillisecond, 0, 0.0, 1);
  OnlineProfiler::Options options;
  options.steps_per_clock = 3;
  options.warm_up_steps = 2;
  options.clock_stride = 2;
  OnlineProfiler profiler({Megahertz(1400), Megahertz(1300), Megahertz(1200), Megahertz(1100)}, options);
  std::vector<double> clocks;
  while (const auto clock = profiler.step_begin()) {
    clocks.push_back(clock->value());
    profiler.step_end(rank.step(clock->value()));
  }
  EXPECT_THAT(clocks, ::testing::ElementsAre(1400, 1400, 1400, 1400, 1400, 1200, 1200, 1200));
  EXPECT_FALSE(profiler.progress().finished) << "nothing is evaluated yet";
  const auto results = profiler.evaluate([&](Nanoseconds after) { return rank.news(after); }, 2);
  EXPECT_EQ(results.size(), 2u);
  EXPECT_TRUE(profiler.progress().finished);
  EXPECT_EQ(profiler.progress().clocks_most, 2);
}

// The second of three clocks is not told whole: it comes once more at the end, and is left out where that fails, too.
TEST(OnlineProfiler, MeasuresAClockAgainWhoseEnergyWasNotToldWhole) {
  for (const bool again_fails : {false, true}) {
    Rank rank(20 * kMillisecond, 0, 0.0, 1);
    OnlineProfiler profiler({Megahertz(1400), Megahertz(1300), Megahertz(1200)},
                            {.steps_per_clock = 3, .rises_to_stop = 5, .warm_up_steps = 0});
    std::vector<double> clocks;
    std::vector<ProfiledClock> results;
    int asked = 0;
    while (!profiler.progress().finished) {
      const auto clock = profiler.step_begin();
      if (clock) {
        clocks.push_back(clock->value());
        profiler.step_end(rank.step(clock->value()));
      }
      for (const ProfiledClock& one : profiler.evaluate(
               [&](Nanoseconds after) {
                 CounterNews news = rank.news(after);
                 news.whole = [&](Nanoseconds, Nanoseconds) {
                   ++asked;
                   return asked != 2 && !(again_fails && asked == 4);
                 };
                 return news;
               },
               2)) {
        results.push_back(one);
      }
    }
    EXPECT_THAT(clocks, ::testing::ElementsAre(1400, 1400, 1400, 1300, 1300, 1300, 1200, 1200, 1200, 1300, 1300, 1300));
    ASSERT_EQ(results.size(), 4u);
    EXPECT_TRUE(results[0].complete);
    EXPECT_FALSE(results[1].complete);
    EXPECT_TRUE(results[1].again);
    EXPECT_EQ(results[3].clock, Megahertz(1300));
    EXPECT_EQ(results[3].complete, !again_fails);
    EXPECT_FALSE(results[3].again);
  }
}

// The second clock is not told whole, then the energy rises twice: what is lower is not worth a measurement, and the
// second comes at once.
TEST(OnlineProfiler, MeasuresAgainAlsoWhereItStopsEarly) {
  Rank rank(20 * kMillisecond, 0, 0.0, 1);
  const std::vector<Megahertz> clocks = clock_list(kHighest, 200, 100);
  OnlineProfiler profiler(clocks, {.steps_per_clock = 3, .rises_to_stop = 2, .warm_up_steps = 0});
  std::vector<double> measured;
  int asked = 0;
  while (const auto clock = profiler.step_begin()) {
    profiler.step_end(rank.step(clock->value()));
    for (const ProfiledClock& one : profiler.evaluate(
             [&](Nanoseconds after) {
               CounterNews news = rank.news(after);
               news.whole = [&](Nanoseconds, Nanoseconds) { return ++asked != 2; };
               return news;
             },
             2)) {
      if (one.complete) measured.push_back(one.clock.value());
    }
  }
  EXPECT_TRUE(profiler.progress().finished);
  ASSERT_GE(measured.size(), 4u);
  EXPECT_LT(measured.size(), clocks.size()) << "it stopped beyond the least energy";
  EXPECT_EQ(measured.back(), 1300);
  EXPECT_EQ(std::count(measured.begin(), measured.end(), 1300), 1);
}

// A step whose clock was refused, or came in its second half, does not count, and what was collected before it is
// dropped: its clock is measured in one piece.
TEST(OnlineProfiler, StepsWithoutTheirClockDoNotCount) {
  Rank rank(20 * kMillisecond, 0, 0.0, 1);
  OnlineProfiler::Options options;
  options.steps_per_clock = 2;
  options.warm_up_steps = 0;
  OnlineProfiler profiler({Megahertz(1400), Megahertz(1300)}, options);
  const auto step = [&](bool held, bool late) {
    StepRecord record = rank.step(profiler.step_begin().value().value());
    if (!held) record.in_effect = 0;
    if (late) record.in_effect = record.end - 1;
    profiler.step_end(record);
  };
  step(true, false);
  step(false, false);
  step(true, false);
  EXPECT_EQ(profiler.step_begin(), Megahertz(1400));
  step(true, true);
  step(true, false);
  EXPECT_EQ(profiler.step_begin(), Megahertz(1400));
  step(true, false);
  EXPECT_EQ(profiler.step_begin(), Megahertz(1300));
}

// The counter lags behind: what it has not settled is evaluated later.
TEST(OnlineProfiler, WaitsForTheCounter) {
  Rank rank(20 * kMillisecond, 0, 0.0, 1);
  OnlineProfiler::Options options;
  options.steps_per_clock = 1;
  options.warm_up_steps = 0;
  OnlineProfiler profiler({Megahertz(1400), Megahertz(1300)}, options);
  const StepRecord record = rank.step(1400);
  profiler.step_end(record);
  const auto at = [&](Nanoseconds settled) {
    return profiler.evaluate(
        [&](Nanoseconds after) {
          CounterNews news = rank.news(after);
          news.settled = settled;
          return news;
        },
        2);
  };
  EXPECT_THAT(at(record.end - 1), ::testing::IsEmpty());
  EXPECT_THAT(at(record.end), ::testing::SizeIs(1));
  EXPECT_THAT(at(record.end), ::testing::IsEmpty());
}

}  // namespace
}  // namespace flyball
