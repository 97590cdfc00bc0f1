// A share of a processor that sampling may take: the rule by itself, then the thread that keeps it.
#include "measure/cost_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "measure/power_recorder.h"
#include "measure/sampler.h"
#include "support/expect_error.h"
#include "support/figures.h"

namespace flyball::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr Nanoseconds kReadingPeriod = 4 * kMillisecond;

// --- The rule ------------------------------------------------------------------------------------------------------

// A reading thread that is never late: rounds for a board every `board` (0: none) and for a processor every k periods,
// each of which takes `cost` seconds of processor time.
struct Rounds {
  CostBudget& budget;
  Nanoseconds board = 0;
  std::function<double()> cost;
  Nanoseconds now = 1'000 * kSecond;
  double spent_s = 0.0;
  Nanoseconds read_at = 0;

  // The share of a processor that was taken.
  double go_on(double seconds, const std::function<void()>& look = {}) {
    const double before = spent_s;
    const Nanoseconds end = now + static_cast<Nanoseconds>(seconds * 1e9);
    for (; now < end; now += kReadingPeriod) {
      const bool needed = board != 0 && now % board < kReadingPeriod;
      const bool due = now - read_at >= budget.periods() * kReadingPeriod;
      if (!needed && !due) continue;
      if (due) read_at = now;
      spent_s += cost();
      budget.count_round(needed, 0);
      if (!budget.look_is_due(now)) continue;
      budget.look(now, static_cast<Nanoseconds>(spent_s * 1e9));
      if (look) look();
    }
    return (spent_s - before) / seconds;
  }
};

