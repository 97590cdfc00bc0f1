#include "client/change_probe.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace flyball {
namespace {

constexpr Megahertz kFastClock{1410};
constexpr Megahertz kSlowClock{900};

struct Computation {
  double fast_s;
  double slow_s;
};

// A rank that computes on a board which obeys `delay_s` after it was asked. Computations go on while the clock changes:
// each moment of one does its share of the work, 1/fast_s or 1/slow_s a second.
class LateBoard {
 public:
  LateBoard(std::vector<Computation> kinds, double delay_s, double noise = 0.0, double wait_s = 0.0)
      : kinds_(std::move(kinds)), delay_s_(delay_s), noise_(noise), wait_s_(wait_s) {}

  StepRecord step(const ChangeProbe::Request& request) {
    StepRecord record;
    record.begin = to_nanoseconds(Seconds(now_s_));
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      if (i == request.computation && request.clock != asked_) {
        before_ = asked_;
        asked_ = request.clock;
        obeys_at_s_ = now_s_ + delay_s_;
      }
      const double begin_s = now_s_;
      const double factor = 1.0 + noise_ * normal_(random_);
      double left = 1.0;
      while (left > 0.0) {
        const bool old = now_s_ < obeys_at_s_;
        const double length_s = factor * ((old ? before_ : asked_) == kFastClock ? kinds_[i].fast_s : kinds_[i].slow_s);
        const double until_s = now_s_ + left * length_s;
        if (old && until_s > obeys_at_s_) {
          left -= (obeys_at_s_ - now_s_) / length_s;
          now_s_ = obeys_at_s_;
        } else {
          left = 0.0;
          now_s_ = until_s;
        }
      }
      record.spans.push_back(
          {static_cast<std::uint16_t>(i % 2), to_nanoseconds(Seconds(begin_s)), to_nanoseconds(Seconds(now_s_))});
      now_s_ += wait_s_;
    }
    now_s_ += 0.3;
    record.end = to_nanoseconds(Seconds(now_s_));
    record.in_effect = 1;
    return record;
  }

  void set_delay(double delay_s) { delay_s_ = delay_s; }

 private:
  std::vector<Computation> kinds_;
  double delay_s_;
  double noise_;
  double wait_s_;
  std::mt19937 random_{5};
  std::normal_distribution<> normal_;
  double now_s_ = 1.0;
  Megahertz asked_ = kFastClock;
  Megahertz before_ = kFastClock;
  double obeys_at_s_ = 0.0;
};

// Runs the probe to its end, with its steps as `edit` leaves them; returns how many there were, at most 100.
int run_probe(ChangeProbe& probe, LateBoard board, const std::function<void(int number, StepRecord& step)>& edit = {}) {
  int steps = 0;
  while (const auto request = probe.step_begin()) {
    EXPECT_FALSE(probe.finished());
    StepRecord step = board.step(*request);
    if (edit) edit(steps, step);
    probe.step_end(std::move(step));
    if (++steps == 100) break;
  }
  return steps;
}

std::optional<Seconds> probed_delay(LateBoard board) {
  ChangeProbe probe(kFastClock, kSlowClock);
  EXPECT_EQ(run_probe(probe, std::move(board)), 17);
  EXPECT_TRUE(probe.finished());
  return probe.delay();
}

const std::vector<Computation> kLongOnes = {{0.020, 0.030}, {0.040, 0.055}, {0.020, 0.030}, {0.040, 0.055}};
const std::vector<Computation> kShortOnes(30, Computation{0.002, 0.0028});

TEST(ChangeProbe, FindsAChangeWithinTheFirstComputation) {
  const auto delay = probed_delay(LateBoard(kLongOnes, 0.007));
  ASSERT_TRUE(delay);
  EXPECT_NEAR(delay->value(), 0.007, 1e-6);
}

TEST(ChangeProbe, FindsAChangeSeveralComputationsLater) {
  for (const double truth_s : {0.009, 0.033}) {
    const auto delay = probed_delay(LateBoard(kShortOnes, truth_s));
    ASSERT_TRUE(delay);
    EXPECT_NEAR(delay->value(), truth_s, 1e-6);
  }
}

