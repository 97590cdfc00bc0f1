#include "plan/zeus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plan/stage_clock.h"
#include "support/pipelines.h"

namespace flyball {
namespace {

using testing::dag_of;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::modelled_profile;
using testing::operation;
using testing::problem_of;
using testing::profile_of;

// Gross energies of forward and backward together: 300 MHz 1200 J, 200 MHz 1110 J, 100 MHz 1130 J, although the forward
// alone takes least at 100 MHz and the backward alone at 200 MHz.
Profile two_close_stages() {
  return profile_of({
      operation(0, "forward", {{300, 1.0, 400}, {200, 1.5, 350}, {100, 2.0, 340}}),
      operation(0, "backward", {{300, 2.0, 800}, {200, 3.0, 760}, {100, 4.0, 790}}),
      operation(1, "forward", {{300, 2.0, 400}, {200, 3.0, 350}, {100, 4.0, 340}}),
      operation(1, "backward", {{300, 4.0, 800}, {200, 6.0, 760}, {100, 8.0, 790}}),
  });
}

TEST(StageClock, ValleyIsOfForwardAndBackwardTogether) {
  const Profile profile = two_close_stages();
  EXPECT_THAT(valley_options(dag_of(profile, 2)), Each(1));
}

// A forward that runs twice as often as its backward pulls the valley to its own: 2 * 340 + 790 < 2 * 350 + 775.
TEST(StageClock, ValleyWeighsHowOftenATypeRuns) {
  const std::vector<OperationType> types = {
      {0, "forward", operation(0, "", {{300, 1, 400}, {200, 1.5, 350}, {100, 2, 340}}).options, true},
      {0, "backward", operation(0, "", {{300, 2, 800}, {200, 3, 775}, {100, 4, 790}}).options, true}};
  const ComputationDag once("test", 1, types, {{0, 0, 0}, {1, 0, 0}}, {{0, 1}});
  EXPECT_THAT(valley_options(once), ElementsAre(1, 1));  // 1125 < 1130
  const ComputationDag twice("test", 1, types, {{0, 0, 0}, {0, 1, 0}, {1, 0, 0}}, {{0, 1}, {1, 2}});
  EXPECT_THAT(valley_options(twice), ElementsAre(2, 2));  // 1470 < 1475
}

TEST(StageClock, TypesWithoutACommonClockHaveTheirOwnValleys) {
  const std::vector<OperationType> types = {
      {0, "forward", operation(0, "", {{300, 1, 400}, {200, 1.5, 350}}).options, true},
      {0, "backward", operation(0, "", {{310, 2, 800}, {210, 3, 850}}).options, true}};
  const ComputationDag dag("test", 1, types, {{0, 0, 0}, {1, 0, 0}}, {{0, 1}});
  EXPECT_TRUE(common_clocks(dag, 0).empty());
  EXPECT_THAT(valley_options(dag), ElementsAre(1, 0));
  EXPECT_EQ(nearest_option(types[0], Megahertz(250)), 0);
  EXPECT_EQ(nearest_option(types[0], Megahertz(249)), 1);
  EXPECT_FALSE(option_at(types[0], Megahertz(250)).has_value());
}

// One microbatch in turn: 1 + 2 + 4 + 2 s; 75 W net of blocking while busy.
TEST(StageClock, ReplayGivesTimeAndNetEnergy) {
  const Profile profile = two_close_stages();
  const ComputationDag dag = dag_of(profile, 1);
  const PlanProblem problem = problem_of(dag);
  const ClockPlan fastest(static_cast<std::size_t>(dag.size()), 0);
  const FrontierPoint point = replay(dag, problem.blocking, fastest);
  EXPECT_EQ(point.time, 9'000'000'000);
  EXPECT_NEAR(point.net_joules, 2400 - 75 * 9, 1e-9);
  const EnergyBreakdown energy = energy_of(dag, fastest, point.time, problem.blocking);
  EXPECT_NEAR(point.net_joules + 150 * 9.0, energy.total().value(), 1e-9);
}

TEST(Zeus, MaxAndUniformAreOnePointEach) {
  const Profile profile = two_close_stages();
  const ComputationDag dag = dag_of(profile, 3);
  const PlanProblem problem = problem_of(dag);
  const PlannerResult max = make_max()->plan(problem, nullptr);
  ASSERT_EQ(max.frontier.size(), 1u);
  EXPECT_THAT(max.frontier.plan(0), Each(0));
  const PlannerResult uniform = make_uniform()->plan(problem, nullptr);
  ASSERT_EQ(uniform.frontier.size(), 1u);
  EXPECT_THAT(uniform.frontier.plan(0), Each(1));
  // Everything takes 1.5 times as long.
  EXPECT_EQ(2 * uniform.frontier.points()[0].time, 3 * max.frontier.points()[0].time);
}

// Net of 75 W, the lowest clock takes the least energy of all: all three clocks stay.
TEST(Zeus, GlobalScansOneClockForAll) {
  const Profile profile = two_close_stages();
  const ComputationDag dag = dag_of(profile, 3);
  const PlannerResult result = make_zeus_global()->plan(problem_of(dag), nullptr);
  EXPECT_EQ(result.stats.steps, 3);
  ASSERT_EQ(result.frontier.size(), 3u);
  for (std::size_t p = 0; p < 3; ++p) EXPECT_THAT(result.frontier.plan(p), Each(p));
}

// The slowest stage's forward takes 2 s at best, which stage 0 meets at its lowest clock. Common times of 2, 3 and 4 s:
// stage 1 at its three clocks, stage 0 always at its lowest.
TEST(Zeus, PerStageBalancesForwardTimes) {
  const Profile profile = two_close_stages();
  const ComputationDag dag = dag_of(profile, 3);
  const PlannerResult result = make_zeus_per_stage()->plan(problem_of(dag), nullptr);
  EXPECT_EQ(result.stats.steps, 3);
  ASSERT_EQ(result.frontier.size(), 3u);
  for (std::size_t p = 0; p < 3; ++p) {
    const ClockPlan plan = result.frontier.plan(p);
    for (int i = 0; i < dag.size(); ++i) {
      EXPECT_EQ(plan[static_cast<std::size_t>(i)], dag.type_of(i).stage == 0 ? 2 : p) << dag.label(i);
    }
  }
}

TEST(Zeus, FrontiersAreFeasibleAndNeverDominated) {
  const Profile profile = modelled_profile({0.020, 0.024, 0.021, 0.022});
  const ComputationDag dag = dag_of(profile, 8);
  const PlanProblem problem = problem_of(dag);
  const FrontierPoint fastest = make_max()->plan(problem, nullptr).frontier.points()[0];
  for (const auto& planner : {make_zeus_global(), make_zeus_per_stage()}) {
    SCOPED_TRACE(planner->name());
    const PlannerResult result = planner->plan(problem, nullptr);
    ASSERT_GT(result.frontier.size(), 10u);
    for (std::size_t p = 0; p < result.frontier.size(); ++p) {
      const FrontierPoint point = result.frontier.points()[p];
      EXPECT_GE(point.time, fastest.time);
      const FrontierPoint again = replay(dag, problem.blocking, result.frontier.plan(p));
      EXPECT_EQ(again.time, point.time);
      EXPECT_EQ(again.net_joules, point.net_joules);
      if (p == 0) continue;
      EXPECT_GT(point.time, result.frontier.points()[p - 1].time);
      EXPECT_LT(point.net_joules, result.frontier.points()[p - 1].net_joules);
    }
  }
}

TEST(Zeus, CancelledKeepsWhatItHas) {
  const Profile profile = two_close_stages();
  const ComputationDag dag = dag_of(profile, 3);
  const PlannerResult result = make_zeus_global()->plan(problem_of(dag), [](double share) { return share < 0.5; });
  EXPECT_EQ(result.stats.steps, 2);
  EXPECT_EQ(result.frontier.size(), 2u);
}

// Power limits in place of clocks (frequency 0), and a label that is none. Forward times of the stages: 1, 1.25 and 2 s
// below 300, 250 and 200 W, and twice that. A common forward time of 2 s is met by 200 W and 300 W, one of 2.5 s by
// 200 W and 250 W, one of 4 s by 200 W. Of equal limits the faster kernel is taken.
TEST(Zeus, StagesAreGivenPowerLimits) {
  const Profile profile = read_profile("limits.csv", R"(stage,instruction,power_limit,kernel,time,energy
0,forward,300,a,1.0,300
0,forward,250,a,1.25,280
0,forward,200,a,2.0,270
0,forward,200,b,2.2,250
0,backward,300,a,2.0,600
0,backward,250,a,2.5,560
0,backward,200,a,4.0,540
1,forward,300,a,2.0,600
1,forward,250,a,2.5,560
1,forward,200,a,4.0,540
1,backward,300,a,4.0,1200
1,backward,250,a,5.0,1120
1,backward,200,a,8.0,1080
)");
  const ComputationDag dag = dag_of(profile, 2);
  const auto limits_of = [&](const Frontier& frontier) {
    std::vector<std::vector<std::string>> all;
    for (std::size_t point = 0; point < frontier.size(); ++point) {
      const ClockPlan plan = frontier.plan(point);
      std::vector<std::string> of_stages(2);
      for (int i = 0; i < dag.size(); ++i) {
        const std::string label = label_text(dag.type_of(i).labels.of(plan[static_cast<std::size_t>(i)]));
        std::string& seen = of_stages[static_cast<std::size_t>(dag.type_of(i).stage)];
        EXPECT_TRUE(seen.empty() || seen == label) << seen << " and " << label;
        seen = label;
      }
      all.push_back(of_stages);
    }
    return all;
  };
  const auto set_to = [](int first, int second) {
    return std::vector<std::string>{"power_limit=" + std::to_string(first) + ", kernel=a",
                                    "power_limit=" + std::to_string(second) + ", kernel=a"};
  };
  EXPECT_THAT(limits_of(make_zeus_per_stage()->plan(problem_of(dag), {}).frontier),
              ElementsAre(set_to(200, 300), set_to(200, 250), set_to(200, 200)));
  EXPECT_THAT(limits_of(make_zeus_global()->plan(problem_of(dag), {}).frontier),
              ElementsAre(set_to(300, 300), set_to(250, 250), set_to(200, 200)));
}

}  // namespace
}  // namespace flyball