TEST(CostBudget, IsKeptToAFifthWhateverARoundCosts) {
  for (const Nanoseconds board : {Nanoseconds{0}, 100 * kMillisecond, 20 * kMillisecond}) {
    for (const double cost : {20e-6, 33e-6, 60e-6, 200e-6, 1e-3}) {
      const double needed = board == 0 ? 0.0 : cost * 1e9 / static_cast<double>(board);
      const double most = needed + 0.1 * cost / 0.004;  // k is then about 10
      CostBudget budget(most, kReadingPeriod, 1'000 * kSecond);
      Rounds rounds{budget, board, [cost] { return cost; }};
      rounds.go_on(5.0);
      const double share = rounds.go_on(20.0);
      EXPECT_LE(share, 1.02 * most) << "board " << board << ", cost " << cost << ", k " << budget.periods();
      EXPECT_GE(share, 0.8 * most) << "board " << board << ", cost " << cost << ", k " << budget.periods();
    }
  }
}

TEST(CostBudget, StretchesNothingWithRoomOrWithoutALimit) {
  for (const double most : {0.0, 0.02}) {
    CostBudget budget(most, kReadingPeriod, 1'000 * kSecond);
    Rounds rounds{budget, 0, [] { return 60e-6; }};  // 1.5 % of a processor
    rounds.go_on(20.0);
    EXPECT_EQ(budget.periods(), 1);
  }
}

TEST(CostBudget, LeavesTheFirstSecondsToTheSensorsRhythms) {
  CostBudget budget(0.001, kReadingPeriod, 1'000 * kSecond);
  Rounds rounds{budget, 0, [] { return 60e-6; }};
  rounds.go_on(2.4);
  EXPECT_EQ(budget.periods(), 1);
  rounds.go_on(0.6);
  EXPECT_EQ(budget.periods(), 15);
}

TEST(CostBudget, NeverGoesBeyondATenthOfASecond) {
  CostBudget budget(1e-6, kReadingPeriod, 1'000 * kSecond);
  Rounds rounds{budget, 0, [] { return 1e-3; }};
  rounds.go_on(10.0);
  EXPECT_EQ(budget.periods(), 25);
  CostBudget slow(1e-6, 150 * kMillisecond, 1'000 * kSecond);
  Rounds slow_rounds{slow, 0, [] { return 1e-3; }};
  slow_rounds.go_on(10.0);
  EXPECT_EQ(slow.periods(), 1) << "a period that is longer than that stays as it is";
}

TEST(CostBudget, ComesBackWhereReadingBecomesCheap) {
  double cost = 400e-6;
  CostBudget budget(0.01, kReadingPeriod, 1'000 * kSecond);
  Rounds rounds{budget, 0, [&] { return cost; }};
  rounds.go_on(6.0);
  EXPECT_EQ(budget.periods(), 10);
  cost = 30e-6;
  rounds.go_on(10.0);
  EXPECT_EQ(budget.periods(), 1);
  cost = 400e-6;
  rounds.go_on(8.0);
  EXPECT_GE(budget.periods(), 10);
}

TEST(CostBudget, DoesNotSwingWithCostsThatWaver) {
  std::uint32_t state = 1;
  const auto wavering = [&] {  // 20 to 40 us, evenly, and one round in 64 takes ten times that
    state = state * 1664525u + 1013904223u;
    const double cost = 20e-6 + 20e-6 * static_cast<double>(state >> 8u) / 16777216.0;
    return state >> 26u == 0 ? 10.0 * cost : cost;
  };
  for (const Nanoseconds board : {Nanoseconds{0}, 100 * kMillisecond}) {
    CostBudget budget(0.0014, kReadingPeriod, 1'000 * kSecond);
    Rounds rounds{budget, board, wavering};
    rounds.go_on(10.0);
    int changes = 0;
    std::int64_t before = budget.periods();
    const std::int64_t first = before;
    const double share = rounds.go_on(300.0, [&] {
      changes += std::exchange(before, budget.periods()) != budget.periods();
      EXPECT_NEAR(static_cast<double>(budget.periods()), static_cast<double>(first), 0.4 * static_cast<double>(first));
    });
    EXPECT_LE(changes, 60) << "of 300 looks";
    EXPECT_NEAR(share, 0.0014, 0.2 * 0.0014);
  }
}

TEST(CostBudget, DoesNotSpendTheTimeInWhichTheProcessWasStopped) {
  CostBudget running(0.0021, kReadingPeriod, 0);
  CostBudget stopped(0.0021, kReadingPeriod, 0);
  Nanoseconds processor_time = 0;
  for (Nanoseconds second = 2; second < 10; ++second) {
    for (int i = 0; i < 250; ++i) {
      running.count_round(false, 0);
      stopped.count_round(false, i == 0 ? 3 * kSecond : 0);
    }
    processor_time += 10 * kMillisecond;  // 1 %
    running.look(second * kSecond, processor_time);
    stopped.look(4 * second * kSecond, processor_time);
  }
  EXPECT_EQ(running.periods(), 5);
  EXPECT_EQ(stopped.periods(), running.periods());
}

// A hundred rounds a second, each 10 ms late, so that no time is left that was not: a round costs 1 ms, and with one in
// every k-th period of 4 ms, 0.001 / (0.004 k) <= 0.02 for k of 12.5 at least.
TEST(CostBudget, IsKeptWhereEveryRoundIsLate) {
  CostBudget busy(0.02, kReadingPeriod, 0);
  for (Nanoseconds second = 2; second < 10; ++second) {
    for (int i = 0; i < 100; ++i) busy.count_round(false, 10 * kMillisecond);
    busy.look(second * kSecond, (second - 1) * 100 * kMillisecond);
  }
  EXPECT_EQ(busy.periods(), 13);
}

TEST(CostBudget, IsUsuallyAThousandthOfTheProcessorsThatMayBeUsed) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_LT(usual_sampling_cost(), 0.001 * CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  const double usual = usual_sampling_cost();
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_NEAR(usual_sampling_cost() * CPU_COUNT(&before), usual, 1e-12);
  ::sched_setaffinity(0, sizeof before, &before);
}

TEST(CostBudget, IsForThoseWhoAskForNoPeriod) {
  EXPECT_EQ(sampling_at(std::nullopt).period, kDefaultSamplingPeriod);
  EXPECT_EQ(sampling_at(std::nullopt).most_cost, usual_sampling_cost());
  EXPECT_EQ(sampling_at(Seconds(0.01)).period, Seconds(0.01));
  EXPECT_EQ(sampling_at(kDefaultSamplingPeriod).most_cost, 0.0);
}

// --- The thread ----------------------------------------------------------------------------------------------------

double processor_seconds(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// Until it is true; false after a minute.
bool becomes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 6'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// Energy since the machine began: 100 W and 60 W more or less, by a wave of 0.7 s.
Joules wave(Nanoseconds time) {
  const double t = to_seconds(time).value();
  constexpr double kOmega = 2.0 * M_PI / 0.7;
  return Joules(100.0 * t - 60.0 / kOmega * std::cos(kOmega * t));
}

// A counter that is new at every reading, and reading it takes processor time.
class DearMeter {
 public:
  explicit DearMeter(double cost_s) { *cost_s_ = cost_s; }
  void costs(double seconds) const { *cost_s_ = seconds; }
  [[nodiscard]] Meter meter(const char* label = "CPU:0") const {
    return {label, [cost = cost_s_, delay = delay_s_] {
              const Nanoseconds begin = Sampler::now();
              const double end = processor_seconds(CLOCK_THREAD_CPUTIME_ID) + *cost;
              while (processor_seconds(CLOCK_THREAD_CPUTIME_ID) < end) {
              }
              const Nanoseconds now = Sampler::now();
              *delay = std::max<double>(*delay, to_seconds(now - begin).value() - *cost);
              return MeterReading{std::nullopt, wave(now)};
            }};
  }
  // By how much longer than it should a reading has taken at most, since the meter was made or told to forget. So long
  // other programs have held the processor, and so far the moment of a reading is uncertain.
  [[nodiscard]] double delay_s() const { return *delay_s_; }
  void forget_delay() const { *delay_s_ = 0.0; }

 private:
  std::shared_ptr<std::atomic<double>> cost_s_ = std::make_shared<std::atomic<double>>(0.0);
  std::shared_ptr<std::atomic<double>> delay_s_ = std::make_shared<std::atomic<double>>(0.0);
};

// A board whose counter is renewed every 100 ms.
Meter board() {
  return {"GPU:0", [] {
            const Nanoseconds renewed = Sampler::now() / (100 * kMillisecond) * (100 * kMillisecond);
            return MeterReading{std::nullopt, Watts(100) * to_seconds(renewed)};
          }};
}

Sampler::Options at_most(double cost) {
  Sampler::Options options;
  options.most_cost = cost;
  return options;
}

bool is_put_off(const Sampler& sampler, std::size_t meter) {
  return sampler.state(meter).reading_period > Seconds(0.006);
}

enum class Wait { kPutOff, kInVain, kMachineIsBusy };

// Waits for at most half a minute until all these meters are put off. On a machine that is too busy to read them every
// period nobody can tell how fine their counters are (EnergyTrack::finer_than_period()), and no test can go on.
Wait wait_until_put_off(const Sampler& sampler, const std::vector<std::size_t>& meters) {
  const auto readings = [&] {
    std::size_t least = sampler.state(meters.front()).readings;
    for (const std::size_t meter : meters) least = std::min(least, sampler.state(meter).readings);
    return least;
  };
  bool busy = false;
  for (int i = 0; i < 15; ++i) {
    const std::size_t before = readings();
    const Nanoseconds begin = Sampler::now();
    for (int k = 0; k < 200; ++k) {
      if (std::ranges::all_of(meters, [&](std::size_t meter) { return is_put_off(sampler, meter); }))
        return Wait::kPutOff;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    const Seconds passed = to_seconds(Sampler::now() - begin);
    busy = passed / kDefaultSamplingPeriod > 1.3 * static_cast<double>(readings() - before);
  }
  return busy ? Wait::kMachineIsBusy : Wait::kInVain;
}

#define FLYBALL_WAIT_UNTIL_PUT_OFF(sampler, ...)                                                             \
  const Wait waited = wait_until_put_off(sampler, __VA_ARGS__);                                              \
  if (waited == Wait::kMachineIsBusy) GTEST_SKIP() << "this machine is too busy to read a meter every 4 ms"; \
  ASSERT_EQ(waited, Wait::kPutOff)

TEST(CostBudgetOfASampler, IsKeptToAFifth) {
  constexpr double kMost = 0.05;
  const DearMeter dear(kFiguresCount ? 0.002 : 0.001);  // half a processor, every 4 ms
  Sampler sampler({dear.meter()}, at_most(kMost));
  FLYBALL_WAIT_UNTIL_PUT_OFF(sampler, {0});
  double share = 0.0;
  for (int i = 0; i < 20 && std::abs(share - kMost) > tolerance(0.2) * kMost;
       ++i) {  // a busy machine needs more than one
    const double before = processor_seconds(CLOCK_PROCESS_CPUTIME_ID);
    const Nanoseconds begin = Sampler::now();
    std::this_thread::sleep_for(std::chrono::seconds(2));
    share = (processor_seconds(CLOCK_PROCESS_CPUTIME_ID) - before) / to_seconds(Sampler::now() - begin).value();
  }
  EXPECT_NEAR(share, kMost, tolerance(0.2) * kMost);
  const MeterState state = sampler.state(0);
  EXPECT_LE(state.reading_period, Seconds(0.1));
  EXPECT_LT(state.late, state.readings / 4) << "a reading that was put off is not late";
}

TEST(CostBudgetOfASampler, CountsNoEnergyTwiceAndLosesNone) {
  const DearMeter dear(0.001);
  Sampler sampler({dear.meter(), dear.meter("DRAM:0")}, at_most(0.02));
  FLYBALL_WAIT_UNTIL_PUT_OFF(sampler, {0, 1});
  dear.forget_delay();
  std::vector<Nanoseconds> ends{sampler.sample_now()};
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(437));
    ends.push_back(sampler.sample_now());
  }
  ASSERT_TRUE(sampler.settle(ends.back(), Seconds(60)));
  const double uncertain = 160.0 * dear.delay_s();  // J, at the wave's highest power
  for (std::size_t meter = 0; meter < 2; ++meter) {
    double sum = 0.0;
    for (std::size_t i = 1; i < ends.size(); ++i) {
      const IntervalEnergy window = sampler.energy_between(meter, ends[i - 1], ends[i]);
      const double truth = (wave(ends[i]) - wave(ends[i - 1])).value();
      EXPECT_NEAR(window.energy.value(), truth, tolerance(0.01) * truth + uncertain);
      EXPECT_TRUE(window.complete);
      EXPECT_EQ(window.source, EnergySource::kCounter);
      sum += window.energy.value();
    }
    const IntervalEnergy whole = sampler.energy_between(meter, ends.front(), ends.back());
    EXPECT_NEAR(sum, whole.energy.value(), 1e-6);
    EXPECT_NEAR(sum, (wave(ends.back()) - wave(ends.front())).value(), 0.3 + uncertain);
  }
  EXPECT_TRUE(is_put_off(sampler, 0));
}

TEST(CostBudgetOfASampler, TellsARecordingHowOftenItRead) {
  const DearMeter dear(0.001);
  Sampler sampler({dear.meter(), board(), dear.meter("DRAM:0")}, at_most(0.02));
  PowerRecorder recorder(sampler, {});
  EXPECT_EQ(recorder.take().find("to cost less"), std::string::npos);
  EXPECT_THAT(recorder.put_off(), IsEmpty());
  FLYBALL_WAIT_UNTIL_PUT_OFF(sampler, {0, 2});
  static_cast<void>(recorder.take());
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const std::string text = recorder.take(true);
  EXPECT_THAT(text, ContainsRegex("# device CPU:0: read every [0-9]+ ms to cost less\n"));
  EXPECT_THAT(text, Not(HasSubstr("# device GPU:0: read")));
  ASSERT_THAT(recorder.put_off(), Not(IsEmpty()));
  EXPECT_THAT(recorder.put_off().front(), ContainsRegex("^CPU:0.* read every [0-9]+ ms$"));
}

TEST(CostBudgetOfASampler, ReadsEveryPeriodAgainWhenReadingIsCheap) {
  const DearMeter dear(0.0025);
  Sampler sampler({dear.meter()}, at_most(0.2));
  FLYBALL_WAIT_UNTIL_PUT_OFF(sampler, {0});
  dear.costs(0.0);
  EXPECT_TRUE(becomes_true([&] { return sampler.state(0).reading_period == kDefaultSamplingPeriod; }));
}

TEST(CostBudgetOfASampler, WithoutALimitNothingIsPutOff) {
  const DearMeter dear(0.002);
  Sampler sampler({dear.meter()}, {Seconds(0.005), Seconds(60.0)});
  for (int i = 0; i < 40; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ASSERT_EQ(sampler.state(0).reading_period, Seconds(0.005));
  }
  expect_usage_error([&] { Sampler({dear.meter()}, at_most(-0.1)); }, "a share of a processor");
  expect_usage_error([&] { Sampler({dear.meter()}, at_most(std::nan(""))); }, "a share of a processor");
}

// The board's changes are seen from the period before to the period after, as ever, and the processor comes along.
TEST(CostBudgetOfASampler, LeavesABoardWithARhythmAsItIsAndReadsTheProcessorBesideIt) {
  const DearMeter dear(0.0005);
  Sampler sampler({board(), dear.meter()}, at_most(0.0001));
  FLYBALL_WAIT_UNTIL_PUT_OFF(sampler, {1});
  ASSERT_TRUE(becomes_true([&] { return sampler.changes_since(0, 0).size() >= 30; }));
  const auto error_of = [](const PowerSample& change) {
    const Nanoseconds since = change.time % (100 * kMillisecond);
    return std::min(since, 100 * kMillisecond - since);
  };
  const auto together_of = [&](Nanoseconds begin) {
    const std::vector<PowerSample> boards = sampler.samples_since(0, begin);
    const std::vector<PowerSample> processors = sampler.samples_since(1, begin);
    const auto together = std::count_if(processors.begin(), processors.end(), [&](const PowerSample& processor) {
      return std::any_of(boards.begin(), boards.end(), [&](const PowerSample& other) {
        return std::abs(other.time - processor.time) < 2 * kMillisecond;
      });
    });
    return static_cast<double>(together) / static_cast<double>(processors.size());
  };
  Nanoseconds error = kSecond;
  double together = 0.0;
  for (int i = 0; i < 10 && (error > 2 * kMillisecond || together < 0.8); ++i) {  // a busy machine needs more than one
    const Nanoseconds begin = Sampler::now();
    ASSERT_TRUE(becomes_true([&] { return sampler.changes_since(0, begin).size() >= 20; }));
    std::vector<Nanoseconds> errors;
    for (const PowerSample& change : sampler.changes_since(0, begin)) errors.push_back(error_of(change));
    std::nth_element(errors.begin(), errors.begin() + 10, errors.end());
    error = errors[10];
    together = together_of(begin);
  }
  EXPECT_LE(error, 2 * kMillisecond);
  EXPECT_GE(together, 0.8);
  EXPECT_EQ(sampler.state(0).reading_period, kDefaultSamplingPeriod);
  EXPECT_NEAR(sampler.state(0).sensor_period.value(), 0.1, 0.001);
}

}  // namespace
}  // namespace flyball::testing
