// Orders of pipelines with backwards in two parts: what they are, the steps from one to another, and the search.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "plan/joint.h"
#include "plan/order_moves.h"
#include "plan/perseus.h"
#include "plan/stage_orders.h"
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
using ::testing::ElementsAre;
using testing::held;
using ::testing::Le;
using testing::least_energy;
using testing::least_energy_of_all;
using testing::modelled_profile;
using testing::order_of;
using testing::problem_of;
using testing::split_dag_of;
using testing::time_at_maximum;

// ZB-H1 of three stages and four microbatches. Stage 1 runs F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3: five forwards and
// gradients of the activations before W0, seven before W1, all eight before the others.
TEST(SplitOrders, AreReadFromTheDag) {
  const ComputationDag dag = split_dag_of(modelled_profile({1.0, 1.0, 1.0}), 4);
  EXPECT_EQ(order_of(dag, 1), "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3");
  const Orders orders = stage_orders(dag).value();
  EXPECT_EQ(orders[1], (StageOrder{{2, 3, 4, 4}, {5, 7, 8, 8}}));
  for (int s = 0; s < 3; ++s) EXPECT_EQ(orders[static_cast<std::size_t>(s)], in_turn_split(4, 3 - s, s));
}

// 1F1B with its halves run one after the other.
TEST(SplitOrders, OfOneForwardOneBackward) {
  const ComputationDag dag = split_dag_of(modelled_profile({1.0, 1.0}), 3, 0.5, ScheduleKind::k1f1b);
  EXPECT_EQ(order_of(dag, 0), "F0 F1 I0 W0 F2 I1 W1 I2 W2");
  EXPECT_THAT(stage_orders(dag).value(), ElementsAre(in_turn_split(3, 2, 0), in_turn_split(3, 1, 0)));
}

// F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3 holds two microbatches after F1, three after F2 (none is freed before W0), and
// again three after F3. With W0 before F2 it never holds more than two.
TEST(SplitOrders, HoldActivationsUntilTheWeightGradientEnds) {
  EXPECT_EQ(most_in_flight(StageOrder{{2, 3, 4, 4}, {5, 7, 8, 8}}), 3);
  EXPECT_EQ(most_in_flight(StageOrder{{2, 3, 4, 4}, {3, 5, 7, 8}}), 2);
  // F0 I0 F1 I1 F2 I2 F3 I3 W0 W1 W2 W3: nothing is freed before all are held.
  EXPECT_EQ(most_in_flight(StageOrder{{1, 2, 3, 4}, {8, 8, 8, 8}}), 4);
  // Three ahead and weight gradients two late: F4 is run when I0 and I1 have been, but before any weight gradient.
  EXPECT_EQ(most_in_flight(in_turn_split(12, 3, 2)), 5);
}

TEST(SplitOrders, ReorderPutsWeightGradientsInTheirPlaces) {
  const ComputationDag dag = split_dag_of(modelled_profile({1.0, 1.0}), 3);
  const Orders orders{{{2, 3, 3}, {4, 4, 6}}, {{1, 2, 3}, {5, 5, 6}}};
  const ComputationDag moved = reorder(dag, orders);
  EXPECT_EQ(order_of(moved, 0), "F0 F1 I0 F2 W0 W1 I1 I2 W2");
}

// A weight gradient goes with the gradient that it came after: F0 F1 I0 F2 W0 I1 W1 I2 W2 has W0 one forward behind I0.
// With F2 ahead of I0, no forward is left between I0 and I1.
TEST(SplitOrders, KeepWeightGradientsBehindTheirGradients) {
  const StageOrder order{{2, 3, 3}, {4, 5, 6}};
  EXPECT_EQ(with_forwards(order, {3, 3, 3}), (StageOrder{{3, 3, 3}, {4, 5, 6}}));
  EXPECT_EQ(with_forwards(order, {1, 2, 3}), (StageOrder{{1, 2, 3}, {3, 4, 6}}));
}

// F0 F1 I0 F2 I1 W0 F3 ... with memory for two: W0 must come before F2, W1 before F3; W2 and W3 stay at the end.
TEST(SplitOrders, AreFittedToMemory) {
  const StageOrder order{{2, 3, 4, 4}, {5, 7, 8, 8}};
  EXPECT_EQ(fitted(order, 2).value(), (StageOrder{{2, 3, 4, 4}, {3, 5, 8, 8}}));
  EXPECT_EQ(fitted(order, 3).value(), order);
  EXPECT_FALSE(fitted(order, 1).has_value());
}

