// Jobs whose pipelines are not alike: which of them share a plan, and that each plan is as slow as the slowest pipeline
// allows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "plan/stage_clock.h"
#include "plan/straggler.h"
#include "plan/summary.h"
#include "server/job_plan.h"
#include "server/pipeline_groups.h"
#include "server/test_server.h"

namespace flyball::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kSlowRank = 16;  // of eight stages: pipeline 2, its first stage, which takes longest
constexpr int kSlowPipeline = 2;
constexpr double kSlow = 1.05;

JobRequest eight_pipelines() {
  JobRequest job = small_job("eight", 8);
  job.stages = 8;
  job.microbatches = 16;
  return job;
}

// All that a rank measures, in one report; `slow` says how many times as long its computations take.
MeasurementReport report_of(const JobRequest& job, int rank, double slow) {
  MeasurementReport all;
  all.rank = rank;
  for (const MeasurementReport& part : reports_of(job, rank)) {
    for (InstructionMeasurement one : part.measurements) {
      one.time = slow * one.time;
      all.measurements.push_back(std::move(one));
    }
  }
  return all;
}

RankMeasurements measurements_of(const JobRequest& job, int rank, double slow) {
  MeasurementSums sums;
  add_measurements(sums, report_of(job, rank, slow).measurements);
  const RankRequest place = rank_of(job, rank);
  return {rank, place.pp_rank, std::make_shared<MeasurementSums>(std::move(sums)), place.dp_rank};
}

std::vector<RankMeasurements> all_measurements(const JobRequest& job) {
  std::vector<RankMeasurements> ranks;
  for (int rank = 0; rank < job.ranks(); ++rank) {
    ranks.push_back(measurements_of(job, rank, rank == kSlowRank ? kSlow : 1.0));
  }
  return ranks;
}

void profile_eight(Client& client, const JobRequest& job) {
  const std::string path = "/v1/jobs/" + job.id;
  client.post("/v1/jobs", to_json(job), 201);
  for (int rank = 0; rank < job.ranks(); ++rank) {
    client.post(path + "/ranks", to_json(rank_of(job, rank)), 201);
    client.post(path + "/measurements", to_json(report_of(job, rank, rank == kSlowRank ? kSlow : 1.0)));
    (void)client.ask("POST", path + "/ranks/" + std::to_string(rank) + "/profiled", "{}");
  }
}

// One pipeline, planned by the planner alone, without the server.
struct PlannedPipeline {
  PlannedPipeline(const JobRequest& job, const std::vector<RankMeasurements>& ranks)
      : profile(merged_profile("expected", ranks)),
        spec(pipeline_of(job)),
        dag(build_dag(spec, profile)),
        problem(make_problem(dag, spec.blocking_powers(dag.stages(), profile), std::nullopt, CostModel::kHull)),
        frontier(make_planner("perseus")->plan(problem, {}).frontier) {}

  Profile profile;
  PipelineSpec spec;
  ComputationDag dag;
  PlanProblem problem;
  Frontier frontier;
};

std::vector<RankMeasurements> of_pipeline(const std::vector<RankMeasurements>& ranks, int pipeline) {
  std::vector<RankMeasurements> some;
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(some),
               [pipeline](const RankMeasurements& rank) { return rank.pipeline == pipeline; });
  return some;
}

