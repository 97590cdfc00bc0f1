#include "plan/planning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "pipeline/power_curve.h"
#include "support/pipelines.h"

namespace flyball {
namespace {

using testing::dag_of;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::modelled_profile;
using testing::operation;
using testing::problem_of;
using testing::profile_of;

// One stage, one microbatch; nothing ever waits. The forward takes 1 s and 400 J, or 1.5 s and 350 J, which is 400 W or
// 233.3 W; the backward takes 1 s and 100 J. There are two plans: 2 s and 500 J, 2.5 s and 450 J.
class TwoPlans : public ::testing::Test {
 protected:
  [[nodiscard]] PlanningResult within(Watts peak, JobShape job = {}) const {
    PlanningRequest request;
    request.power.emplace().limits.peak = peak;
    request.job = job;
    return plan_as_asked(problem_, request);
  }

  const ComputationDag dag_ = dag_of(profile_of({operation(0, "forward", {{300, 1.0, 400}, {200, 1.5, 350}}),
                                                 operation(0, "backward", {{300, 1.0, 100}})}),
                                     1);
  const PlanProblem problem_ = problem_of(dag_);
};

BudgetPeriod hour(const std::string& from, const std::string& until, Watts power) {
  return {from, until, Seconds(3600), power};
}

// 500 J in 2 s are 250 W in the mean, so that the bound does not exclude 2 s, which are a fifth less than 2.5 s.
TEST_F(TwoPlans, ALimitBelowTheFastPlansPeakTakesTheSlowOne) {
  const PlanningResult result = within(Watts(300));
  EXPECT_FALSE(result.unmet);
  ASSERT_EQ(result.runs.size(), 1u);
  const PlannerRun& run = result.runs[0];
  EXPECT_EQ(run.summary.selected.time, Seconds(2.5));
  EXPECT_EQ(run.summary.selected.energy, Joules(450));
  EXPECT_EQ(run.summary.limit, PaceLimit::kPower);
  ASSERT_TRUE(run.power);
  EXPECT_NEAR(run.power->baseline.peak.value(), 400, 1e-9);
  EXPECT_NEAR(run.power->plan.peak.value(), 350 / 1.5, 1e-9);
  EXPECT_NEAR(run.power->least_time->value(), 2.0, 1e-9);
  EXPECT_NEAR(run.power->over_least_time_pct, 25.0, 1e-6);
  ASSERT_EQ(run.landmarks.size(), 1u);
  EXPECT_EQ(run.landmarks[0].name, LandmarkName::kInLimits);
  EXPECT_EQ(run.landmarks[0].point, run.summary.selected_point);
}

// Two pipelines with two GPUs on the stage draw four times as much.
TEST_F(TwoPlans, ALimitIsThatOfTheWholeJob) {
  const PlanningResult result = within(Watts(1200), {2, 2});
  ASSERT_EQ(result.runs.size(), 1u);
  EXPECT_EQ(result.runs[0].power->copies, 4);
  EXPECT_NEAR(result.runs[0].power->plan.peak.value(), 4 * 350 / 1.5, 1e-9);
  EXPECT_EQ(within(Watts(1600), {2, 2}).runs[0].summary.selected.time, Seconds(2));
}

TEST_F(TwoPlans, ALimitThatNoPlanKeepsIsToldWithTheLeastThatWasFound) {
  const PlanningResult result = within(Watts(200));
  EXPECT_THAT(result.runs, IsEmpty());
  ASSERT_TRUE(result.unmet);
  EXPECT_EQ(result.unmet->limits.peak, Watts(200));
  EXPECT_FALSE(result.unmet->period);
  EXPECT_NEAR(result.unmet->least.peak.value(), 350 / 1.5, 1e-9);
}

TEST_F(TwoPlans, ABudgetHasAPlanForEachPeriod) {
  PlanningRequest request;
  request.power.emplace().budget = {hour("0", "1", Watts(1000)), hour("1", "2", Watts(300)),
                                    hour("2", "3", Watts(400))};
  const PlanningResult result = plan_as_asked(problem_, request);
  ASSERT_EQ(result.runs.size(), 1u);
  const std::vector<BudgetedPlan>& budget = result.runs[0].budget;
  ASSERT_EQ(budget.size(), 3u);
  EXPECT_THAT((std::vector{budget[0].number, budget[1].number, budget[2].number}), ElementsAre(0u, 1u, 0u));
  EXPECT_THAT((std::vector{budget[0].iterations, budget[1].iterations, budget[2].iterations}),
              ElementsAre(1800, 1440, 1800));
  EXPECT_NEAR(budget[0].peak.value(), 400, 1e-9);
  EXPECT_NEAR(budget[1].peak.value(), 350 / 1.5, 1e-9);
  EXPECT_EQ(budget[1].figures.energy, Joules(450));
  EXPECT_EQ(result.runs[0].summary.selected.time, Seconds(2.5)) << "the plan of the least power";
  EXPECT_EQ(result.runs[0].power->limits.peak, Watts(300));
}

TEST_F(TwoPlans, ABudgetThatNoPlanKeepsNamesItsPeriod) {
  PlanningRequest request;
  request.power.emplace().budget = {hour("0", "1", Watts(1000)), hour("1", "2", Watts(200))};
  const PlanningResult result = plan_as_asked(problem_, request);
  EXPECT_THAT(result.runs, IsEmpty());
  ASSERT_TRUE(result.unmet && result.unmet->period);
  EXPECT_EQ(result.unmet->period->from, "1");
}

TEST(Planning, ALimitHoldsAtEveryMoment) {
  const ComputationDag dag = dag_of(modelled_profile({0.1, 0.11}), 4);
  const PlanProblem problem = problem_of(dag);
  PlanningRequest request;
  const PlannerRun free = std::move(plan_as_asked(problem, request).runs.at(0));
  const auto curve = [&](const PlannerRun& run) {
    return power_curve(dag, run.result.frontier.plan(run.summary.selected_point), problem.blocking);
  };
  const Watts limit = 0.9 * peak_of(curve(free));
  request.power.emplace().limits.peak = limit;
  const PlannerRun limited = std::move(plan_as_asked(problem, request).runs.at(0));
  for (const Watts power : curve(limited).power) EXPECT_LE(power, limit);
  EXPECT_GT(limited.summary.selected.time, free.summary.selected.time);
  EXPECT_LE(*limited.power->least_time, limited.summary.selected.time);
}

// Forwards and backwards draw no more at a lower clock, so that eleven plannings see what there is.
TEST_F(TwoPlans, PartsAreToldAndAStopGivesNothing) {
  PlanningRequest request;
  request.power.emplace().limits.peak = Watts(300);
  std::vector<double> shares;
  std::vector<PlanningWork> others;
  request.begins = [&](const PlanningPart& part) {
    EXPECT_EQ(part.planner, "perseus");
    if (part.work == PlanningWork::kPlanner) {
      shares.push_back(part.share);
    } else {
      others.push_back(part.work);
    }
  };
  int calls = 0;
  ASSERT_EQ(plan_as_asked(problem_, request, [&](double share) { return ++calls > 0 && share <= 1.0; }).runs.size(),
            1u);
  EXPECT_THAT(shares, ElementsAre(1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0));
  EXPECT_THAT(others, ElementsAre(PlanningWork::kPowerLimits, PlanningWork::kBound));
  ASSERT_GT(calls, 12);
  request.begins = nullptr;
  for (int until = 0; until < calls; ++until) {
    int seen = 0;
    const PlanningResult result = plan_as_asked(problem_, request, [&](double) { return seen++ < until; });
    EXPECT_THAT(result.runs, IsEmpty()) << until;
    EXPECT_FALSE(result.unmet) << until;
  }
}

// 8 pipelines with 2 GPUs on the stage, and until 2.5 s: of 500 J each, 450 J are left.
TEST_F(TwoPlans, TheJobsJoulesMultiply) {
  PlanningRequest request;
  request.job = {8, 2};
  request.pace.target_time = Seconds(2.5);
  const PlannerRun run = std::move(plan_as_asked(problem_, request).runs.at(0));
  ASSERT_EQ(run.job.size(), 3u);
  const auto row = [&](std::size_t k) {
    return std::vector<double>{static_cast<double>(run.job[k].pipelines),
                               static_cast<double>(run.job[k].gpus_per_stage), run.job[k].baseline.value(),
                               run.job[k].plan.value(), run.job[k].saved().value()};
  };
  EXPECT_THAT(row(0), ElementsAre(1, 1, 500, 450, 50));
  EXPECT_THAT(row(1), ElementsAre(1, 2, 1000, 900, 100));
  EXPECT_THAT(row(2), ElementsAre(8, 2, 8000, 7200, 800));
  request.job = {};
  EXPECT_THAT(plan_as_asked(problem_, request).runs.at(0).job, IsEmpty());
}

// A straggler of 1.1 takes 2.2 s, for which only the fast plan is fast enough: 500 J, and 0.2 s of waiting at 75 W.
TEST_F(TwoPlans, WithAStragglerTheWholeJobIsNoMultiple) {
  PlanningRequest request;
  request.job = {8, 2};
  request.pace.straggler = 1.1;
  const PlannerRun run = std::move(plan_as_asked(problem_, request).runs.at(0));
  EXPECT_NEAR(run.summary.straggler_time->value(), 2.2, 1e-9);
  ASSERT_EQ(run.job.size(), 2u);
  EXPECT_EQ(run.job[1].pipelines, 1);
  EXPECT_NEAR(run.job[1].plan.value(), 2 * 515, 1e-6);
  // The frontier has two points: the first is chosen, and the second is the last and takes the least.
  ASSERT_EQ(run.landmarks.size(), 2u);
  EXPECT_EQ(run.landmarks[0].name, LandmarkName::kFastest);
  EXPECT_NEAR(run.landmarks[0].figures.energy.value(), 515, 1e-6);
  EXPECT_EQ(run.landmarks[1].name, LandmarkName::kLeastTotal);
  EXPECT_EQ(run.landmarks[1].figures.time, Seconds(2.5));
}

// Three like operations on one stage: 1 s and 400 J at 300 MHz, 1.5 s and 350 J at 200 MHz. One of them slow takes
// 3.5 s and 1150 J. With changes that take 0.1 s, it runs a tenth of its work at 300 MHz and then 0.9 * 1.5 s; the next
// one runs a fifteenth at 200 MHz and then 14/15 s: 3.48333 s and 400 + (40 + 315) + (350 / 15 + 400 * 14 / 15) =
// 1151.667 J. Until 3.49 s the planner, for which changes are free, finds only the plan of 3 s and 1200 J.
TEST(Planning, ClockChangesAreCharged) {
  const std::vector<OperationType> types = {
      {0, "forward", operation(0, "", {{300, 1.0, 400}, {200, 1.5, 350}}).options, true}};
  const ComputationDag dag("test", 1, types, {{0, 0, 0}, {0, 1, 0}, {0, 2, 0}}, {{0, 1}, {1, 2}});
  const PlanProblem problem = problem_of(dag);
  PlanningRequest request;
  request.switching = SwitchingLimits{Seconds(0.1), Seconds(0), Seconds(0)};
  request.pace.target_time = Seconds(3.5);
  const PlannerRun charged = std::move(plan_as_asked(problem, request).runs.at(0));
  EXPECT_EQ(charged.summary.selected.energy, Joules(1150));
  ASSERT_TRUE(charged.switching);
  EXPECT_EQ(charged.switching->charged.figures.switches, 2);
  EXPECT_NEAR(charged.switching->charged.figures.energy.value(), 1151.667, 1e-3);
  EXPECT_NEAR(charged.switching->charged.figures.time.value(), 3.48333, 1e-5);

  request.pace.target_time = Seconds(3.49);
  const PlannerRun reduced = std::move(plan_as_asked(problem, request).runs.at(0));
  EXPECT_EQ(reduced.summary.selected.time, Seconds(3));
  ASSERT_TRUE(reduced.switching);
  EXPECT_EQ(reduced.switching->charged.figures.energy, Joules(1200));
  EXPECT_EQ(reduced.switching->charged.figures.switches, 0);
  const ChargedFigures& best = reduced.switching->front.at(reduced.switching->chosen);
  EXPECT_EQ(best.figures.switches, 2);
  EXPECT_NEAR(best.figures.energy.value(), 1151.667, 1e-3);
  EXPECT_THAT(reduced.switching->slower, IsEmpty()) << "the deadline was asked for";
  EXPECT_THAT(reduced.switching->worth_time, IsEmpty());

  request.switching.reset();
  EXPECT_FALSE(plan_as_asked(problem, request).runs.at(0).switching);
}

ChargedFigures that_saves(int switches, double saving_pct) {
  ChargedFigures plan;
  plan.figures.switches = switches;
  plan.figures.saving_pct = saving_pct;
  return plan;
}

// The chosen plan saves 12 % with 10 changes. In 1 s 6 changes save as much, and 9 more; in 2 s neither fewer changes
// nor more saving is to be had than in 1 s; in 3 s one plan has both.
TEST(SlowerPlans, AreThoseWithFewerChangesAndThoseThatSaveMore) {
  const std::vector<SlowerFront> slower = {
      {Seconds(1), {that_saves(2, 11.0), that_saves(6, 12.0), that_saves(9, 12.5)}, 2},
      {Seconds(2), {that_saves(6, 12.1), that_saves(8, 12.4)}, 1},
      {Seconds(3), {that_saves(4, 13.0)}, 0}};
  std::vector<std::vector<double>> found;
  for (const SlowerPlan& one : slower_plans_worth_time(that_saves(10, 12.0), slower)) {
    found.push_back({one.deadline.value(), static_cast<double>(one.plan.figures.switches)});
  }
  EXPECT_THAT(found, ElementsAre(ElementsAre(1, 6), ElementsAre(1, 9), ElementsAre(3, 4)));
}

// 1F1B of two stages holds two microbatches on the first and one on the second. With memory for no more, that order
// stays; GPipe's cannot be changed. Perseus asks for no other one.
TEST(Planning, TellsWhichOrderAPlanIsIn) {
  const Profile profile = modelled_profile({0.1, 0.1});
  const auto planned = [&](const std::string& planner, ScheduleKind schedule, std::vector<int> memory_limit) {
    const ComputationDag dag = dag_of(profile, 4, schedule);
    PlanProblem problem = problem_of(dag);
    problem.memory_limit = std::move(memory_limit);
    PlanningRequest request;
    request.planners = {planner};
    return std::move(plan_as_asked(problem, request).runs.at(0));
  };
  const PlannerRun kept = planned(kFreeOrderPlanner, ScheduleKind::k1f1b, {2, 1});
  EXPECT_EQ(kept.order, PlannedOrder::kNoneBetter);
  EXPECT_THAT(kept.in_flight, ElementsAre(2, 1));
  EXPECT_THAT(kept.schedule_in_flight, ElementsAre(2, 1));
  EXPECT_EQ(planned(kFreeOrderPlanner, ScheduleKind::kGpipe, {}).order, PlannedOrder::kCannotChange);
  EXPECT_EQ(planned(kMainPlanner, ScheduleKind::k1f1b, {}).order, PlannedOrder::kSchedule);
}

}  // namespace
}  // namespace flyball
