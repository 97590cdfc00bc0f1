#include "client/savings.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

namespace flyball {
namespace {

using Step = PromiseGuard::Step;

// Steps of 2 s at maximum clocks draw 300 W, steps of 2.02 s by plan 200 W.
class SavingsTest : public ::testing::Test {
 protected:
  void run(Step kind, int steps) {
    for (int i = 0; i < steps; ++i) {
      const bool planned = kind == Step::kPlanned;
      const Nanoseconds end = now_ + (planned ? 2020 : 2000) * kMillisecond;
      stretches_.count(kind, now_, end);
      ends_.emplace_back(end, Watts(planned ? 200 : 300) * to_seconds(end - now_));
      now_ = end;
    }
  }
  void add() {
    savings_.add(stretches_.take(), [this](Nanoseconds begin, Nanoseconds end) -> std::optional<Joules> {
      if (!counts_) return std::nullopt;
      Joules all;
      for (const auto& [step, energy] : ends_) {
        if (step > begin && step <= end) all += energy;
      }
      return all;
    });
  }

  Nanoseconds now_ = 0;
  std::vector<std::pair<Nanoseconds, Joules>> ends_;  // of steps, with what they took
  bool counts_ = true;
  Stretches stretches_;
  Savings savings_;
};

// 100 iterations: 200 W x 2.02 s = 404 J each by plan, 600 J at maximum clocks.
TEST_F(SavingsTest, AreWhatMaximumClocksTakeMore) {
  run(Step::kAtMaximum, 11);
  run(Step::kPlanned, 100);
  add();
  EXPECT_EQ(savings_.so_far().iterations, 100);
  EXPECT_NEAR(savings_.so_far().energy.value(), 40'400, 1e-6);
  EXPECT_NEAR(savings_.so_far().energy_at_maximum.value(), 60'000, 1e-6);
  EXPECT_NEAR(savings_.so_far().time.value(), 202, 1e-9);
  EXPECT_NEAR(savings_.so_far().time_at_maximum.value(), 200, 1e-9);
  // What comes later is compared with the same maximum clocks.
  run(Step::kPlanned, 10);
  add();
  EXPECT_EQ(savings_.so_far().iterations, 110);
  EXPECT_NEAR(savings_.so_far().energy_at_maximum.value(), 66'000, 1e-6);
}

TEST_F(SavingsTest, WhatIsNotKnownIsNotCompared) {
  run(Step::kPlanned, 50);
  add();  // never at maximum clocks
  run(Step::kAtMaximum, 4);
  run(Step::kPlanned, 50);
  add();  // too short there
  EXPECT_EQ(savings_.so_far().iterations, 0);
  run(Step::kAtMaximum, 10);
  run(Step::kPlanned, 4);
  add();  // too short by plan
  EXPECT_EQ(savings_.so_far().iterations, 0);
  run(Step::kPlanned, 20);
  counts_ = false;
  add();
  EXPECT_EQ(savings_.so_far().iterations, 0);
  counts_ = true;
  run(Step::kPlanned, 20);
  add();
  EXPECT_EQ(savings_.so_far().iterations, 20);
}

// The counter's history is a minute: a stretch is at most 40 s, whatever ran since.
TEST_F(SavingsTest, LongRunsAreSampled) {
  run(Step::kAtMaximum, 11);
  run(Step::kPlanned, 1000);
  const Stretches::Taken taken = stretches_.take();
  EXPECT_EQ(taken.iterations, 1000);
  EXPECT_LE(taken.planned.end - taken.planned.begin, 43'000 * kMillisecond);
  EXPECT_GE(taken.planned.steps, 5);
  EXPECT_EQ(taken.planned.end - taken.planned.begin, taken.planned.steps * 2020 * kMillisecond);
}

// Sweeps are at clocks of their own.
TEST_F(SavingsTest, SweepsCountForNothing) {
  run(Step::kSweep, 100);
  const Stretches::Taken taken = stretches_.take();
  EXPECT_EQ(taken.iterations, 0);
  EXPECT_EQ(taken.planned.steps, 0);
  EXPECT_EQ(taken.at_maximum.steps, 0);
}

}  // namespace
}  // namespace flyball
