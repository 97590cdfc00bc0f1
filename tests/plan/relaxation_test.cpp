#include "plan/relaxation.h"

#include <gtest/gtest.h>

#include <random>

#include "support/lp_oracle.h"
#include "support/phillips_dessouky.h"
#include "support/pipelines.h"

namespace flyball {
namespace {

using testing::crawl_by_unit_cuts;
using testing::dag_of;
using testing::lp_bound;
using testing::modelled_profile;
using testing::operation;
using testing::profile_of;

std::vector<CostCurve> hulls(const ComputationDag& dag, Watts blocking = kDefaultBlockingPower) {
  std::vector<CostCurve> curves;
  for (const OperationType& type : dag.types())
    curves.push_back(hull_curve(pareto_options(type.options, blocking), blocking));
  return curves;
}

RelaxationResult solve(const ComputationDag& dag, const std::vector<CostCurve>& curves) {
  return solve_relaxation(dag, curves, [](const FrontierStretch&) { return true; });
}

void expect_convex_and_falling(const BoundCurve& bound) {
  const auto pieces = bound.pieces();
  ASSERT_GT(pieces.size(), 3u);
  EXPECT_LT(pieces.back().from, bound.t_star());
  for (std::size_t k = 1; k < pieces.size(); ++k) {
    EXPECT_GT(pieces[k].from, pieces[k - 1].from);
    EXPECT_LE(pieces[k].price, pieces[k - 1].price);
    const auto at = static_cast<double>(pieces[k].from);
    EXPECT_NEAR(pieces[k - 1].intercept - pieces[k - 1].price * at, pieces[k].intercept - pieces[k].price * at, 1e-6);
  }
}

// Random convex-ish options: times rise in whole ms, energies fall by random shares.
Profile random_profile(std::mt19937& random, int stages, int options) {
  std::uniform_int_distribution<int> step(1, 6);
  std::uniform_real_distribution<double> saving(0.005, 0.08);
  std::vector<OperationProfile> operations;
  for (int s = 0; s < stages; ++s) {
    for (const char* name : {"forward", "backward"}) {
      std::vector<testing::OptionRow> rows;
      double time = 0.010 + 0.001 * step(random);
      double energy = 20.0 + step(random);
      for (int k = 0; k < options; ++k) {
        rows.push_back({1400.0 - 15.0 * k, time, energy});
        const double slower = 0.001 * step(random);
        // Above blocking power, so that slower always has less net energy; the hull sorts out the rest.
        energy += 75.0 * slower - energy * saving(random);
        time += slower;
      }
      operations.push_back(operation(s, name, rows));
    }
  }
  return profile_of(std::move(operations));
}

// One stage, one microbatch: F then B in series, so the relaxation takes the steepest savings last.
// Net of 75 W: F has (10 ms, 9.25), (12 ms, 8.1), (16 ms, 6.8); B has (20 ms, 18.5), (24 ms, 16.2).
// Slopes: F 575 J/s then 325 J/s; B 575 J/s. From T* = 40 ms: F gives 4 ms at 325 J/s, then both give 2 + 4 ms at 575.
TEST(Relaxation, OneStageByHand) {
  const Profile profile =
      profile_of({operation(0, "forward", {{1400, 0.010, 10.0}, {1300, 0.012, 9.0}, {1200, 0.016, 8.0}}),
                  operation(0, "backward", {{1400, 0.020, 20.0}, {1300, 0.024, 18.0}})});
  const ComputationDag dag = dag_of(profile, 1);
  const RelaxationResult result = solve(dag, hulls(dag));
  EXPECT_EQ(result.status, RelaxationStatus::kOptimal);
  EXPECT_EQ(result.bound.t_star(), 40 * kMillisecond);
  EXPECT_EQ(result.bound.t_min(), 30 * kMillisecond);
  EXPECT_NEAR(result.bound.at(40 * kMillisecond), 23.0, 1e-6);
  EXPECT_NEAR(result.bound.at(38 * kMillisecond), 23.0 + 2e-3 * 325, 1e-6);
  EXPECT_NEAR(result.bound.at(36 * kMillisecond), 24.3, 1e-6);
  EXPECT_NEAR(result.bound.at(33 * kMillisecond), 24.3 + 3e-3 * 575, 1e-6);
  EXPECT_NEAR(result.bound.at(30 * kMillisecond), 27.75, 1e-6);
  EXPECT_NEAR(result.bound.at(99 * kMillisecond), 23.0, 1e-6) << "beyond T* nothing more is saved";
  // Two prices, one stretch each.
  EXPECT_EQ(result.rounds, 2);
}

TEST(Relaxation, LeastTotalIsWherePriceMeetsBlocking) {
  const Profile profile =
      profile_of({operation(0, "forward", {{1400, 0.010, 10.0}, {1300, 0.012, 9.0}, {1200, 0.016, 8.9}}),
                  operation(0, "backward", {{1400, 0.020, 20.0}})});
  const ComputationDag dag = dag_of(profile, 1);
  const BoundCurve bound = solve(dag, hulls(dag)).bound;
  // The slower piece saves 0.1 J + 75 W * 4 ms = 0.4 J net over 4 ms, 100 J/s: above 75 W, so it still pays.
  EXPECT_EQ(bound.least_total(Watts(75)), 36 * kMillisecond);
  EXPECT_EQ(bound.least_total(Watts(101)), 32 * kMillisecond);
  EXPECT_EQ(bound.least_total(Watts(1000)), 30 * kMillisecond);
}

TEST(Relaxation, EqualsLinearProgrammeAtEveryTime) {
  std::mt19937 random(7);
  for (const ScheduleKind schedule : {ScheduleKind::k1f1b, ScheduleKind::kGpipe}) {
    for (int stages = 1; stages <= 4; ++stages) {
      const Profile profile = random_profile(random, stages, 6);
      const ComputationDag dag = dag_of(profile, 5, schedule);
      const std::vector<CostCurve> curves = hulls(dag);
      const BoundCurve bound = solve(dag, curves).bound;
      constexpr int kTimes = 12;
      for (int k = 0; k <= kTimes; ++k) {
        const Nanoseconds time = bound.t_min() + (bound.t_star() - bound.t_min()) * k / kTimes;
        const double expected = lp_bound(dag, curves, time);
        EXPECT_NEAR(bound.at(time), expected, 1e-6 * std::abs(expected))
            << schedule_name(schedule) << " " << stages << " stages at " << time << " ns";
      }
    }
  }
}

TEST(Relaxation, EqualsLinearProgrammeOnSteepCurves) {
  const Profile profile = modelled_profile({0.040, 0.046, 0.042, 0.044});
  const ComputationDag dag = dag_of(profile, 12);
  const std::vector<CostCurve> curves = hulls(dag);
  const BoundCurve bound = solve(dag, curves).bound;
  for (const double share : {0.0, 0.01, 0.3, 0.77, 1.0}) {
    const Nanoseconds time = bound.t_min() + std::llround(share * static_cast<double>(bound.t_star() - bound.t_min()));
    const double expected = lp_bound(dag, curves, time);
    EXPECT_NEAR(bound.at(time), expected, 1e-6 * std::abs(expected));
  }
}

TEST(Relaxation, EqualsUnitCutsOfPhillipsAndDessouky) {
  std::mt19937 random(11);
  for (int round = 0; round < 4; ++round) {
    const Profile profile = random_profile(random, 2 + round % 2, 4);
    const ComputationDag dag = dag_of(profile, 3);
    const std::vector<CostCurve> curves = hulls(dag);  // vertices on whole milliseconds
    const BoundCurve bound = solve(dag, curves).bound;
    const auto points = crawl_by_unit_cuts(dag, curves, kMillisecond);
    EXPECT_EQ(points.front().time, bound.t_star());
    EXPECT_EQ(points.back().time, bound.t_min());
    for (const auto& point : points) {
      EXPECT_NEAR(bound.at(point.time), point.net_joules, 1e-6 * std::abs(point.net_joules)) << point.time;
    }
  }
}

TEST(Relaxation, BoundIsConvexAndFalls) {
  const Profile profile = modelled_profile({0.040, 0.046, 0.042});
  const ComputationDag dag = dag_of(profile, 16);
  expect_convex_and_falling(solve(dag, hulls(dag)).bound);
}

// Exact prices stop at 2,000 operations. 4 stages have 8 operations per microbatch.
TEST(Relaxation, PricesAreExactUpTo2000Operations) {
  const Profile profile = modelled_profile({0.040, 0.046, 0.042, 0.044});
  const ComputationDag small = dag_of(profile, 250);
  const ComputationDag large = dag_of(profile, 251);
  ASSERT_EQ(small.size(), 2000);
  EXPECT_EQ(price_step_of(small, hulls(small)), kFinestPrice);
  EXPECT_GT(price_step_of(large, hulls(large)), 1e6 * kFinestPrice);
}

// The step is a share of the mean slope: F saves 9.25 - 6.8 = 2.45 J net over 6 ms and B 18.5 - 16.2 = 2.3 J over 4 ms,
// which is 475 W over both: 0.95095 W at 1e-6 for each of 2,002 operations, and at most 0.05 of it, 23.75 W.
TEST(Relaxation, CoarseStepByHand) {
  const Profile profile =
      profile_of({operation(0, "forward", {{1400, 0.010, 10.0}, {1300, 0.012, 9.0}, {1200, 0.016, 8.0}}),
                  operation(0, "backward", {{1400, 0.020, 20.0}, {1300, 0.024, 18.0}})});
  const ComputationDag dag = dag_of(profile, 1001);
  EXPECT_NEAR(price_step_of(dag, hulls(dag)).value(), 0.95095, 1e-9);
  const ComputationDag largest = dag_of(profile, 30000);
  EXPECT_NEAR(price_step_of(largest, hulls(largest)).value(), 23.75, 1e-9);
}

// Whatever the step is, weak duality keeps the bound below the optimum; here the optimum comes from another program.
TEST(Relaxation, CoarsePricesStayBelowLinearProgramme) {
  std::mt19937 random(5);
  const Profile profile = random_profile(random, 3, 6);
  const ComputationDag dag = dag_of(profile, 6);
  const std::vector<CostCurve> curves = hulls(dag);
  for (const double step_w : {1.0, 30.0, 1000.0}) {
    const BoundCurve bound = solve_relaxation(
                                 dag, curves, [](const FrontierStretch&) { return true; }, Watts(step_w))
                                 .bound;
    for (int k = 0; k <= 10; ++k) {
      const Nanoseconds time = bound.t_min() + (bound.t_star() - bound.t_min()) * k / 10;
      const double optimum = lp_bound(dag, curves, time);
      EXPECT_LE(bound.at(time), optimum + 1e-6 * std::abs(optimum)) << step_w << " W at " << time << " ns";
    }
  }
}

// Energies of an iteration include the blocking power of all stages for all its time.
TEST(Relaxation, CoarseBoundOfALargePipelineIsBelowAndClose) {
  const Profile profile = modelled_profile({0.040, 0.046, 0.042, 0.044, 0.041, 0.0455, 0.0435, 0.045});
  const ComputationDag dag = dag_of(profile, 130);
  ASSERT_GT(dag.size(), 2000);
  const std::vector<CostCurve> curves = hulls(dag);
  const auto go_on = [](const FrontierStretch&) { return true; };
  const RelaxationResult coarse = solve(dag, curves);
  const RelaxationResult exact = solve_relaxation(dag, curves, go_on, kFinestPrice);
  EXPECT_LT(coarse.rounds, exact.rounds);
  EXPECT_EQ(coarse.bound.t_min(), exact.bound.t_min());
  EXPECT_EQ(coarse.bound.t_star(), exact.bound.t_star());
  constexpr int kTimes = 200;
  for (int k = 0; k <= kTimes; ++k) {
    const Nanoseconds time = exact.bound.t_min() + (exact.bound.t_star() - exact.bound.t_min()) * k / kTimes;
    const double optimum = exact.bound.at(time);
    const double energy = optimum + 8 * (kDefaultBlockingPower * to_seconds(time)).value();
    EXPECT_LE(coarse.bound.at(time), optimum + 1e-9 * energy) << time;
    EXPECT_GE(coarse.bound.at(time), optimum - 1e-3 * energy) << time;
  }
  expect_convex_and_falling(coarse.bound);
}

// Event times that the visitor sees are a feasible relaxed schedule at every T of the stretch, and its cost is the
// bound.
TEST(Relaxation, StretchesHoldOptimalSchedules) {
  std::mt19937 random(3);
  const Profile profile = random_profile(random, 3, 5);
  const ComputationDag dag = dag_of(profile, 6);
  const std::vector<CostCurve> curves = hulls(dag);
  const BoundCurve bound = solve(dag, curves).bound;
  Nanoseconds last = bound.t_star();
  const auto result = solve_relaxation(dag, curves, [&](const FrontierStretch& stretch) {
    EXPECT_EQ(stretch.t_high, last);
    last = stretch.t_low;
    for (const Nanoseconds time : {stretch.t_high, (stretch.t_high + stretch.t_low) / 2, stretch.t_low}) {
      const Nanoseconds delta = stretch.t_high - time;
      double net = 0.0;
      const auto start = [&](std::size_t i) { return stretch.start[i] - std::min(stretch.start_shift[i], delta); };
      const auto finish = [&](std::size_t i) { return stretch.finish[i] - std::min(stretch.finish_shift[i], delta); };
      for (int i = 0; i < dag.size(); ++i) {
        const auto u = static_cast<std::size_t>(i);
        const CostCurve& curve = curves[static_cast<std::size_t>(dag[i].type)];
        const Nanoseconds window = finish(u) - start(u);
        EXPECT_GE(start(u), 0);
        EXPECT_LE(finish(u), time);
        EXPECT_GE(window, curve.front().time);
        for (const int s : dag.successors(i)) EXPECT_LE(finish(u), start(static_cast<std::size_t>(s)));
        double cost = curve.back().net_joules;
        for (std::size_t k = curve.size() - 1; k > 0 && window < curve[k].time; --k) {
          cost = curve[k - 1].net_joules + static_cast<double>(window - curve[k - 1].time) /
                                               static_cast<double>(curve[k].time - curve[k - 1].time) *
                                               (curve[k].net_joules - curve[k - 1].net_joules);
        }
        net += cost;
      }
      EXPECT_NEAR(net, bound.at(time), 1e-6 * std::abs(net));
    }
    return true;
  });
  EXPECT_EQ(last, result.bound.t_min());
}

TEST(Relaxation, StopsWhenTold) {
  const Profile profile = modelled_profile({0.040, 0.046});
  const ComputationDag dag = dag_of(profile, 8);
  int seen = 0;
  const auto result = solve_relaxation(dag, hulls(dag), [&](const FrontierStretch&) { return ++seen < 3; });
  EXPECT_EQ(result.status, RelaxationStatus::kCancelled);
  EXPECT_EQ(seen, 3);
}

// The rounds count prices, not time units or microbatches: eight times the microbatches, about the same rounds.
TEST(Relaxation, LikeMicrobatchesShareRounds) {
  const Profile profile = modelled_profile({0.040, 0.046, 0.042});
  const ComputationDag small = dag_of(profile, 8);
  const ComputationDag large = dag_of(profile, 64);
  EXPECT_LT(solve(large, hulls(large)).rounds, 2 * solve(small, hulls(small)).rounds);
}

TEST(Relaxation, NothingToChoose) {
  const Profile profile =
      profile_of({operation(0, "forward", {{1400, 0.010, 10.0}}), operation(0, "backward", {{1400, 0.02, 20.0}})});
  const ComputationDag dag = dag_of(profile, 2);
  const BoundCurve bound = solve(dag, hulls(dag)).bound;
  EXPECT_EQ(bound.t_min(), 60 * kMillisecond);
  EXPECT_EQ(bound.t_star(), 60 * kMillisecond);
  EXPECT_NEAR(bound.at(60 * kMillisecond), 2 * 30.0 - 75 * 0.060, 1e-9);
}

}  // namespace
}  // namespace flyball
