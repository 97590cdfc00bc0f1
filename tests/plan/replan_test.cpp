#include "plan/replan.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>

#include "plan/relaxation.h"
#include "profile/profile.h"
#include "support/figures.h"
#include "support/pipelines.h"

namespace flyball {
namespace {

using testing::dag_of;
using testing::modelled_profile;

// A pipeline with its plans, from new.
struct Planned {
  Planned(const Profile& profile, int microbatches, double focus = 1.0) : dag(dag_of(profile, microbatches)) {
    problem = make_problem(dag, {kDefaultBlockingPower}, std::nullopt, CostModel::kHull);
    problem.keep_flows = true;
    problem.threads = 1;
    std::vector<Nanoseconds> finish(static_cast<std::size_t>(dag.size()));
    const Nanoseconds fastest = makespan(dag, plan_durations(dag, max_clock_plan(problem)), finish);
    problem.focus = {static_cast<Nanoseconds>(focus * static_cast<double>(fastest))};
    result = make_planner("perseus")->plan(problem, {});
  }
  ComputationDag dag;
  PlanProblem problem;
  PlannerResult result;
};

Profile with_changed(Profile profile, std::size_t operation, double time, double energy) {
  for (ClockOption& option : profile.operations[operation].options) {
    option.time = option.time * time;
    option.energy = option.energy * energy;
  }
  return profile;
}

// Returns whether there are plans. What the header promises of them: each is the replay of its clocks, no plan from new
// is below the bound, and none of the plans, looked up at any time, is worse than one from new by more than is allowed;
// that is counted from the bound, which is above nothing that a plan from new takes.
bool keeps_its_promises(const Planned& before, const Planned& now) {
  const auto again = replan(before.problem, before.result, now.problem);
  if (!again) return false;
  const Frontier& ours = again->frontier;
  const Frontier& theirs = now.result.frontier;
  std::vector<Nanoseconds> finish(static_cast<std::size_t>(now.dag.size()));
  for (std::size_t k = 0; k < ours.size(); ++k) {
    const FrontierPoint& point = ours.points()[k];
    const ClockPlan clocks = ours.plan(k);
    EXPECT_EQ(point.time, makespan(now.dag, plan_durations(now.dag, clocks), finish));
    const double joules = energy_of(now.dag, clocks, point.time, now.problem.blocking).total().value();
    EXPECT_NEAR(ours.energy(k).value(), joules, 1e-7 * joules);
    EXPECT_GE(point.net_joules, point.net_lower_bound);
  }
  const BoundCurve exact = solve_relaxation(
                               now.dag, now.problem.hulls(), [](const FrontierStretch&) { return true; }, kFinestPrice)
                               .bound;
  for (std::size_t k = 0; k < ours.size(); ++k) {
    const FrontierPoint& point = ours.points()[k];
    EXPECT_LE(point.net_lower_bound, exact.at(point.time) + 1e-9 * std::abs(exact.at(point.time)));
  }
  EXPECT_EQ(ours.points().front().time, theirs.points().front().time);
  const Nanoseconds asked = std::max(now.problem.focus.front(), theirs.points().front().time);
  const double lost = ours.energy(ours.lookup(asked)) / theirs.energy(theirs.lookup(asked)) - 1.0;
  EXPECT_LT(lost, kMostLostAsked);
  const Nanoseconds t_min = theirs.points().front().time;
  const Nanoseconds range = theirs.points().back().time - t_min;
  double mean = 0.0;
  constexpr int kLookups = 500;
  for (int k = 0; k < kLookups; ++k) {
    const Nanoseconds time = t_min + range / kLookups * k;
    const double more = ours.points()[ours.lookup(time)].net_joules - theirs.points()[theirs.lookup(time)].net_joules;
    mean += more / theirs.energy(theirs.lookup(time)).value() / kLookups;
  }
  EXPECT_LT(mean, kMostLostInTheMean);
  return true;
}

TEST(Replan, KeepsItsPromisesOnShippedProfiles) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> change(0.97, 1.03);
  int planned = 0;
  int tried = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(FLYBALL_SOURCE_DIR) / "examples/profiles")) {
    const Profile profile = read_profile_file(entry.path().string());
    const std::size_t operation = random() % profile.operations.size();
    SCOPED_TRACE(entry.path().filename().string());
    const Profile changed = with_changed(profile, operation, change(random), change(random));
    ++tried;
    planned += keeps_its_promises(Planned(profile, 12), Planned(changed, 12)) ? 1 : 0;
  }
  EXPECT_GE(planned, tried * 3 / 4);
}

TEST(Replan, KeepsItsPromisesOnRandomProfiles) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> forward(0.04, 0.05);
  std::uniform_real_distribution<double> change(0.97, 1.03);
  int planned = 0;
  for (int k = 0; k < 12; ++k) {
    SCOPED_TRACE(k);
    std::vector<double> stages(2 + random() % 4);
    for (double& stage : stages) stage = forward(random);
    const Profile profile = modelled_profile(stages);
    const Profile changed = with_changed(profile, random() % profile.operations.size(), change(random), change(random));
    const double focus = 1.0 + 0.1 * (k % 2);
    planned += keeps_its_promises(Planned(profile, 16, focus), Planned(changed, 16, focus)) ? 1 : 0;
  }
  EXPECT_GE(planned, 9);
}

// By the flows that were kept, the plan at the time of maximum clocks is 0.207 % above the bound, where 0.2 are
// allowed; the relaxation says 0.16 %.
TEST(Replan, SolvesTheRelaxationAgainWhereKeptFlowsBoundTooLittle) {
  const Profile profile =
      read_profile_file(std::string(FLYBALL_SOURCE_DIR) + "/examples/profiles/bloom-176b-a40-8stage.csv");
  Profile changed = profile;
  for (std::size_t k = 0; k < changed.operations.size(); ++k) {
    const OperationProfile& operation = changed.operations[k];
    if (operation.stage == 1 && operation.instruction == "forward") changed = with_changed(changed, k, 1.03, 1.03);
  }
  const int microbatches = testing::tries(96, 32);
  EXPECT_TRUE(keeps_its_promises(Planned(profile, microbatches), Planned(changed, microbatches)));
}

TEST(Replan, OfTheSameProfileIsNoWorse) {
  const Planned planned(modelled_profile({0.040, 0.044, 0.041, 0.043}), 32);
  EXPECT_TRUE(keeps_its_promises(planned, planned));
}

TEST(Replan, LeavesToPlanningFromNewWhatItCannotDo) {
  const Profile profile = modelled_profile({0.040, 0.044});
  const Planned before(profile, 8);
  EXPECT_FALSE(replan(before.problem, before.result, Planned(profile, 9).problem));
  Planned without(profile, 8);
  without.result.flows = nullptr;
  EXPECT_FALSE(replan(without.problem, without.result, before.problem));
  // The other stage sets the pace, which no flow of before knows.
  EXPECT_FALSE(replan(before.problem, before.result, Planned(with_changed(profile, 1, 2.0, 2.0), 8).problem));
}

}  // namespace
}  // namespace flyball
