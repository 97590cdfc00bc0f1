// What a job is promised whose operations do not always take the same.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "server/job_plan.h"
#include "server/test_server.h"

namespace flyball::testing {
namespace {

// The plan of eight stages of which every forward has a standard deviation of this share of its time.
std::shared_ptr<const JobPlan> plan_of_scatter(double share, const JobRequest& job) {
  std::vector<RankMeasurements> ranks;
  for (int rank = 0; rank < job.ranks(); ++rank) {
    auto sums = std::make_shared<MeasurementSums>();
    for (MeasurementReport& report : reports_of(job, rank)) {
      for (InstructionMeasurement& one : report.measurements) {
        if (one.instruction == "forward") one.time_deviation = share * one.time;
      }
      add_measurements(*sums, report.measurements);
    }
    ranks.push_back({rank, rank_of(job, rank).pp_rank, std::move(sums)});
  }
  return JobPlan::make(job.id, job, ranks, [](double) { return true; });
}

JobPlan::Schedule base_schedule(const JobPlan& plan) {
  const JobPlan::Run run{plan.base_point(), plan.base_time()};
  plan.prepare(run);
  return plan.schedule(run);
}

JobRequest eight_stages() {
  JobRequest job = small_job("scatters");
  job.switch_latency = Seconds(0.008);
  job.stages = 8;
  job.microbatches = 16;
  return job;
}

// Where clock changes take time, clocks are raised if what scatters would make the plan more than half a per cent later
// than it makes maximum clocks; what is left of it is promised, and its energy.
TEST(Scatter, IsPromisedAndBounded) {
  const JobRequest job = eight_stages();
  const auto constant = plan_of_scatter(0.0, job);
  const auto scattering = plan_of_scatter(0.1, job);
  const JobPlan::Schedule before = base_schedule(*constant);
  const JobPlan::Schedule after = base_schedule(*scattering);
  EXPECT_EQ(before.lateness, Seconds(0));
  EXPECT_GT(after.lateness, Seconds(0));
  EXPECT_GT(after.time, before.time);
  EXPECT_LE(after.time, 1.005 * scattering->max_clock_time_in_order());
  EXPECT_GT(after.energy, before.energy);
  // Maximum clocks wait for what scatters, too.
  const FrontierReport quiet = constant->report();
  const FrontierReport noisy = scattering->report();
  EXPECT_GT(noisy.max_clock_time, quiet.max_clock_time);
  const Joules waited = noisy.max_clock_straggler_power * (noisy.max_clock_time - quiet.max_clock_time);
  EXPECT_NEAR(noisy.max_clock_energy.value(), (quiet.max_clock_energy + waited).value(), 1e-6);
}

// Computations of a real GPU scatter by some tenths of a per cent, which changes nothing.
TEST(Scatter, OfAFractionOfAPercentChangesNothing) {
  const JobRequest job = eight_stages();
  const JobPlan::Schedule before = base_schedule(*plan_of_scatter(0.0, job));
  const JobPlan::Schedule after = base_schedule(*plan_of_scatter(0.003, job));
  EXPECT_EQ(after.time, before.time);
  EXPECT_EQ(after.energy, before.energy);
  EXPECT_EQ(after.stages, before.stages);
}

// A job that allows a tenth more time has it, whatever scatters.
TEST(Scatter, LeavesATargetTimeItsSlack) {
  JobRequest job = eight_stages();
  const Seconds at_maximum = plan_of_scatter(0.1, job)->max_clock_time_in_order();
  job.target_time = 1.1 * at_maximum;
  const JobPlan::Schedule slower = base_schedule(*plan_of_scatter(0.1, job));
  EXPECT_GT(slower.time, 1.05 * at_maximum);
  EXPECT_LE(slower.time, 1.1 * 1.006 * at_maximum);
}

}  // namespace
}  // namespace flyball::testing
