#include "plan/joint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "plan/envpipe.h"
#include "plan/perseus.h"
#include "plan/stage_clock.h"
#include "plan/summary.h"
#include "profile/profile.h"
#include "support/figures.h"
#include "support/order_energy.h"
#include "support/pipelines.h"
#include "support/profiles.h"
#include "support/shared_data.h"

namespace flyball {
namespace {

using testing::chosen;
using testing::dag_of;
using ::testing::Each;
using testing::held;
using ::testing::Le;
using testing::least_energy_of_all;
using testing::modelled_profile;
using testing::problem_of;
using testing::time_at_maximum;

const Progress kNoProgress;

// Every staircase of so many steps that holds at most `limit`.
std::vector<StageOrder> staircases(int microbatches, int limit) {
  std::vector<StageOrder> all;
  const std::function<void(StageOrder)> extend = [&](const StageOrder& order) {
    const int b = order.microbatches();
    if (b == microbatches) return all.push_back(order);
    const int least = std::max(b + 1, b == 0 ? 1 : order.forwards.back());
    for (int forwards = least; forwards <= std::min(microbatches, b + limit); ++forwards) {
      StageOrder longer = order;
      longer.forwards.push_back(forwards);
      extend(longer);
    }
  };
  extend({});
  return all;
}

// All orders that there are, each bounded by a linear programme.
TEST(SearchOrders, FindsTheBestOfAllOrders) {
  FLYBALL_STATISTIC();
  const std::vector<std::vector<double>> shapes = {{1.0, 1.0}, {1.0, 1.3}, {1.3, 1.0}, {1.0, 1.2, 0.9}};
  for (const auto& shape : shapes) {
    const int microbatches = shape.size() == 2 ? 4 : 3;
    const Profile profile = modelled_profile(shape);
    const ComputationDag dag = dag_of(profile, microbatches);
    const PlanProblem problem = problem_of(dag);
    const Nanoseconds deadline = time_at_maximum(problem);
    for (int limit = static_cast<int>(shape.size()); limit <= microbatches; ++limit) {
      const std::vector<int> limits(shape.size(), limit);
      const OrderChoice choice = search_orders(problem, deadline, limits, kNoProgress);
      EXPECT_TRUE(can_run(choice.orders));
      EXPECT_THAT(held(choice.orders), Each(Le(limit)));
      EXPECT_NEAR(choice.joules, least_energy_of_all(problem, staircases(microbatches, limit), deadline),
                  1e-4 * choice.joules)
          << shape.size() << " stages, limit " << limit;
    }
  }
}

// Two equal stages, forwards of 1 s and backwards of 2 s, with a single clock: nothing can be saved, and no order is
// better than the one given.
TEST(SearchOrders, KeepsTheOrderWhereNothingIsToBeGained) {
  const Profile profile = testing::profile_of(
      {testing::operation(0, "forward", {{1000, 1.0, 200}}), testing::operation(0, "backward", {{1000, 2.0, 400}}),
       testing::operation(1, "forward", {{1000, 1.0, 200}}), testing::operation(1, "backward", {{1000, 2.0, 400}})});
  const ComputationDag dag = dag_of(profile, 4);
  const PlanProblem problem = problem_of(dag);
  const OrderChoice choice = search_orders(problem, time_at_maximum(problem), {}, kNoProgress);
  EXPECT_EQ(choice.orders, stage_orders(dag).value());
}

// An order that holds all microbatches; a limit below that needs another one, and there is one that is no slower.
TEST(SearchOrders, BringsAnOrderBelowTheLimit) {
  const Profile profile = modelled_profile({1.0, 1.0, 1.0});
  const ComputationDag dag = reorder(dag_of(profile, 6), Orders(3, in_turn(6, 6)));
  PlanProblem problem = problem_of(dag);
  problem.memory_limit = {3, 3, 3};
  const OrderChoice choice = search_orders(problem, time_at_maximum(problem), problem.memory_limit, kNoProgress);
  EXPECT_TRUE(can_run(choice.orders));
  EXPECT_THAT(held(choice.orders), Each(Le(3)));
  EXPECT_TRUE(std::isfinite(choice.joules));
}

TEST(SearchOrders, StopsWhenAsked) {
  const Profile profile = modelled_profile({1.0, 1.0, 1.2, 1.0});
  const ComputationDag dag = dag_of(profile, 16);
  const PlanProblem problem = problem_of(dag);
  int calls = 0;
  const OrderChoice choice = search_orders(problem, time_at_maximum(problem), {}, [&](double) { return ++calls < 3; });
  EXPECT_LE(choice.looked_at, 4);
  EXPECT_TRUE(can_run(choice.orders));
}

// Memory for just what 1F1B holds: four microbatches on the first stage, one on the last.
// The energy is a bound on the deeper order's plans, and Perseus comes close to it there.
TEST(OneDeeper, BoundsWhatOneMoreMicrobatchCanSave) {
  const ComputationDag dag = dag_of(modelled_profile({0.040, 0.044, 0.041, 0.043}), 8);
  const PlanProblem problem = problem_of(dag);
  const Nanoseconds deadline = replay(dag, problem.blocking, max_clock_plan(problem)).time;
  const auto deeper = one_deeper(problem, deadline, [] { return true; });
  ASSERT_TRUE(deeper);
  EXPECT_EQ(deeper->in_flight, (std::vector<int>{5, 4, 3, 1}));
  const ComputationDag reordered =
      reorder(dag, std::vector<StageOrder>{in_turn(8, 5), in_turn(8, 4), in_turn(8, 3), in_turn(8, 1)});
  PlanProblem other = problem_of(reordered);
  other.focus = {deadline};
  const Frontier frontier = make_perseus()->plan(other, {}).frontier;
  const double planned = frontier.energy(frontier.cheapest_by(deadline)).value();
  EXPECT_GE(planned, deeper->least_energy.value() * (1.0 - 1e-9));
  EXPECT_LE(planned, deeper->least_energy.value() * 1.003);
  EXPECT_FALSE(one_deeper(problem, deadline, [] { return false; }));
  PipelineSpec spec;
  spec.schedule = ScheduleKind::kGpipe;
  spec.microbatches = 4;
  const ComputationDag gpipe = build_dag(spec, modelled_profile({0.040, 0.044}));
  EXPECT_FALSE(one_deeper(problem_of(gpipe), deadline, [] { return true; }));
}

TEST(JointPlanner, KeepsTheOrderWhereMemoryIsForNoOther) {
  const ComputationDag dag = dag_of(modelled_profile({1.0, 1.4, 0.8, 1.1}), 8);
  PlanProblem problem = problem_of(dag);
  EXPECT_NE(make_joint()->plan(problem, kNoProgress).dag, nullptr);
  problem.memory_limit = {4, 3, 2, 1};
  EXPECT_EQ(make_joint()->plan(problem, kNoProgress).dag, nullptr);
}

TEST(JointPlanner, KeepsOrdersThatItKnowsNothingOf) {
  PipelineSpec spec;
  spec.schedule = ScheduleKind::kInterleaved1f1b;
  spec.microbatches = 4;
  spec.chunks = 2;
  const ComputationDag dag = build_dag(spec, modelled_profile({1.0, 1.0}));
  const PlannerResult result = make_joint()->plan(problem_of(dag), kNoProgress);
  EXPECT_EQ(result.dag, nullptr);
  EXPECT_FALSE(result.frontier.empty());
}

// Forwards take 1.0, 1.4, 0.8 and 1.1 s, backwards twice that. Stage 1 is the slowest: 8 microbatches of 4.2 s after
// the first forward of stage 0 and before its last backward make at least 36.6 s. In 1F1B's order it has run its three
// first forwards at 5.2 s, and the first backward comes to it at 8.1 s: 39.5 s or more. Two more forwards leave 0.1 s
// of that.
TEST(JointPlanner, ATargetBelowTheFrameworksFastestIsMetByAnotherOrder) {
  const ComputationDag dag = dag_of(modelled_profile({1.0, 1.4, 0.8, 1.1}), 8);
  PlanProblem problem = problem_of(dag);
  const auto fastest = [&](const std::unique_ptr<Planner>& planner) {
    return planner->plan(problem, kNoProgress).frontier.points().front().time;
  };
  const Nanoseconds in_order = fastest(make_perseus());
  EXPECT_GE(in_order, 39'500'000'000);
  problem.focus = {38'000'000'000};
  EXPECT_LE(fastest(make_joint()), 38'000'000'000);
  // What no order reaches gets one that is no slower than the framework's.
  for (const Nanoseconds target : {Nanoseconds{1}, Nanoseconds{36'000'000'000}}) {
    problem.focus = {target};
    EXPECT_LT(fastest(make_joint()), in_order);
    EXPECT_EQ(search_orders(problem, target, {}, kNoProgress).joules, std::numeric_limits<double>::infinity());
  }
}

// Equal stages, of which the first three may hold one microbatch more.
TEST(JointPlanner, MovesTheOrderWhereTransfersOccupyBothStages) {
  PipelineSpec spec;
  spec.microbatches = 8;
  spec.p2p = ConstantOperation(Seconds(0.02));
  spec.transfers_occupy_both = true;
  const ComputationDag dag = build_dag(spec, modelled_profile({1.0, 1.0, 1.0, 1.0}));
  PlanProblem problem = problem_of(dag);
  problem.memory_limit = {5, 4, 3, 1};
  const Nanoseconds deadline = time_at_maximum(problem);
  const PlannerResult result = make_joint()->plan(problem, kNoProgress);
  ASSERT_NE(result.dag, nullptr);
  EXPECT_TRUE(result.dag->transfers_occupy_both());
  EXPECT_LE(chosen(result, deadline).time, deadline);
  EXPECT_LT(chosen(result, deadline).joules,
            0.99 * chosen(make_perseus()->plan(problem, kNoProgress), deadline).joules);
}

// No planner saves more, at the time of all-maximum clocks and with the memory that EnvPipe uses without a limit.
// `transfer` is how long a transfer takes that occupies both stages; 0: there are none.
void expect_no_planner_is_better(const std::filesystem::path& path, int microbatches, Seconds transfer) {
  SCOPED_TRACE(path.stem());
  const Profile profile = read_profile_file(path);
  PipelineSpec spec;
  spec.microbatches = microbatches;
  if (transfer > Seconds(0)) spec.p2p = ConstantOperation(transfer);
  spec.transfers_occupy_both = transfer > Seconds(0);
  const ComputationDag dag = build_dag(spec, profile);
  const PlanProblem free = make_problem(dag, {kDefaultBlockingPower}, 1'000'000, CostModel::kHull);
  const Nanoseconds at_maximum = time_at_maximum(free);
  const PlannerResult envpipe = make_envpipe(EnvPipePolicy::kBalanced)->plan(free, kNoProgress);
  const Orders orders = stage_orders(envpipe.dag_of(free)).value();
  PlanProblem limited = free;
  limited.memory_limit = held(orders);
  limited.focus = {std::max(at_maximum, chosen(envpipe, at_maximum).time)};
  const PlannerResult joint = make_joint()->plan(limited, kNoProgress);
  const Orders ours = stage_orders(joint.dag_of(limited)).value();
  for (std::size_t s = 0; s < ours.size(); ++s) EXPECT_LE(most_in_flight(ours[s]), limited.memory_limit[s]);
  const Nanoseconds deadline = limited.focus.front();
  EXPECT_LE(chosen(joint, deadline).time, deadline);
  EXPECT_LE(chosen(joint, deadline).joules, chosen(envpipe, deadline).joules);
  for (const std::string& name : planner_names()) {
    SCOPED_TRACE(name);
    const PlannerResult other = name == "joint" ? joint : make_planner(name)->plan(limited, kNoProgress);
    if (other.frontier.points().front().time > deadline) continue;
    EXPECT_LE(chosen(joint, deadline).joules, chosen(other, deadline).joules);
  }
}

constexpr Seconds kNoTransfers(0);
constexpr Seconds kTransfer(0.002);  // 1.7 to 15.7 ms were fitted to real runs

TEST(JointPlanner, IsNeverWorseThanOthersOnShippedProfiles) {
  FLYBALL_STATISTIC();
  for (const auto& path : testing::shipped_profiles()) {
    expect_no_planner_is_better(path, 12, kNoTransfers);
    expect_no_planner_is_better(path, 12, kTransfer);
  }
}

TEST(JointPlanner, IsNeverWorseThanOthersOnMeasuredProfiles) {
  FLYBALL_STATISTIC();
  const auto data = testing::shared_data();
  if (!data) GTEST_SKIP() << testing::kNoSharedData;
  for (const auto& path : testing::measured_profiles(*data)) {
    expect_no_planner_is_better(path, 12, kNoTransfers);
    expect_no_planner_is_better(path, 12, kTransfer);
  }
}

// What Perseus' clocks save on EnvPipe's orders of the two measured profiles, as somebody found who fed these orders to
// a planner by hand: with memory for one or two microbatches more than 1F1B needs on every stage, and without a limit.
TEST(JointPlanner, SavesWhatWasFoundByHandOnMeasuredProfiles) {
  const auto data = testing::shared_data();
  if (!data) GTEST_SKIP() << testing::kNoSharedData;
  struct Found {
    const char* profile;
    double blocking_w;
    std::vector<int> memory_limit;
    double saving_pct;
  };
  const std::vector<Found> found = {{"gpt3-175b+a40_bf16.csv", 70.38, {9, 8, 7, 6, 5, 4, 3, 2}, 17.0},
                                    {"gpt3-175b+a40_bf16.csv", 70.38, {}, 18.6},
                                    {"bloom+a100_sxm_bf16.csv", 83.64, {10, 9, 8, 7, 6, 5, 4, 3}, 17.1}};
  for (const Found& one : found) {
    const Profile profile = read_profile_file(*data / "perseus-sosp24/emulation" / one.profile);
    const ComputationDag dag = dag_of(profile, 12);
    const PlanProblem problem =
        make_problem(dag, {Watts(one.blocking_w)}, 10'000'000, CostModel::kHull, 0.0, one.memory_limit);
    const FrontierPoint maximum = replay(dag, problem.blocking, max_clock_plan(problem));
    const double baseline = maximum.net_joules + (problem.total_blocking() * to_seconds(maximum.time)).value();
    const PlannerResult result = make_joint()->plan(problem, kNoProgress);
    EXPECT_GE(100.0 * (1.0 - chosen(result, maximum.time).joules / baseline), one.saving_pct) << one.profile;
    EXPECT_LE(chosen(result, maximum.time).time, maximum.time);
  }
}

}  // namespace
}  // namespace flyball