// The expected values come from the planner, which is asked about the profile of one pipeline alone: T' is what the
// slow pipeline takes at maximum clocks, and the others run the plan of their own frontier for T'. A plan for all of
// them is made of the slowest rank of each stage, so that it takes the slow stage to be slow everywhere.
TEST(PipelinePlans, SevenOfEightUseTheTimeOfTheSlowOne) {
  const JobRequest job = eight_pipelines();
  const std::vector<RankMeasurements> ranks = all_measurements(job);
  const PlannedPipeline slow(job, of_pipeline(ranks, kSlowPipeline));
  const PlannedPipeline fast(job, of_pipeline(ranks, 0));
  const PlannedPipeline merged(job, ranks);
  const auto straggler = to_nanoseconds(allowed_time(slow.problem, {}));
  ASSERT_GT(straggler, 1.02 * static_cast<double>(to_nanoseconds(allowed_time(fast.problem, {}))));
  const auto energy_of = [&](const FrontierPoint& point) {
    return energy_with_straggler(point, fast.problem.total_blocking(), straggler).value();
  };
  const Frontier& own = fast.frontier;
  const double by_own = energy_of(own.points()[own.lookup(straggler)]);
  // The clocks of the merged plan, at which seven pipelines are faster than it says, and wait.
  const ClockPlan clocks = merged.frontier.plan(merged.frontier.lookup(straggler));
  const double by_merged = energy_of(replay(fast.dag, fast.problem.blocking, clocks));

  ServerThread server;
  Client client(server.port(), kToken);
  profile_eight(client, job);
  const RankSchedule slow_one = client.schedule(job.id, kSlowRank).value();
  EXPECT_NEAR(slow_one.allowed_time.value(), to_seconds(straggler).value(), 1e-3);
  EXPECT_NEAR(slow_one.max_clock_time.value(), to_seconds(straggler).value(), 1e-9);
  for (const int rank : {0, 13, 63}) {
    const RankSchedule schedule = client.schedule(job.id, rank).value();
    EXPECT_EQ(schedule.allowed_time, slow_one.allowed_time);
    EXPECT_EQ(schedule.max_clock_time, slow_one.max_clock_time);  // they wait at maximum clocks, too
    EXPECT_LE(schedule.iteration_time, slow_one.allowed_time);
    const Seconds rest = slow_one.allowed_time - schedule.iteration_time;
    const double energy = (schedule.iteration_energy + schedule.straggler_power * rest).value();
    EXPECT_NEAR(energy, by_own, 1e-3 * by_own);
    EXPECT_LT(energy, 0.995 * by_merged);
  }
  const JobStatus status = client.status(job.id);
  ASSERT_EQ(status.plans.size(), 2u);
  EXPECT_THAT(status.plans[0].pipelines, ElementsAre(0, 1, 3, 4, 5, 6, 7));
  EXPECT_EQ(status.plans[0].count, 7);
  EXPECT_NEAR(status.plans[0].base_time.value(), allowed_time(fast.problem, {}).value(), 1e-3);
  EXPECT_NEAR(status.plans[0].energy.value(), by_own, 1e-3 * by_own);
  EXPECT_THAT(status.plans[1].pipelines, ElementsAre(kSlowPipeline));
  EXPECT_EQ(status.plans[1].base_time, status.plans[1].allowed_time);
  EXPECT_THAT(Client(server.port()).ask("GET", "/metrics").body, HasSubstr("flyball_server_plans_in_force 2"));
}

// A notice about a pipeline that has time to spare: T' is what it takes at its own base point, times the degree.
TEST(PipelinePlans, AStragglerWithTimeToSpareDelaysNobodyUntilItIsUsedUp) {
  const JobRequest job = eight_pipelines();
  ServerThread server;
  Client client(server.port(), kToken);
  profile_eight(client, job);
  const RankSchedule before = client.schedule(job.id, kSlowRank).value();
  const double spare = before.allowed_time / client.status(job.id).plans.front().base_time;
  ASSERT_GT(spare, 1.02);
  const std::string path = "/v1/jobs/eight/stragglers";
  client.post(path, to_json(StragglerNotice{0, 1.01, Seconds(0), std::nullopt}));
  const RankSchedule within = client.schedule(job.id, 0, before.version).value();
  EXPECT_EQ(within.allowed_time, before.allowed_time);
  EXPECT_LE(1.01 * within.iteration_time, 1.000001 * before.allowed_time);
  client.post(path, to_json(StragglerNotice{0, 1.2, Seconds(0), std::nullopt}));
  const RankSchedule beyond = client.schedule(job.id, kSlowRank, within.version).value();
  EXPECT_NEAR(beyond.allowed_time / before.allowed_time, 1.2 / spare, 1e-6);
  client.post(path, to_json(StragglerNotice{0, 1.0, Seconds(0), std::nullopt}));
  const RankSchedule after = client.schedule(job.id, kSlowRank, beyond.version).value();
  EXPECT_EQ(after.computations, before.computations);
  EXPECT_EQ(after.allowed_time, before.allowed_time);
}

