#include "plan/plan_to_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "plan/plan_file.h"
#include "plan/stage_clock.h"
#include "support/expect_error.h"
#include "support/pipelines.h"
#include "support/shared_data.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;

// The text of a plan file with one point, in which each type's operations run at one of the type's options.
std::string plan_text(const Profile& profile, const TypeOptions& options, ScheduleKind schedule = ScheduleKind::k1f1b) {
  const ComputationDag dag = testing::dag_of(profile, 2, schedule);
  const std::vector<Watts> blocking(static_cast<std::size_t>(dag.stages()), kDefaultBlockingPower);
  Frontier frontier(kDefaultBlockingPower * dag.stages());
  const ClockPlan plan = plan_of_types(dag, options);
  frontier.add(replay(dag, blocking, plan), plan);
  frontier.finish();
  return write_plan_json({"test", "test.csv", "1f1b", 0}, dag, blocking, frontier);
}

Profile with_limits() {
  return read_profile("limits.csv", R"(stage,instruction,power_limit,time,energy
0,forward,300,1,300
0,forward,200,2,270
0,backward,300,2,600
0,backward,200,4,540
1,forward,300,2,600
1,backward,300,4,1200
)");
}

Profile with_clocks() {
  return testing::profile_of({
      testing::operation(0, "forward", {{300, 1.0, 400}, {200, 1.5, 350}}),
      testing::operation(0, "backward", {{300, 2.0, 800}, {200, 3.0, 760}}),
      testing::operation(1, "forward", {{300, 2.0, 400}, {200, 3.0, 350}}),
      testing::operation(1, "backward", {{300, 4.0, 800}, {200, 6.0, 760}}),
  });
}

PipelineSpec job_of(int stages, int microbatches, ScheduleKind schedule = ScheduleKind::k1f1b) {
  PipelineSpec job;
  job.stages = stages;
  job.microbatches = microbatches;
  job.schedule = schedule;
  return job;
}

constexpr OrderAbility kExecutes{.executes_order = true};

// Stage 0 below 200 W. Its forwards take 2 s and its backwards 4, like those of stage 1: F0 ends at 2 and 4 s on the
// stages, B0 at 8 s on stage 1, F1 at 10, B1 at 14, and B1 of stage 0 at 18 s. At 300 W they end at 1, 3, 7, 9, 13, 15.
TEST(PlanToRun, HasWhatEachStageSets) {
  PlanToRun plan = read_plan_to_run("plan.json", plan_text(with_limits(), {1, 1, 0, 0}));
  EXPECT_EQ(plan.time, Seconds(18));
  EXPECT_EQ(plan.max_clock_time, Seconds(15));
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].power_limit, Watts(200));
  EXPECT_EQ(plan.stages[1].power_limit, Watts(300));
  using C = PlannedComputation;
  EXPECT_THAT(plan.stages[0].computations, ElementsAre(C{"forward", 0, 0, 0}, C{"forward", 1, 0, 0},
                                                       C{"backward", 0, 0, 0}, C{"backward", 1, 0, 0}));
  fit_to_job(plan, job_of(2, 2), {});
  EXPECT_EQ(plan.order, 0);
  check_board(plan, 0, {}, PowerLimitBounds{Watts(150), Watts(250)});
  expect_input_error(
      [&] {
        check_board(plan, 1, {}, PowerLimitBounds{Watts(150), Watts(250)});
      },
      0, 0, "stage 1 is to run with a power limit of 300 W; its GPU may be set to 150 to 250 W");
}

TEST(PlanToRun, AStageHasOneLimit) {
  expect_input_error(
      [&] {
        (void)read_plan_to_run("plan.json", plan_text(with_limits(), {0, 1, 0, 0}));
      },
      0, 0,
      "stage 0 is to run its first forward with a power limit of 300 W, and a backward with a power "
      "limit of 200 W");
}

TEST(PlanToRun, SaysWhatDoesNotFitTheJob) {
  PlanToRun plan = read_plan_to_run("plan.json", plan_text(with_clocks(), {1, 1, 0, 0}));
  EXPECT_FALSE(plan.stages[0].power_limit.has_value());
  expect_input_error([&] { fit_to_job(plan, job_of(4, 4), {}); }, 0, 0, "the plan has 2 stages, the job 4 stages");
  expect_input_error([&] { fit_to_job(plan, job_of(2, 4), {}); }, 0, 0,
                     "stage 0 has 2 forward in the plan, and 4 in the job (1f1b and 4 microbatches)");
  expect_input_error([&] { fit_to_job(plan, job_of(2, 2, ScheduleKind::kZbH1), {}); }, 0, 0,
                     "stage 0 has 2 backward in the plan, and 0 in the job");
  // Stage 0 runs F0 F1 B0 B1 in both; stage 1 runs F0 B0 F1 B1, and F0 F1 B1 B0 under GPipe.
  expect_input_error([&] { fit_to_job(plan, job_of(2, 2, ScheduleKind::kGpipe), {}); }, 0, 0,
                     "stage 1 is to run backward as computation 2, where schedule gpipe of the job has forward");
  fit_to_job(plan, job_of(2, 2, ScheduleKind::kGpipe), kExecutes);
  EXPECT_NE(plan.order, 0);
  // Stages whose transfers occupy both of them would lock up in it, unless the plan says where these are posted.
  PipelineSpec both = job_of(2, 2, ScheduleKind::kGpipe);
  both.transfers_occupy_both = true;
  expect_input_error([&] { fit_to_job(plan, both, kExecutes); }, 0, 0, "the job does not post transfers");
  expect_input_error([&] { fit_to_job(plan, both, {true, true}); }, 0, 0, "does not say where stages post transfers");
  plan.stages[0].computations[1].transfers = {1, 0, 0, 0};
  fit_to_job(plan, both, {true, true});
  EXPECT_NE(plan.order, 0);
}

