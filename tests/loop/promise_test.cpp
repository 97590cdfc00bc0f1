// What client and server make of a plan that does not keep its promise, in a simulated training: real times play no
// part.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "client/promise_guard.h"
#include "server/promise_watch.h"
#include "support/figures.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;
using Step = PromiseGuard::Step;

// A pipeline of some ranks, its planning server, and the machine below them. An iteration takes `at_maximum(i)` at
// maximum clocks. By its plan it takes slowness(i) times as long if all ranks set its clocks, and in between if some
// do.
struct World {
  int ranks = 2;
  double ratio = 1.0;  // that is promised
  std::function<double(int)> at_maximum = [](int) { return 1.0; };
  std::function<double(int)> slowness = [](int) { return 1.0; };
  std::function<double(int)> waits_first = [](int) { return 0.0; };  // for something else, before it computes
  std::function<double(int)> waits_last = [](int) { return 0.0; };
  double noise = 0.001;  // of an iteration
  int steps = 2000;
  int news_take = 2;  // steps until ranks hear of a version
  int swept = 0;      // steps of a sweep before, five at each clock
  bool server = true;
  int away_from = 0;  // the server does not hear in these steps
  int away_until = 0;
};

struct Training {
  std::vector<double> times;        // of iterations
  std::vector<double> undisturbed;  // what maximum clocks would have taken, with the same noise
  std::vector<bool> planned;        // whether all ranks set the plan's clocks
  std::vector<std::string> troubles;
  JobPromise known;
};

Training train(const World& world, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0.0, world.noise);
  std::vector<PromiseGuard> guards(static_cast<std::size_t>(world.ranks));
  PromiseWatch watch;
  struct Version {
    std::int64_t number = 1;
    bool at_maximum = false;
    int since = 0;  // step
  };
  std::vector<Version> versions(1);
  Training training;
  for (int i = 0; i < world.swept; ++i) {
    const int lower = i / 5;  // clocks below the highest
    const double time = world.at_maximum(i) * (1.0 + 0.01 * lower) * (1.0 + normal(random)) + world.waits_last(i);
    for (PromiseGuard& guard : guards) guard.count_swept(Megahertz(1410.0 - 15.0 * lower), Seconds(time));
  }
  for (int i = 0; i < world.steps; ++i) {
    int setting = 0;
    double patience = INFINITY;
    for (std::size_t rank = 0; rank < guards.size(); ++rank) {
      // Every other rank hears a step later.
      auto heard = std::find_if(versions.rbegin(), versions.rend(), [&](const Version& version) {
        return version.since + world.news_take + static_cast<int>(rank % 2) <= i;
      });
      if (heard != versions.rend()) guards[rank].adopt(heard->number, world.ratio, heard->at_maximum);
      if (guards[rank].version() == 0 || !guards[rank].may_set_clocks()) continue;
      ++setting;
      patience = std::min(patience, guards[rank].patience().value());
    }
    const double chance = std::max(0.5, 1.0 + normal(random));
    const double work = world.at_maximum(i) * chance;
    const double slowness = 1.0 + (world.slowness(i) - 1.0) * setting / world.ranks;
    // What is left of a late step when its clocks are given up runs at maximum clocks.
    const double before = world.waits_first(i);
    const double done = std::clamp((patience - before) / (work * slowness), 0.0, 1.0);
    const double time = before + work * (done * slowness + (1.0 - done)) + world.waits_last(i);
    const double least = before + work + world.waits_last(i);
    training.times.push_back(time);
    training.undisturbed.push_back(least);
    training.planned.push_back(setting == world.ranks);
    for (std::size_t rank = 0; rank < guards.size(); ++rank) {
      PromiseGuard& guard = guards[rank];
      const bool sets = guard.version() != 0 && guard.may_set_clocks();
      const auto report = guard.count(sets ? Step::kPlanned : Step::kAtMaximum, Seconds(time), sets && done < 1.0);
      const bool hears = world.server && (i < world.away_from || i >= world.away_until);
      if (!report || !hears || guard.version() != versions.back().number) continue;
      const bool was_fine = watch.trouble().empty();
      const bool changes = watch.take({static_cast<int>(rank),
                                       guard.version(),
                                       report->iterations,
                                       report->time,
                                       report->at_maximum,
                                       report->slower,
                                       {}},
                                      world.ratio);
      if (was_fine && !watch.trouble().empty()) training.troubles.push_back(watch.trouble());
      if (changes) versions.push_back({versions.back().number + 1, watch.at_maximum(), i});
    }
  }
  training.known = watch.known();
  return training;
}