TEST(SplitOrders, WeightGradientsMoveOneByOne) {
  const Orders orders{in_turn_split(3, 1, 0)};  // F0 I0 W0 F1 I1 W1 F2 I2 W2
  const auto text = [&](const std::optional<Orders>& moved) {
    return order_of(reorder(split_dag_of(modelled_profile({1.0}), 3), moved.value()), 0);
  };
  const std::vector<int> limit{2};
  EXPECT_EQ(text(later(orders, 0, {0, 1}, Reach::kOperation, limit)), "F0 I0 F1 W0 I1 W1 F2 I2 W2");
  EXPECT_EQ(text(later(orders, 0, {0, 1}, Reach::kMicrobatch, limit)), "F0 I0 F1 I1 W0 W1 F2 I2 W2");
  EXPECT_EQ(text(later(orders, 0, {0, 3}, Reach::kMicrobatch, limit)), "F0 I0 F1 I1 W0 F2 I2 W1 W2");
  EXPECT_FALSE(later(orders, 0, {0, 1}, Reach::kOperation, std::vector<int>{1}).has_value());
  EXPECT_FALSE(earlier(orders, 0, {0, 3}, Reach::kOperation).has_value());
  const Orders late{in_turn_split(3, 1, 1)};
  EXPECT_EQ(earlier(late, 0, {0, 3}, Reach::kMicrobatch), orders);
  EXPECT_EQ(text(earlier(late, 0, {1, 2}, Reach::kOperation)), "F0 I0 F1 I1 W0 F2 W1 I2 W2");
}

// Whatever steps are taken, the stages can run, weight gradients follow what they need, and memory suffices.
TEST(SplitOrders, StepsLeadToOrdersThatRun) {
  constexpr int kStages = 3;
  constexpr int kMicrobatches = 5;
  const ComputationDag dag = split_dag_of(modelled_profile({1.0, 1.0, 1.0}), kMicrobatches);
  std::mt19937 random(7);
  const auto any = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  int taken = 0;
  for (int walk = 0; walk < 20; ++walk) {
    Orders orders = stage_orders(dag).value();
    const std::vector<int> limit{3 + any(3), 3 + any(3), 3 + any(3)};
    for (int step = 0; step < 100; ++step) {
      const int stage = any(kStages);
      const int first = any(kMicrobatches);
      const Steps steps{first, first + 1 + any(kMicrobatches - first)};
      const Reach reach = any(2) == 0 ? Reach::kOperation : Reach::kMicrobatch;
      std::optional<Orders> moved;
      switch (any(6)) {
        case 0: moved = raised(orders, stage, steps, limit); break;
        case 1: moved = lowered(orders, stage, steps); break;
        case 2: moved = shallower(orders, stage); break;
        case 3: moved = later(orders, stage, steps, reach, limit); break;
        case 4: moved = earlier(orders, stage, steps, reach); break;
        default: moved = freed_sooner(orders, stage);
      }
      if (!moved) continue;
      ++taken;
      ASSERT_TRUE(can_run(*moved));
      ASSERT_TRUE(fits(*moved, limit));
      // reorder() throws if operations wait for each other in a circle, and stage_orders() returns what is in order.
      ASSERT_EQ(stage_orders(reorder(dag, *moved)), *moved);
      orders = *moved;
    }
  }
  EXPECT_GT(taken, 500);
}

// A stage's operations by their kind (0 forward, 1 gradient of the activations, 2 of the weights) and microbatch.
using Listing = std::vector<std::array<int, 2>>;

// All orders of three operations for each microbatch, each behind the one that it needs, microbatches in any order.
std::vector<Listing> all_listings(int microbatches) {
  std::vector<Listing> all;
  std::vector<int> done(static_cast<std::size_t>(microbatches), 0);
  Listing listing;
  const std::function<void()> extend = [&] {
    if (listing.size() == 3 * done.size()) return all.push_back(listing);
    for (int m = 0; m < microbatches; ++m) {
      int& next = done[static_cast<std::size_t>(m)];
      if (next == 3) continue;
      listing.push_back({next++, m});
      extend();
      listing.pop_back();
      --next;
    }
  };
  extend();
  return all;
}

int most_held(const Listing& listing) {
  int now = 0;
  int most = 0;
  for (const auto& [kind, microbatch] : listing) {
    now += kind == 0 ? 1 : kind == 2 ? -1 : 0;
    most = std::max(most, now);
  }
  return most;
}

