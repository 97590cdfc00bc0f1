#include "replay/fit_iteration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/index.h"
#include "pipeline/pipeline_spec.h"
#include "profile/profile.h"
#include "replay/judged_runs.h"
#include "replay/small_runs.h"
#include "support/expect_error.h"

namespace flyball {
namespace {

using testing::known_model;
using testing::known_runs;
using testing::run_all;

// Runs that a model made are explained by it: what the fit finds is what made them.
TEST(Fit, FindsTheModelThatMadeTheRuns) {
  const IterationModel model = known_model();
  const RecordedRuns runs = known_runs(model, 30);
  const RecordedIteration iteration(runs, ScheduleKind::k1f1b);
  const IterationModel fitted = fit_iteration(iteration, runs.judged());
  for (int stage = 0; stage < 2; ++stage) {
    EXPECT_NEAR(fitted.loading[at(stage)].value, model.loading[at(stage)].value, 1e-9);
    for (int k = 0; k < 2; ++k) {
      for (const ClockCost& cost : fitted.costs[fitted.place(stage, k)]) {
        const Seconds time = model.time(stage, k, cost.clock);
        EXPECT_NEAR(cost.time / time, 1.0, 1e-3) << stage << k << " at " << cost.clock.value();
        EXPECT_NEAR(cost.power / model.power_of(stage, k, cost.clock), 1.0, 0.01);
      }
    }
  }
  EXPECT_NEAR(fitted.latency.value, 4e-3, 2e-4);
  EXPECT_NEAR(fitted.power.limit.value, 300, 1);
  // Two stages and six microbatches always wait for seven transfers one after another: the first activation, five
  // exchanges of an activation and a gradient, the last gradient. Together with what comes once they take
  // 7 * 3 + 40 = 61 ms, and nothing in these runs tells them apart.
  EXPECT_NEAR(7 * fitted.transfer[0].value + fitted.once.value, 61e-3, 3e-4);
  for (const Agreement& agreement :
       {agreement_of(judge_points(iteration, fitted)), agreement_of(judge_held_out(iteration))}) {
    EXPECT_LT(agreement.worst_time, 0.1);
    EXPECT_LT(agreement.mean_energy, 0.1);
  }
}

// Runs in which first backwards are 5 % shorter than others, and the last forward of stage 1 4 % longer: no time by
// clock moves, the ratios are told where they are, and plans by the files have them.
TEST(Fit, KeepsFirstAndLastMicrobatchesApart) {
  IterationModel model = known_model();
  model.own.assign(4, {});
  for (const int stage : {0, 1}) model.own[model.place(stage, 1)].first.value = 0.95;
  model.own[model.place(1, 0)].last.value = 1.04;
  const RecordedRuns runs = known_runs(model, 30);
  const RecordedIteration iteration(runs, ScheduleKind::k1f1b);
  const IterationModel fitted = fit_iteration(iteration, runs.judged());
  const Profile profile = read_profile("profile.csv", fitted_profile(iteration, fitted));
  const ComputationDag dag = build_dag(read_pipeline("pipeline.toml", fitted_pipeline(iteration, fitted)), profile);
  for (const int stage : {0, 1}) {
    const OwnRatios& forward = fitted.own[fitted.place(stage, 0)];
    const OwnRatios& backward = fitted.own[fitted.place(stage, 1)];
    EXPECT_EQ(forward.first.value, 1.0);
    EXPECT_EQ(backward.last.value, 1.0);
    EXPECT_NEAR(backward.first.value, 0.95, 2e-3);
    EXPECT_NEAR(forward.last.value, stage == 0 ? 1.0 : 1.04, 2e-3);
    EXPECT_NEAR(fitted.costs[fitted.place(stage, 1)].front().time / model.time(stage, 1, Megahertz(1000)), 1.0, 1e-3);
    EXPECT_EQ(profile.find(stage, "forward.first"), nullptr);
    EXPECT_EQ(profile.find(stage, "forward.last") != nullptr, stage == 1);
    ASSERT_NE(profile.find(stage, "backward.first"), nullptr);
    // It draws what others draw, for a shorter time.
    const ClockOption& all = profile.find(stage, "backward")->options.front();
    const ClockOption& first = profile.find(stage, "backward.first")->options.front();
    EXPECT_NEAR(first.time / all.time, 0.95, 2e-3);
    EXPECT_NEAR(first.energy / all.energy, 0.95, 2e-3);
    EXPECT_TRUE(std::any_of(dag.types().begin(), dag.types().end(), [&](const OperationType& type) {
      return type.stage == stage && type.instruction == "backward.first";
    }));
  }
  EXPECT_LT(agreement_of(judge_points(iteration, fitted)).worst_time, 0.05) << "replays have them, too";
}

// The files are read by what reads such files, and say the same.
TEST(Fit, WritesFilesThatArePlannedWith) {
  const RecordedRuns runs = known_runs(known_model(), 20);
  const RecordedIteration iteration(runs, ScheduleKind::k1f1b);
  const IterationModel fitted = fit_iteration(iteration, runs.judged());
  const Profile profile = read_profile("profile.csv", fitted_profile(iteration, fitted));
  const PipelineSpec spec = read_pipeline("pipeline.toml", fitted_pipeline(iteration, fitted));
  EXPECT_EQ(profile.stages, 2);
  EXPECT_EQ(spec.microbatches, 6);
  EXPECT_TRUE(spec.transfers_occupy_both);
  ASSERT_EQ(spec.p2p.value().time.size(), 1u);
  EXPECT_NEAR(spec.p2p->time[0].value(), fitted.transfer[0].value, 1e-8);
  ASSERT_EQ(spec.data_load.value().time.size(), 2u);
  EXPECT_NEAR(spec.data_load->time[1].value(), 1e-3, 1e-8);
  const ClockOption& forward = profile.find(0, "forward")->options.front();
  EXPECT_EQ(forward.frequency, Megahertz(1000));
  EXPECT_NEAR(forward.time.value(), fitted.costs[0].front().time.value(), 1e-6);
  const OperationProfile* waiting = profile.find(1, "waiting");
  ASSERT_NE(waiting, nullptr);
  EXPECT_NEAR(waiting->options.front().energy.value(), fitted.waiting_power(Megahertz(1000)).value(), 1e-3);
  // Without clocks that take hold late, the DAG of these files takes as long as the replay.
  const ComputationDag dag = build_dag(spec, profile);
  const RecordedPoint& top = runs.points[1];
  std::vector<Nanoseconds> finish(at(dag.size()));
  const Nanoseconds planned = makespan(dag, plan_durations(dag, ClockPlan(finish.size(), 0)), finish);
  const Nanoseconds replayed = makespan(iteration.dag(), iteration.durations(fitted, top), finish);
  EXPECT_NEAR(static_cast<double>(planned), static_cast<double>(replayed), 2e-5 * static_cast<double>(replayed));
}

TEST(Fit, SaysHowManyPointsItNeeds) {
  const RecordedRuns runs = known_runs(known_model(), 5);
  const RecordedIteration iteration(runs, ScheduleKind::k1f1b);
  expect_input_error([&] { static_cast<void>(fit_iteration(iteration, runs.judged())); }, 0, 0,
                     "there are 4 points to fit to, 5 are needed");
  expect_input_error([&] { static_cast<void>(judge_held_out(iteration)); }, 0, 0, "--fitted-to");
}

// 29 of 30 points are judged, since the first warms up. A fit that has seen them is told of beside what has not, and
// there is none where other runs were fitted to. Constants of time: a transfer and the part once per iteration.
TEST(Fit, JudgesRunsByThemselvesOrByOthers) {
  RecordedRuns others = known_runs(known_model(), 20);
  others.source = "others";
  Judgement judgement = judge_runs(known_runs(known_model(), 30), {}, ScheduleKind::k1f1b);
  for (const bool by_others : {false, true}) {
    if (by_others) judgement = judge_runs(known_runs(known_model(), 30), {{others}, {}}, ScheduleKind::k1f1b);
    EXPECT_EQ(judgement.fitted_to, by_others ? std::optional<std::string>("others") : std::nullopt);
    EXPECT_EQ(judgement.fitted_to_all.has_value(), !by_others);
    ASSERT_EQ(judgement.points.size(), 29u);
    EXPECT_EQ(judgement.points[0].measured, &judgement.runs.points[1]) << "they refer to the judgement's own runs";
    EXPECT_LT(judgement.agreement.worst_time, 0.1);
    EXPECT_EQ(judgement.time_constants, 2);
  }
}

// Stage 1 ran its first backward at 650 MHz, where nothing else did. That backward is 5 % shorter than others as well;
// another one would take the model's 24 / 650 s.
TEST(Fit, TakesTheTimeOfOthersFromTheFirstMicrobatch) {
  RecordedRuns runs = known_runs(known_model(), 30);
  for (std::size_t p = 2; p < runs.points.size(); ++p) runs.points[p].clock[runs.index(1, 1, 0)] = Megahertz(650);
  run_all(known_model(), runs);
  for (RecordedPoint& point : runs.points) {
    for (const int stage : {0, 1}) point.taken[runs.index(stage, 1, 0)] = 0.95 * point.taken[runs.index(stage, 1, 0)];
  }
  const IterationModel fitted = fit_iteration(RecordedIteration(runs, ScheduleKind::k1f1b), runs.judged());
  EXPECT_NEAR(fitted.own[fitted.place(0, 1)].first.value, 0.95, 2e-3);
  const std::vector<ClockCost>& costs = fitted.costs[fitted.place(1, 1)];
  const auto at_650 =
      std::find_if(costs.begin(), costs.end(), [](const ClockCost& c) { return c.clock == Megahertz(650); });
  ASSERT_NE(at_650, costs.end());
  EXPECT_NEAR(at_650->time.value(), 24.0 / 650.0, 24.0 / 650.0 * 3e-3);
}

// Four stages, of which the first has twice the work. A transfer between the two in the middle takes 14 ms, others 3.
IterationModel long_link() {
  IterationModel model = known_model();
  model.costs.clear();
  model.loading.assign(4, {});
  model.transfer = {{3e-3, 0}, {14e-3, 0}, {3e-3, 0}};
  model.latency = {};
  model.power.scale.clear();
  for (const double milliseconds : {20.0, 40.0, 10.0, 20.0, 10.0, 20.0, 10.0, 20.0}) {
    std::vector<ClockCost> costs;
    for (const double clock : {1000.0, 900.0, 800.0, 700.0, 600.0}) {
      costs.push_back({Megahertz(clock), Seconds(milliseconds / clock), {}, {}, {}});
    }
    model.costs.push_back(costs);
    model.power.scale.push_back({340, 0});
  }
  return model;
}

// Plans in which the operations of some stages run at 600 or 700 MHz, those of the others at 900 or 1,000.
RecordedRuns with_slow_stages(const std::string& source, const std::vector<int>& slow, int points) {
  RecordedRuns runs = known_runs(long_link(), points, 12);
  runs.source = source;
  for (std::size_t p = 2; p < runs.points.size(); ++p) {
    for (int stage = 0; stage < runs.stages; ++stage) {
      const bool is_slow = std::find(slow.begin(), slow.end(), stage) != slow.end();
      for (std::size_t i = runs.index(stage, 0, 0); i < runs.index(stage + 1, 0, 0); ++i) {
        Megahertz& clock = runs.points[p].clock[i];
        clock = Megahertz((is_slow ? 600.0 : 900.0) + (clock < Megahertz(800) ? 0.0 : 100.0));
      }
    }
  }
  run_all(long_link(), runs);
  return runs;
}

// A stage's part of a microbatch is its work and two transfers with each neighbour: at maximum clocks 60 + 6 ms on
// stage 0 and 30 + 6 + 28 on the two in the middle, which wait for stage 0, the more the slower that is. The long
// transfer then counts twice in an iteration, in the first forward and in the last backward through all stages, as any
// other does: only the links' sum of 20 ms is known, and 6 or 7 ms are taken for each. Where the two in the middle run
// at 600 to 700 MHz, their part is some 30 / 0.65 + 34 = 80 ms, that of stage 0 at 900 to 1,000 MHz some
// 60 / 0.95 + 6 = 69. With 7 ms for the long transfer theirs seems to be 66 ms: stage 0 seems to set the pace.
TEST(Fit, FindsALongTransferThatOtherRunsWaitFor) {
  const RecordedRuns hidden = with_slow_stages("hidden", {0}, 14);
  const RecordedRuns waits = with_slow_stages("waits", {1, 2}, 8);
  const auto middle = [](const RecordedRuns& runs) {
    return fit_iteration(RecordedIteration(runs, ScheduleKind::k1f1b), runs.judged()).transfer[1].value;
  };
  EXPECT_LT(middle(hidden), 8e-3);
  const RecordedRuns both = join_runs({hidden, waits});
  EXPECT_EQ(both.judged().size(), 13u + 7u);
  EXPECT_NEAR(middle(both), 14e-3, 0.3e-3);
  // Fitted to one series alone, the other one takes longer than is predicted; held out beside it, as long as predicted.
  const auto worst = [](const OtherRuns& others) {
    const RecordedRuns judged = with_slow_stages("judged", {1, 2}, 12);
    return judge_runs(judged, others, ScheduleKind::k1f1b).agreement.worst_time;
  };
  EXPECT_GT(worst({{hidden}, {}}), 2.0);
  EXPECT_LT(worst({{hidden, waits}, {}}), 0.2);
  const Judgement judgement =
      judge_runs(with_slow_stages("judged", {0}, 12), {{}, {hidden, waits}}, ScheduleKind::k1f1b);
  EXPECT_LT(judgement.agreement.worst_time, 0.2);
  EXPECT_EQ(judgement.points.size(), 11u) << "only the runs themselves are judged";
  EXPECT_EQ(judgement.also_fitted_to, "hidden and waits");
  EXPECT_TRUE(judgement.fitted_to_all.has_value());
}

TEST(Fit, OfAnotherPipelineIsRefused) {
  const RecordedRuns runs = known_runs(known_model(), 8);
  const RecordedIteration iteration(runs, ScheduleKind::k1f1b);
  IterationModel model = known_model();
  model.loading.resize(1);
  expect_input_error([&] { static_cast<void>(judge_points(iteration, model)); }, 0, 0,
                     "these runs have 2 stages with forward, backward, what was fitted has 1 stage");
}

}  // namespace
}  // namespace flyball