// A pipeline with time to spare has no schedule for its own base point before it is the slowest.
TEST(PipelinePlans, AreKeptWhereClockChangesTakeTime) {
  JobRequest job = eight_pipelines();
  job.microbatches = 4;
  job.switch_latency = Seconds(0.005);
  ServerThread server;
  Client client(server.port(), kToken);
  profile_eight(client, job);
  const RankSchedule before = client.schedule(job.id, 0).value();
  EXPECT_LE(before.iteration_time, before.allowed_time);
  ASSERT_EQ(client.status(job.id).plans.size(), 2u);
  const std::string path = "/v1/jobs/eight/stragglers";
  client.post(path, to_json(StragglerNotice{0, 1.2, Seconds(0), std::nullopt}));
  const RankSchedule slow = client.schedule(job.id, 0, before.version).value();
  const Seconds base = client.status(job.id).plans.front().base_time;
  EXPECT_NEAR(slow.allowed_time / base, 1.2, 1e-6);
  EXPECT_LE(slow.iteration_time, 1.001 * base);
  client.post(path, to_json(StragglerNotice{0, 1.0, Seconds(0), std::nullopt}));
  const RankSchedule after = client.schedule(job.id, 0, slow.version).value();
  EXPECT_EQ(after.computations, before.computations);
}

TEST(PipelinePlans, OutliveTheServerAndRegistrations) {
  const JobRequest job = eight_pipelines();
  const TempFolder folder;
  const std::string database = folder.path() / "server.db";
  RankSchedule before;
  {
    ServerThread server(local_options(database));
    Client client(server.port(), kToken);
    profile_eight(client, job);
    before = client.schedule(job.id, 0).value();
  }
  ServerThread server(local_options(database));
  Client client(server.port(), kToken);
  RankSchedule after = client.schedule(job.id, 0).value();
  EXPECT_EQ(after.version, before.version);
  EXPECT_EQ(after.computations, before.computations);
  EXPECT_EQ(after.allowed_time, before.allowed_time);
  client.post("/v1/jobs/eight/ranks", to_json(rank_of(job, kSlowRank)));  // its process has been started again
  after = client.schedule(job.id, 0).value();
  EXPECT_EQ(after.version, before.version);
  EXPECT_EQ(client.status(job.id).plans.size(), 2u);
}

// Measurements with noise: 20 clocks of two computations on each of 8 stages.
std::vector<RankMeasurements> noisy(const JobRequest& job, double deviation, const std::vector<double>& slow) {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0.0, deviation);
  std::vector<RankMeasurements> ranks;
  for (int rank = 0; rank < job.ranks(); ++rank) {
    const int pipeline = rank / job.stages;
    // The slow GPU of a pipeline is on the stage of the same number.
    const bool is_slow = rank % job.stages == pipeline % job.stages;
    RankMeasurements one = measurements_of(job, rank, is_slow ? slow[static_cast<std::size_t>(pipeline)] : 1.0);
    auto sums = std::make_shared<MeasurementSums>(*one.sums);
    for (MeasurementSum& sum : *sums) sum.time = (1.0 + noise(random)) * sum.time;
    one.sums = std::move(sums);
    ranks.push_back(std::move(one));
  }
  return ranks;
}

TEST(PipelineGroups, NoiseMakesNone) {
  const JobRequest job = eight_pipelines();
  for (const double deviation : {0.0, 0.003, 0.05}) {
    EXPECT_THAT(group_pipelines(noisy(job, deviation, std::vector<double>(8, 1.0)), 8, 8), Each(0)) << deviation;
  }
}

TEST(PipelineGroups, SlowGpusMakeThem) {
  const JobRequest job = eight_pipelines();
  const auto ranks = noisy(job, 0.003, {1.0, 1.05, 1.0, 1.0, 1.008, 1.0, 1.02, 1.0});
  EXPECT_THAT(group_pipelines(ranks, 8, 8), ElementsAre(0, 1, 0, 0, 0, 0, 2, 0));
  EXPECT_THAT(group_pipelines(ranks, 8, 2), ElementsAre(0, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(group_pipelines(ranks, 8, 1), Each(0));
  // Of a group, the slowest rank counts; what it has not measured comes from all.
  const std::vector<RankMeasurements> some = ranks_of_group({ranks[0], ranks[1], ranks[8]}, {0, 1}, 1);
  ASSERT_EQ(some.size(), 2u);
  EXPECT_EQ(some[0].rank, 1);
  EXPECT_EQ(some[1].rank, 8);
}

// Plans that would take too long to make, or too much room, are not made.
TEST(PipelineGroups, AreFewOfLargeJobs) {
  JobRequest job = eight_pipelines();
  EXPECT_EQ(most_own_plans(job, kMostServerOperations), 8u);
  EXPECT_EQ(most_own_plans(job, std::int64_t{3} * 8 * 16 * 4), 4u);
  EXPECT_EQ(most_own_plans(job, 0), 0u);
  job.microbatches = 20'000;
  EXPECT_EQ(most_own_plans(job, kMostServerOperations), 0u);
}

}  // namespace
}  // namespace flyball::testing
