#include "plan/scattered_runs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace flyball {
namespace {

// Operations of one stage each; `edges` says which follows which.
ComputationDag dag_of(std::size_t operations, const std::vector<ComputationDag::Edge>& edges) {
  std::vector<OperationType> types;
  std::vector<Computation> computations;
  for (std::size_t i = 0; i < operations; ++i) {
    types.push_back({static_cast<int>(i), "forward", {{Megahertz(1000), Seconds(1), Joules(1)}}});
    computations.push_back({static_cast<int>(i), 0, 0});
  }
  return {"dag", static_cast<int>(operations), types, computations, edges};
}

// The longer of two equal log-normal times of mean 1 takes 1 + erf(s / 2) = 1.0562 in the mean, half of their Gini
// difference being erf(s / 2), where s^2 = ln(1 + 0.1^2). Of 100 pairs of opposite draws, which differ equally, the
// mean of half the difference is known to 0.75 * 0.056 / 10 = 0.0042.
TEST(ScatteredRuns, TheLongerOfTwoIsWaitedFor) {
  const std::vector<Nanoseconds> second(2, kSecond);
  const ScatteredRuns scattered({0.1, 0.1});
  EXPECT_NEAR(scattered.lateness(dag_of(2, {}), second).value(), std::erf(0.5 * std::sqrt(std::log1p(0.01))), 0.0127);
}

// Half a second is five deviations: the shorter of the two hardly ever ends last.
TEST(ScatteredRuns, SlackTakesItUp) {
  const ScatteredRuns scattered({0.1, 0.1});
  const std::vector<Nanoseconds> uneven = {kSecond, kSecond / 2};
  EXPECT_LT(scattered.lateness(dag_of(2, {}), uneven), Seconds(1e-3));
}

// One after the other: long and short runs even out. The draws' mean is within 0.1 * 0.1 * sqrt(2) / 10 of that.
TEST(ScatteredRuns, OneAfterTheOtherIsNotLateInTheMean) {
  const std::vector<Nanoseconds> second(2, kSecond);
  const ScatteredRuns scattered({0.1, 0.1});
  EXPECT_LT(scattered.lateness(dag_of(2, {{0, 1}}), second), Seconds(2e-3));
}

// Whatever somebody reports, times stay numbers: of iterations of 2e9 s, too, the longest that there are.
TEST(ScatteredRuns, AbsurdScatterIsBounded) {
  const std::vector<Nanoseconds> longest(2, 1'000'000'000 * kSecond);
  const ScatteredRuns absurd({1e15, 1e15});
  const Seconds late = absurd.lateness(dag_of(2, {{0, 1}}), longest);
  EXPECT_GE(late, Seconds(0));
  EXPECT_LE(late, Seconds(6e9));
}

TEST(ScatteredRuns, WhatHardlyScattersIsConstant) {
  const std::vector<Nanoseconds> second(2, kSecond);
  EXPECT_FALSE(ScatteredRuns().any());
  const ScatteredRuns scattered({0.003, 0.0});
  EXPECT_FALSE(scattered.any());
  EXPECT_EQ(scattered.lateness(dag_of(2, {}), second), Seconds(0));
}

}  // namespace
}  // namespace flyball