TEST(PlanToRun, SaysWhichClockTheBoardLacks) {
  const PlanToRun plan = read_plan_to_run("plan.json", plan_text(with_clocks(), {0, 1, 0, 0}));
  const std::vector<Megahertz> some = {Megahertz(300), Megahertz(100)};
  check_board(plan, 1, some, std::nullopt);
  expect_input_error([&] { check_board(plan, 0, some, std::nullopt); }, 0, 0,
                     "stage 0 is to run backward of microbatch 0 at 200 MHz, a clock that its GPU does not have or "
                     "that the agent allows to nobody; 300 and 100 MHz are next to it");
}

// Perseus's and Kareus's plans: pairs in the order in which a stage runs them.
TEST(PlanToRun, ReadsListsOfClocks) {
  PlanToRun plan = read_plan_to_run("freqs.py", R"(# by hand
[
[('forward', 300), ("forward", 200,), ['backward', 0], ('backward', 200)],
[('forward', 300), ('backward', 300), ('p2p', 0), ('forward', 300), ('backward', 300)],
]
# Iteration 324 total cost: 1224.8
)");
  EXPECT_EQ(plan.max_clock_time, Seconds(0));
  fit_to_job(plan, job_of(2, 2), {});
  using C = PlannedComputation;
  EXPECT_THAT(plan.stages[0].computations, ElementsAre(C{"forward", 0, 0, 300}, C{"forward", 1, 0, 200},
                                                       C{"backward", 0, 0, 0}, C{"backward", 1, 0, 200}));
  EXPECT_THAT(plan.stages[1].computations, ElementsAre(C{"forward", 0, 0, 300}, C{"backward", 0, 0, 300},
                                                       C{"forward", 1, 0, 300}, C{"backward", 1, 0, 300}));
  expect_input_error([&] { fit_to_job(plan, job_of(2, 2, ScheduleKind::kGpipe), kExecutes); }, 0, 0,
                     "stage 1 is to run backward as computation 2, where schedule gpipe of the job has forward");
  // By the profile: a clock of 0 is whichever is fastest.
  const ComputationDag dag = testing::dag_of(with_clocks(), 2);
  const ClockPlan chosen = plan_on(plan, dag);
  const auto option = [&](int stage, const char* instruction, int microbatch) {
    return chosen.at(static_cast<std::size_t>(testing::find_operation(dag, stage, instruction, microbatch)));
  };
  EXPECT_EQ(option(0, "forward", 0), 0);
  EXPECT_EQ(option(0, "forward", 1), 1);
  EXPECT_EQ(option(0, "backward", 0), 0);
  EXPECT_EQ(option(0, "backward", 1), 1);
  EXPECT_EQ(option(1, "forward", 1), 0);
  EXPECT_EQ(option(1, "backward", 1), 0);
  expect_input_error([&] { (void)plan_on(plan, testing::dag_of(with_limits(), 2)); }, 0, 0,
                     "stage 0 is to run forward at 300 MHz, at which the profile has no");
  expect_input_error([&] { (void)plan_on(plan, testing::dag_of(with_clocks(), 3)); }, 0, 0,
                     "stage 0 has other computations than the pipeline, from number 4 on");  // F0 F1 B0 F2
}

TEST(PlanToRun, SaysWhereAListIsWrong) {
  const auto wrong = [](const char* text, std::size_t line, std::size_t column, const char* words) {
    expect_input_error([&] { (void)read_plan_to_run("freqs.py", text); }, line, column, words);
  };
  wrong("[\n[('forward', 300) ('backward', 300)]]", 2, 19, "',' or ']' is missing");
  wrong("[[(forward, 300)]]", 1, 4, "an instruction in quotes is missing");
  wrong("[[('forward', -5)]]", 1, 15, "a clock in whole MHz is missing");
  wrong("[[('forward', 99999999999999999999)]]", 1, 15, "a clock in whole MHz is missing");
  wrong("[[('forward', 300)]", 1, 20, "',' or ']' is missing");
  wrong("[[('forward', 300)]]\nimport os", 2, 1, "something follows the list");
  wrong("[[('forward, 300)]]", 1, 4, "a string has no end");
  wrong("[7]", 1, 2, "'[' is missing");
}

// Kareus's plans and those of Perseus beside them: two stages, eight microbatches in 1F1B, clocks of an A100.
TEST(PlanToRun, ReadsWhatKareusAuthorsPublish) {
  const auto data = testing::shared_data();
  if (!data) GTEST_SKIP() << testing::kNoSharedData;
  std::vector<Megahertz> a100;
  for (int mhz = 1410; mhz >= 210; mhz -= 15) a100.emplace_back(mhz);
  const std::vector<Megahertz> other = {Megahertz(1980), Megahertz(345)};
  int count = 0;
  for (const char* folder : {"kareus", "perseus"}) {
    for (const auto& entry : std::filesystem::directory_iterator(*data / "kareus-osdi26" / folder)) {
      if (!entry.path().filename().string().starts_with("freqs_")) continue;
      SCOPED_TRACE(entry.path().string());
      ++count;
      PlanToRun plan = read_plan_to_run(entry.path());
      fit_to_job(plan, job_of(2, 8), {});
      for (const int stage : {0, 1}) {
        check_board(plan, stage, a100, std::nullopt);
        EXPECT_THROW(check_board(plan, stage, other, std::nullopt), InputError);
      }
      EXPECT_THROW(fit_to_job(plan, job_of(2, 12), {}), InputError);
    }
  }
  EXPECT_EQ(count, 13);
}

}  // namespace
}  // namespace flyball