// One deviation of 0.3 % is 0.06 to 0.09 ms of the first computation, and a change shows in a third to a half of its
// time: some 0.3 ms for one change, less for the median of six.
TEST(ChangeProbe, FindsItThroughNoise) {
  const auto delay = probed_delay(LateBoard(kLongOnes, 0.007, 0.003));
  ASSERT_TRUE(delay);
  EXPECT_NEAR(delay->value(), 0.007, 0.0006);
}

// The first computation at 2 ms ends before the change at 5 ms, while the rank waits until 12 ms: the change may have
// come at any moment between 2 (or 2.8) and 12.
TEST(ChangeProbe, TakesTheMiddleOfAWait) {
  const auto delay = probed_delay(LateBoard(kShortOnes, 0.005, 0.0, 0.010));
  ASSERT_TRUE(delay);
  EXPECT_GE(*delay, Seconds(0.002));
  EXPECT_LE(*delay, Seconds(0.013));
}

TEST(ChangeProbe, FindsThatAChangeIsThereAtOnce) {
  const auto delay = probed_delay(LateBoard(kLongOnes, 0.0));
  ASSERT_TRUE(delay);
  EXPECT_EQ(delay->value(), 0.0);
}

TEST(ChangeProbe, TellsNothingWhereTheClockDoesNotMatter) {
  EXPECT_FALSE(probed_delay(LateBoard({{0.020, 0.0205}, {0.040, 0.0415}}, 0.007)));
}

// A step may begin with what depends on no clock, such as loading.
TEST(ChangeProbe, AsksWhereTheClockMatters) {
  const auto delay = probed_delay(LateBoard({{0.030, 0.030}, {0.040, 0.055}, {0.030, 0.030}, {0.040, 0.055}}, 0.007));
  ASSERT_TRUE(delay);
  EXPECT_NEAR(delay->value(), 0.007, 1e-6);
}

// A board that obeys after 20 ms where all of its node's processes are busy, as they are when a step begins, and after
// 7 ms elsewhere.
TEST(ChangeProbe, AsksInTheMidstOfSteps) {
  const std::vector<Computation> kinds(12, Computation{0.020, 0.030});
  ChangeProbe probe(kFastClock, kSlowClock);
  LateBoard board(kinds, 0.007);
  while (const auto request = probe.step_begin()) {
    board.set_delay(request->computation == 0 ? 0.020 : 0.007);
    probe.step_end(board.step(*request));
  }
  ASSERT_TRUE(probe.delay());
  EXPECT_NEAR(probe.delay()->value(), 0.007, 1e-6);
}

// A program that runs ahead of its GPU reports when it queued its work: some 20 us each, whatever the clock.
TEST(ChangeProbe, TellsNothingOfWorkThatIsOnlyQueued) {
  EXPECT_FALSE(probed_delay(LateBoard(std::vector<Computation>(16, Computation{20e-6, 20e-6}), 0.007, 0.5)));
}

TEST(ChangeProbe, TellsNothingOfStepsThatDiffer) {
  ChangeProbe probe(kFastClock, kSlowClock);
  EXPECT_EQ(run_probe(probe, LateBoard(kLongOnes, 0.007),
                      [](int number, StepRecord& step) {
                        if (number == 4) step.spans.pop_back();
                      }),
            17);
  EXPECT_FALSE(probe.delay());
}

TEST(ChangeProbe, BeginsAgainWhereTheClockDidNotHold) {
  ChangeProbe probe(kFastClock, kSlowClock);
  EXPECT_EQ(run_probe(probe, LateBoard(kLongOnes, 0.007),
                      [](int number, StepRecord& step) {
                        if (number == 3) step.in_effect = 0;
                      }),
            4 + 17);
  ASSERT_TRUE(probe.delay());
  EXPECT_NEAR(probe.delay()->value(), 0.007, 1e-6);
}

TEST(ChangeProbe, EndsWhereTheClockNeverHolds) {
  ChangeProbe probe(kFastClock, kSlowClock);
  EXPECT_LT(run_probe(probe, LateBoard(kLongOnes, 0.007), [](int /*number*/, StepRecord& step) { step.in_effect = 0; }),
            100);
  EXPECT_TRUE(probe.finished());
  EXPECT_FALSE(probe.delay());
}

}  // namespace
}  // namespace flyball