// The pipeline whose stages run these operations, with types as `dag` has them; none if they wait in a circle.
std::optional<ComputationDag> dag_of_listings(const ComputationDag& dag, const std::vector<Listing>& stages) {
  constexpr std::array kNames = {"forward", "backward_input", "backward_weight"};
  std::vector<Computation> nodes;
  std::vector<ComputationDag::Edge> edges;
  std::map<std::array<int, 3>, int> number;  // stage, kind, microbatch
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (std::size_t k = 0; k < stages[s].size(); ++k) {
      const auto [kind, microbatch] = stages[s][k];
      int type = 0;
      while (dag.types()[static_cast<std::size_t>(type)].stage != static_cast<int>(s) ||
             dag.types()[static_cast<std::size_t>(type)].instruction != kNames[static_cast<std::size_t>(kind)]) {
        ++type;
      }
      const int node = static_cast<int>(nodes.size());
      number[{static_cast<int>(s), kind, microbatch}] = node;
      nodes.push_back({type, microbatch, 0});
      if (k > 0) edges.push_back({node - 1, node});
    }
  }
  for (const auto& [key, node] : number) {
    const auto [stage, kind, microbatch] = key;
    if (stage + 1 == static_cast<int>(stages.size()) || kind == 2) continue;
    const int next = number.at({stage + 1, kind, microbatch});
    edges.push_back(kind == 0 ? ComputationDag::Edge{node, next} : ComputationDag::Edge{next, node});
  }
  if (!find_cycle(nodes.size(), edges).empty()) return std::nullopt;
  return ComputationDag("all orders", dag.stages(), {dag.types().begin(), dag.types().end()}, nodes, edges);
}

// The iteration time of ZB-H1 at maximum clocks, and a later one.
std::vector<Nanoseconds> deadlines(const PlanProblem& problem) {
  const Nanoseconds at_maximum = time_at_maximum(problem);
  return {at_maximum, at_maximum + at_maximum / 10};
}

// All orders of two stages and two microbatches, also those in which one microbatch overtakes the other: 20 of each
// stage (6! / (3! 3!)), each pair that can run bounded by a linear programme.
TEST(SplitOrders, SearchFindsTheBestOfAllOrders) {
  FLYBALL_STATISTIC();
  const std::vector<Listing> all = all_listings(2);
  ASSERT_EQ(all.size(), 20U);
  for (const auto& [shape, share] : std::vector<std::pair<std::vector<double>, double>>{
           {{1.0, 1.0}, 0.5}, {{1.0, 1.3}, 0.5}, {{1.3, 1.0}, 0.4}, {{1.0, 1.1}, 0.7}}) {
    const ComputationDag dag = split_dag_of(modelled_profile(shape), 2, share);
    const PlanProblem problem = problem_of(dag);
    for (const Nanoseconds deadline : deadlines(problem)) {
      std::array<double, 3> least;  // by memory limit
      least.fill(std::numeric_limits<double>::infinity());
      int runnable = 0;
      for (const Listing& first : all) {
        for (const Listing& second : all) {
          const auto pair = dag_of_listings(dag, {first, second});
          if (!pair) continue;
          ++runnable;
          const double joules = least_energy(problem, *pair, deadline);
          for (int limit = std::max(most_held(first), most_held(second)); limit <= 2; ++limit) {
            double& best = least[static_cast<std::size_t>(limit)];
            best = std::min(best, joules);
          }
        }
      }
      EXPECT_GT(runnable, 50);
      for (int limit = 1; limit <= 2; ++limit) {
        const OrderChoice choice = search_orders(problem, deadline, std::vector<int>(2, limit), Progress{});
        EXPECT_THAT(held(choice.orders), Each(Le(limit)));
        const double best = least[static_cast<std::size_t>(limit)];
        if (std::isinf(best)) {
          EXPECT_TRUE(std::isinf(choice.joules)) << limit;
        } else {
          EXPECT_NEAR(choice.joules, best, 1e-4 * best) << shape[1] << ", " << share << ", limit " << limit;
        }
      }
    }
  }
}

// All orders of a stage that take microbatches in turn.
std::vector<StageOrder> all_in_turn(int microbatches, int limit) {
  std::vector<StageOrder> all;
  for (const Listing& listing : all_listings(microbatches)) {
    StageOrder order;
    std::array<int, 3> done{};
    bool in_turn = true;
    for (const auto& [kind, microbatch] : listing) {
      in_turn = in_turn && microbatch == done[static_cast<std::size_t>(kind)]++;
      if (kind == 1) order.forwards.push_back(done[0]);
      if (kind == 2) order.weights.push_back(done[0] + done[1]);
    }
    if (in_turn && most_held(listing) <= limit) all.push_back(order);
  }
  return all;
}