// The largest share by which any hundred iterations took longer than at maximum clocks times `ratio`.
double worst_of_a_hundred(const Training& training, double ratio = 1.0) {
  double worst = -1.0;
  double spent = 0.0;
  double allowed = 0.0;
  for (std::size_t i = 0; i < training.times.size(); ++i) {
    spent += training.times[i];
    allowed += ratio * training.undisturbed[i];
    if (i >= 100) {
      spent -= training.times[i - 100];
      allowed -= ratio * training.undisturbed[i - 100];
    }
    if (i >= 99) worst = std::max(worst, spent / allowed - 1.0);
  }
  return worst;
}

double share_planned(const Training& training) {
  return static_cast<double>(std::count(training.planned.begin(), training.planned.end(), true)) /
         static_cast<double>(training.planned.size());
}

// A plan that keeps its promise runs, over many trainings and amounts of noise: of 2,000 steps only the first fifteen
// or so are at default clocks, until the ranks have heard of it (2 or 3) and have measured ten steps and one.
TEST(Promise, WhatIsKeptIsLeftAlone) {
  for (const double noise : {0.0, 0.0005, 0.003, 0.01}) {
    for (int seed = 0; seed < testing::tries(100, 5); ++seed) {
      World world;
      world.noise = noise;
      const Training training = train(world, static_cast<unsigned>(seed));
      // Where steps differ by 1 %, maximum clocks may be measured once more.
      EXPECT_GE(share_planned(training), noise < 0.01 ? 0.99 : 0.98) << noise << " " << seed;
      EXPECT_TRUE(training.troubles.empty());
      EXPECT_EQ(training.known.verdict, PromiseVerdict::kKept);
    }
  }
}

// Every fiftieth iteration waits four iterations' time for its input, at maximum clocks as well.
TEST(Promise, AStallIsNotThePlansFault) {
  World world;
  world.waits_first = [](int i) { return i % 50 == 30 ? 4.0 : 0.0; };
  const Training training = train(world, 1);
  EXPECT_GE(share_planned(training), 0.99);
  EXPECT_TRUE(training.troubles.empty());
}

// Stalls that the sweep has shown, of half an iteration, are known when the plan begins. They cost it nothing.
TEST(Promise, StallsOfTheSweepAreKnown) {
  World world;
  world.waits_last = [](int i) { return i % 40 == 22 ? 0.5 : 0.0; };
  world.swept = 100;
  const Training training = train(world, 1);
  EXPECT_GE(share_planned(training), 0.99);
  EXPECT_TRUE(training.troubles.empty());
  world.swept = 0;
  EXPECT_FALSE(train(world, 1).troubles.empty());
}

// After its last clock has been set, nothing tells the plan from a checkpoint. What maximum clocks take tells it: one
// attempt is given up, and in the next it is known that this happens.
TEST(Promise, ACheckpointAtTheEndIsMeasuredAtMaximumClocksAsWell) {
  World world;
  world.waits_last = [](int i) { return i % 50 == 30 ? 4.0 : 0.0; };
  const Training training = train(world, 1);
  EXPECT_EQ(training.troubles.size(), 1u);
  EXPECT_GE(share_planned(training), 0.88);
  EXPECT_TRUE(training.planned.back());
}

// 3.9 % longer, as real frameworks made of a plan that blocking trainers keep: given up after ten iterations of the
// first rank, nine of both, and tried again after longer and longer pauses.
TEST(Promise, APlanThatIsSlowerIsGivenUpAndSaidSo) {
  World world;
  world.slowness = [](int) { return 1.039; };
  const Training training = train(world, 3);
  ASSERT_FALSE(training.troubles.empty());
  EXPECT_THAT(training.troubles[0], HasSubstr("take 1.0"));
  EXPECT_EQ(training.known.verdict, PromiseVerdict::kSlower);
  const auto first = std::find(training.planned.begin(), training.planned.end(), true);
  EXPECT_EQ(std::count(first, first + 40, true), 9);
  // 100, 200, 400 and 800 iterations of pause, and ten or so of each attempt.
  EXPECT_LE(std::count(training.planned.begin(), training.planned.end(), true), 6 * 11);
  EXPECT_LE(worst_of_a_hundred(training), 0.01);
}

// From a plan that is a little too slow to one at the lowest clock of an A100 (1410 over 210 MHz), also one that is
// slow only now and then, with the noise that recorded iterations have (0.02 to 0.3 %), whoever hears of versions when.
TEST(Promise, NoPlanCostsMoreThanOnePercentOfAnyHundredIterations) {
  double worst = 0.0;
  std::mt19937 random(7);
  for (int trial = 0; trial < testing::tries(400, 40); ++trial) {
    World world;
    const double slow = std::exp(std::uniform_real_distribution<>(std::log(1.005), std::log(6.7))(random));
    const int every = std::uniform_int_distribution<>(1, 12)(random);
    const int from = std::uniform_int_distribution<>(0, 300)(random);
    world.slowness = [=](int i) { return i >= from && i % every == 0 ? slow : 1.0; };
    world.noise = std::uniform_real_distribution<>(0.0002, 0.003)(random);
    world.ranks = std::uniform_int_distribution<>(1, 8)(random);
    world.news_take = std::uniform_int_distribution<>(1, 4)(random);
    world.server = trial % 5 != 0;
    const Training training = train(world, static_cast<unsigned>(trial));
    const double costs = worst_of_a_hundred(training);
    // What chance hides: three deviations of a hundred iterations, and of the ten that maximum clocks are known by.
    const double chance = 3.0 * world.noise * (0.1 + 1.2533 / std::sqrt(10.0));
    EXPECT_LE(costs, 0.01 + chance) << "slow " << slow << " every " << every << " from " << from << " noise "
                                    << world.noise << " ranks " << world.ranks << " server " << world.server;
    worst = std::max(worst, costs);
  }
  RecordProperty("worst_per_mille", static_cast<int>(1e3 * worst));
}

// The training itself becomes 5 % slower for good, as with longer sequences: maximum clocks are measured anew, and the
// plan goes on.
TEST(Promise, WhatIsSlowerAtMaximumClocksTooIsNotThePlansFault) {
  World world;
  world.at_maximum = [](int i) { return i < 500 ? 1.0 : 1.05; };
  const Training training = train(world, 5);
  EXPECT_TRUE(training.troubles.empty());
  EXPECT_GE(share_planned(training), 0.97);
  EXPECT_NEAR(training.known.at_maximum.value(), 1.05, 0.005);
  EXPECT_EQ(training.known.verdict, PromiseVerdict::kKept);
}

// While another pipeline takes 1.2 times as long, iterations may, too; 1.25 times is too much.
TEST(Promise, WhatMayTakeLongerIsComparedWithThat) {
  World world;
  world.ratio = 1.2;
  world.slowness = [](int) { return 1.2; };
  EXPECT_GE(share_planned(train(world, 1)), 0.99);
  world.slowness = [](int) { return 1.25; };
  const Training training = train(world, 1);
  EXPECT_FALSE(training.troubles.empty());
  EXPECT_LE(worst_of_a_hundred(training, 1.2), 0.01);
}

// The server is away when the ranks report, and hears of it when it is back.
TEST(Promise, AServerThatWasAwayIsToldAgain) {
  World world;
  world.slowness = [](int i) { return i < 60 ? 1.3 : 1.0; };
  world.away_from = 0;
  world.away_until = 300;
  const Training training = train(world, 2);
  EXPECT_EQ(training.known.verdict, PromiseVerdict::kKept);
  EXPECT_TRUE(training.planned.back());
}

// A plan inside limits on power promises 2 s. Iterations of 2.01 s keep that, since 1 % is allowed; at 2.05 s it is
// said after eleven iterations, of which the first does not count, and from time to time. Its clocks stay.
TEST(Promise, APlanInsideLimitsIsComparedWithItsOwnTime) {
  for (const double time : {2.01, 2.05}) {
    std::mt19937 random(1);
    std::normal_distribution<double> normal(0.0, 0.002);
    PromiseGuard guard;
    guard.adopt(1, 0.0, false, Seconds(2));
    PromiseWatch watch;
    int reports = 0;
    for (int i = 0; i < 10'000; ++i) {
      ASSERT_TRUE(guard.may_set_clocks());
      ASSERT_TRUE(std::isinf(guard.patience().value()));
      // The step before ran at other clocks.
      const auto report = guard.count(Step::kPlanned, Seconds(i == 0 ? 1.0 : time + normal(random)));
      if (!report) continue;
      if (reports++ == 0) {
        EXPECT_EQ(report->iterations, 11);
      }
      EXPECT_EQ(report->slower, time > 2.02);
      EXPECT_EQ(report->at_maximum, Seconds(0));
      watch.take_limited({0, 1, report->iterations, report->time, {}, report->slower}, Seconds(2));
      EXPECT_FALSE(watch.at_maximum());
    }
    EXPECT_GE(reports, 10);
    EXPECT_LE(reports, 20);
    EXPECT_EQ(watch.known().verdict, time > 2.02 ? PromiseVerdict::kSlower : PromiseVerdict::kKept);
    EXPECT_EQ(watch.known().promised, Seconds(2));
    EXPECT_THAT(watch.trouble(), HasSubstr(time > 2.02 ? "but 2 s are promised inside the limits on power" : ""));
  }
}

// The plan is slow at first, while something else happens on the machines, and then as promised.
TEST(Promise, APlanThatHasBeenGivenUpGetsAnotherAttempt) {
  World world;
  world.slowness = [](int i) { return i < 60 ? 1.3 : 1.0; };
  const Training training = train(world, 2);
  EXPECT_EQ(training.troubles.size(), 1u);
  EXPECT_EQ(training.known.verdict, PromiseVerdict::kKept);
  EXPECT_TRUE(training.planned.back());
}

}  // namespace
}  // namespace flyball