TEST(SplitOrders, SearchFindsTheBestOfAllOrdersInTurn) {
  FLYBALL_STATISTIC();
  struct Shape {
    std::vector<double> forwards;
    int microbatches;
    int limit;
  };
  for (const auto& [forwards, microbatches, limit] :
       std::vector<Shape>{{{1.0, 1.2, 0.9}, 2, 2}, {{1.0, 1.0, 1.3}, 2, 2}, {{1.2, 1.0}, 3, 2}, {{1.0, 1.1}, 3, 3}}) {
    const ComputationDag dag = split_dag_of(modelled_profile(forwards), microbatches);
    const PlanProblem problem = problem_of(dag);
    const std::vector<StageOrder> one = all_in_turn(microbatches, limit);
    for (const Nanoseconds deadline : deadlines(problem)) {
      const double least = least_energy_of_all(problem, one, deadline);
      const std::vector<int> limits(forwards.size(), limit);
      const OrderChoice choice = search_orders(problem, deadline, limits, Progress{});
      EXPECT_TRUE(fits(choice.orders, limits));
      EXPECT_NEAR(choice.joules, least, 1e-4 * least) << forwards.size() << " stages, limit " << limit;
    }
  }
}

// No planner saves more with the memory that its order holds and in the time of ZB-H1 or of 1F1B at maximum clocks: not
// Perseus in ZB-H1's order, not Perseus in 1F1B's with the two parts run one after the other, and not this planner with
// whole backwards.
void expect_joint_is_never_worse(const std::filesystem::path& path, int microbatches) {
  SCOPED_TRACE(path.stem());
  const Profile profile = read_profile_file(path);
  const ComputationDag dag = split_dag_of(profile, microbatches);
  Orders orders;
  for (int s = 0; s < dag.stages(); ++s) orders.push_back(in_turn_split(microbatches, dag.stages() - s, 0));
  const ComputationDag plain = reorder(dag, orders);
  const ComputationDag whole = dag_of(profile, microbatches);
  const PlanProblem of_whole = make_problem(whole, {kDefaultBlockingPower}, 1'000'000, CostModel::kHull);
  for (const ComputationDag* other : {&dag, &plain}) {
    PlanProblem theirs = make_problem(*other, {kDefaultBlockingPower}, 1'000'000, CostModel::kHull);
    theirs.focus = {other == &dag ? time_at_maximum(theirs) : time_at_maximum(of_whole)};
    const Nanoseconds deadline = theirs.focus.front();
    PlanProblem ours = make_problem(dag, {kDefaultBlockingPower}, 1'000'000, CostModel::kHull);
    ours.focus = theirs.focus;
    ours.memory_limit = held(stage_orders(*other).value());
    const PlannerResult joint = make_joint()->plan(ours, Progress{});
    EXPECT_TRUE(fits(stage_orders(joint.dag_of(ours)).value(), ours.memory_limit));
    EXPECT_LE(chosen(joint, deadline).time, deadline);
    const PlannerResult perseus = make_perseus()->plan(theirs, Progress{});
    EXPECT_LE(chosen(joint, deadline).joules, chosen(perseus, deadline).joules);
    if (deadline < time_at_maximum(of_whole)) continue;
    PlanProblem limited = of_whole;
    limited.focus = theirs.focus;
    limited.memory_limit = ours.memory_limit;
    EXPECT_LE(chosen(joint, deadline).joules, chosen(make_joint()->plan(limited, Progress{}), deadline).joules);
  }
}

TEST(SplitOrders, JointIsNeverWorseThanOthersOnShippedProfiles) {
  FLYBALL_STATISTIC();
  for (const auto& path : testing::shipped_profiles()) expect_joint_is_never_worse(path, 12);
}

TEST(SplitOrders, JointIsNeverWorseThanOthersOnMeasuredProfiles) {
  FLYBALL_STATISTIC();
  const auto data = testing::shared_data();
  if (!data) GTEST_SKIP() << testing::kNoSharedData;
  for (const auto& path : testing::measured_profiles(*data)) expect_joint_is_never_worse(path, 12);
}

}  // namespace
}  // namespace flyball
