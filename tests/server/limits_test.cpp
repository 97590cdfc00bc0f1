// Jobs with limits on their power: the plan inside, what is told where there is none, and budgets whose time comes.
//
// The job of most tests has two stages. Every forward and backward takes 0.1, 0.11 or 0.125 s at 1400, 1200 or 1000 MHz
// and draws 400, 300 or 200 W; a stage that waits draws 50 W.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/index.h"
#include "base/record.h"
#include "base/wall_clock.h"
#include "pipeline/pipeline_spec.h"
#include "pipeline/power_curve.h"
#include "server/job_plan.h"
#include "server/limited_plan.h"
#include "server/measurements.h"
#include "server/test_server.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace testing;

JobRequest two_stages(const std::string& id, int microbatches) {
  JobRequest job = small_job(id);
  job.microbatches = microbatches;
  job.blocking_power = {Watts(50)};
  return job;
}

void measure(Client& client, const JobRequest& job) {
  const std::string path = "/v1/jobs/" + job.id;
  client.post("/v1/jobs", to_json(job), 201);
  for (int rank = 0; rank < job.ranks(); ++rank) {
    RankRequest place{rank,
                      rank / (job.stages * job.tensor_parallel),
                      rank / job.tensor_parallel % job.stages,
                      rank % job.tensor_parallel,
                      {}};
    client.post(path + "/ranks", to_json(place), 201);
    MeasurementReport report{rank, 0, {}};
    for (const char* instruction : {"forward", "backward"}) {
      report.measurements.push_back({instruction, Megahertz(1400), Seconds(0.1), Joules(40), 5});
      report.measurements.push_back({instruction, Megahertz(1200), Seconds(0.11), Joules(33), 5});
      report.measurements.push_back({instruction, Megahertz(1000), Seconds(0.125), Joules(25), 5});
    }
    client.post(path + "/measurements", to_json(report));
    const Response done = client.ask("POST", path + "/ranks/" + std::to_string(rank) + "/profiled", "{}");
    EXPECT_EQ(done.status, 204u) << done.body;
  }
}

std::vector<int> clocks_of(const std::optional<RankSchedule>& schedule) {
  std::vector<int> clocks;
  if (!schedule) return clocks;
  for (const ScheduledComputation& one : schedule->computations) clocks.push_back(one.clock_mhz);
  return clocks;
}

// Two microbatches. At 1400 MHz an iteration takes 0.6 s, and twice, for 0.1 s, both stages compute: 800 W. The second
// forward and the first backward of stage 0 may take longer; at 1000 MHz they overlap with the other stage's 400 W:
//   0 450 W, 0.1 600, 0.225 450, 0.3 600, 0.425 450, until 0.6 s
// which is 307.5 J, or 512.5 W in the mean.
TEST(JobLimits, PowerIsShownWithoutThem) {
  ServerThread server;
  Client client(server.port(), kToken);
  measure(client, two_stages("job", 2));
  ASSERT_TRUE(client.schedule("job", 0));
  const auto power = client.status("job").power;
  ASSERT_TRUE(power);
  EXPECT_FALSE(power->max_power);
  EXPECT_TRUE(power->kept);
  EXPECT_NEAR(power->mean.value(), 512.5, 1e-6);
  EXPECT_NEAR(power->peak.value(), 600.0, 1e-6);
  EXPECT_NEAR(power->greatest_step.value(), 150.0, 1e-6);
  EXPECT_NEAR(power->max_clock_peak.value(), 800.0, 1e-6);
}

// With one microbatch, one stage computes after the other. Below 350 W for each of four copies the fastest is 1200 MHz
// throughout: 0.44 s at 300 W + 50 W, without any step.
TEST(JobLimits, TheFastestPlanInsideRuns) {
  ServerThread server;
  Client client(server.port(), kToken);
  JobRequest job = two_stages("job", 1);
  job.data_parallel = job.tensor_parallel = 2;
  job.limits.max_power = Watts(1400.5);
  measure(client, job);
  const auto schedule = client.schedule("job", 0);
  ASSERT_TRUE(schedule);
  EXPECT_THAT(clocks_of(schedule), ElementsAre(1200, 1200));
  EXPECT_NEAR(schedule->iteration_time.value(), 0.44, 1e-9);
  EXPECT_EQ(schedule->max_clock_time, Seconds(0)) << "ranks must not find it too slow and go to maximum clocks";
  const JobStatus status = client.status("job");
  EXPECT_EQ(status.trouble, "");
  ASSERT_TRUE(status.power);
  EXPECT_EQ(status.power->max_power, Watts(1400.5));
  EXPECT_TRUE(status.power->kept);
  EXPECT_NEAR(status.power->peak.value(), 1400.0, 1e-6);
  EXPECT_NEAR(status.power->mean.value(), 1400.0, 1e-6);
  EXPECT_NEAR(status.power->greatest_step.value(), 0.0, 1e-6);
  EXPECT_NEAR(status.power->max_clock_peak.value(), 1800.0, 1e-6);
  EXPECT_EQ(client.get("/v1/jobs/job/frontier").at("limited_by"), "power");

  // A straggler that takes 0.5 s gives time for 1000 MHz, which is inside as well.
  client.post("/v1/jobs/job/stragglers", to_json(StragglerNotice{std::string("rack"), 0.5 / 0.44, Seconds(0), {}}));
  EXPECT_THAT(clocks_of(client.schedule("job", 0, schedule->version)), ElementsAre(1000, 1000));
}

// A limit that the plan keeps to anyway changes nothing.
TEST(JobLimits, ThatDoNotBindChangeNothing) {
  ServerThread server;
  Client client(server.port(), kToken);
  const JobRequest job = two_stages("free", 2);
  measure(client, job);
  JobRequest wide = two_stages("wide", 2);
  wide.limits.max_power = Watts(601);
  measure(client, wide);
  EXPECT_EQ(clocks_of(client.schedule("wide", 0)), clocks_of(client.schedule("free", 0)));
  EXPECT_EQ(clocks_of(client.schedule("wide", 1)), clocks_of(client.schedule("free", 1)));
  EXPECT_EQ(client.get("/v1/jobs/wide/frontier").at("limited_by"), "baseline_time");
}

// 200 W + 50 W are the least that two stages can draw.
TEST(JobLimits, ThatNoPlanKeepsAreTold) {
  ServerThread server;
  Client client(server.port(), kToken);
  JobRequest job = two_stages("job", 1);
  job.limits.max_power = Watts(249);
  measure(client, job);
  const auto schedule = client.schedule("job", 0);
  EXPECT_THAT(clocks_of(schedule), ElementsAre(1000, 1000));
  const JobStatus status = client.status("job");
  EXPECT_EQ(status.state, JobState::kReady);
  EXPECT_THAT(status.trouble, HasSubstr("no plan was found that never draws more than 249.0 W"));
  EXPECT_THAT(status.trouble, HasSubstr("the lowest peak that was found is 250.0 W"));
  ASSERT_TRUE(status.power);
  EXPECT_FALSE(status.power->kept);
  EXPECT_NEAR(status.power->least_peak.value_or(Watts(0)).value(), 250.0, 1e-6);
  EXPECT_THAT(client.ask("GET", "/metrics").body, HasSubstr("flyball_server_jobs_over_limits 1\n"));
  EXPECT_NEAR(status.power->peak.value(), 250.0, 1e-6);
}

// One microbatch at one clock draws the same all the time. Of two microbatches some operations overlap, others do not,
// so that a ramp of almost nothing cannot be kept.
TEST(JobLimits, HoldForRamps) {
  ServerThread server;
  Client client(server.port(), kToken);
  JobRequest job = two_stages("level", 1);
  job.limits.max_ramp_w_per_s = 0.01;
  job.limits.ramp_window = Seconds(0.1);
  measure(client, job);
  EXPECT_THAT(clocks_of(client.schedule("level", 0)), ElementsAre(1400, 1400));
  EXPECT_EQ(client.status("level").trouble, "");
  EXPECT_NEAR(client.status("level").power->ramp_w_per_s, 0.0, 1e-6);
  job.id = "steep";
  job.microbatches = 2;
  measure(client, job);
  ASSERT_TRUE(client.schedule("steep", 0));
  const JobStatus status = client.status("steep");
  EXPECT_THAT(status.trouble,
              HasSubstr("changes its power by at most 0.01 W/s: the ranks run the one of the lowest ramp"));
  EXPECT_FALSE(status.power->kept);
  EXPECT_GT(status.power->ramp_w_per_s, 0.01);
}

// The schedules that ranks get, replayed on the measured options.
PowerCurve replayed(Client& client, const JobRequest& job) {
  SynthRequest synth;
  synth.stages = job.stages;
  const Profile profile = synthesize_profile(synth).profile;
  PipelineSpec spec = pipeline_of(job);
  const ComputationDag dag = build_dag(spec, profile);
  ClockPlan plan(at(dag.size()));
  for (int stage = 0; stage < job.stages; ++stage) {
    const std::vector<int> clocks = clocks_of(client.schedule(job.id, stage));
    EXPECT_EQ(clocks.size(), dag.stage_order(stage).size());
    for (std::size_t k = 0; k < clocks.size(); ++k) {
      const int i = dag.stage_order(stage)[k];
      const auto& options = dag.type_of(i).options;
      plan[at(i)] = static_cast<ClockPlan::value_type>(
          std::find_if(options.begin(), options.end(),
                       [&](const ClockOption& one) { return one.frequency == Megahertz(clocks[k]); }) -
          options.begin());
    }
  }
  return power_curve(dag, plan, std::vector<Watts>(at(job.stages), job.blocking_power.at(0)),
                     job.data_parallel * job.tensor_parallel);
}

// The shipped GPT-3 1.3B, with free clock changes and with late ones.
TEST(JobLimits, SchedulesStayBelowWhenTheyAreReplayed) {
  ServerThread server;
  Client client(server.port(), kToken);
  JobRequest job = small_job("free");
  job.blocking_power = {Watts(75)};
  run_profiling(client, job);
  const Watts before = peak_of(replayed(client, job));
  for (const double share : {0.95, 0.9, 0.85}) {
    for (const double latency : {0.0, 0.02}) {
      job.id = "job-" + std::to_string(share) + "-" + std::to_string(latency);
      job.switch_latency = Seconds(latency);
      job.limits.max_power = share * before;
      run_profiling(client, job);
      EXPECT_LE(peak_of(replayed(client, job)), *job.limits.max_power);
      const JobStatus status = client.status(job.id);
      ASSERT_TRUE(status.power);
      EXPECT_TRUE(status.power->kept) << status.trouble;
      EXPECT_LE(status.power->peak, *job.limits.max_power);
    }
  }
}

std::vector<RankMeasurements> measured_stages() {
  const auto sums = std::make_shared<MeasurementSums>();
  std::vector<InstructionMeasurement> all;
  for (const char* instruction : {"forward", "backward"}) {
    all.push_back({instruction, Megahertz(1400), Seconds(0.1), Joules(40), 1});
    all.push_back({instruction, Megahertz(1200), Seconds(0.11), Joules(33), 1});
    all.push_back({instruction, Megahertz(1000), Seconds(0.125), Joules(25), 1});
  }
  add_measurements(*sums, all);
  return {{0, 0, sums}, {1, 1, sums}};
}

std::shared_ptr<const JobPlan> plan_below(const JobRequest& job, double watts,
                                          const std::function<bool()>& out_of_time = {}) {
  JobPowerLimits limits;
  limits.peak = Watts(watts);
  return JobPlan::make(
      job.id, job, measured_stages(), [](double) { return true; }, std::nullopt, {}, out_of_time,
      ClocksAsked::kWhenFree, OrderSeen::kAsTold, limits);
}

std::set<int> clocks_of(const JobPlan& plan) {
  std::set<int> clocks;
  for (const auto& stage : plan.schedule({plan.base_point(), plan.frontier().time(plan.base_point())}).stages) {
    for (const ScheduledComputation& one : stage) clocks.insert(one.clock_mhz);
  }
  return clocks;
}

// When the time that a plan may take is over, nothing has been searched for: every computation draws the least that it
// can, 250 W in all.
TEST(LimitedPlan, OutOfTimeEverythingDrawsLeast) {
  const auto plan = plan_below(two_stages("job", 1), 351, [] { return true; });
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->status(), PlanStatus::kIncomplete);
  EXPECT_FALSE(plan->keeps_limits());
  EXPECT_THAT(clocks_of(*plan), ElementsAre(1000));
  EXPECT_NEAR(plan->power()->peak.value(), 250.0, 1e-6);
  EXPECT_TRUE(plan->power()->kept);
  ASSERT_EQ(plan->warnings().size(), 1u);
  EXPECT_THAT(plan->warnings().front(), HasSubstr("--planning-time"));
}

// With two microbatches both stages compute at once. Clock changes that come 0.06 s late, in the middle of what
// follows, mix the powers of two clocks.
TEST(LimitedPlan, LateChangesAreInside) {
  JobRequest job = two_stages("job", 2);
  job.switch_latency = Seconds(0.06);
  for (int watts = 400; watts <= 800; watts += 25) {
    const auto plan = plan_below(job, watts);
    ASSERT_TRUE(plan && plan->power());
    EXPECT_TRUE(plan->keeps_limits()) << watts;
    EXPECT_LE(plan->power()->peak.value(), watts * (1.0 + 1e-9)) << watts;
  }
  // Changes would make a plan draw more than 400 W for some time, which all at 1000 MHz never do.
  const auto below_all = plan_below(job, 399);
  EXPECT_FALSE(below_all->keeps_limits());
  EXPECT_THAT(clocks_of(*below_all), ElementsAre(1000));
  EXPECT_NEAR(below_all->power()->peak.value(), 400.0, 1e-6);
  EXPECT_NEAR(below_all->power()->least_peak->value(), 400.0, 1e-6);
}

// Four stages whose order is free: the planner keeps to the limit in the order that it has chosen.
TEST(JobLimits, HoldInAnOrderOfThePlanners) {
  ServerThread server;
  Client client(server.port(), kToken);
  JobRequest job = small_job("free");
  job.stages = 4;
  job.microbatches = 6;
  job.executes_order = true;
  job.memory_limit = {6};
  run_profiling(client, job);
  const auto free = client.schedule("free", 0);
  ASSERT_TRUE(free);
  EXPECT_NE(free->order, 0);
  const Watts before = client.status("free").power->peak;
  job.id = "job";
  job.limits.max_power = 0.97 * before;
  run_profiling(client, job);
  ASSERT_TRUE(client.schedule("job", 0));
  const JobStatus status = client.status("job");
  EXPECT_EQ(status.planner, "joint");
  EXPECT_TRUE(status.power->kept);
  EXPECT_LE(status.power->peak, *job.limits.max_power);
}

Response put(Client& client, const JobLimits& limits) {
  return client.ask("PUT", "/v1/jobs/job/limits", to_json(limits).dump());
}

// 1400 MHz without limits, 1000 MHz below 250 W, 1200 MHz below 350 W. A limit is lifted when its period has ended, and
// the plan for a lower one is there before its time.
TEST(JobLimits, ABudgetComesIntoForceWhenItsTimeComes) {
  ServerThread server;
  Client client(server.port(), kToken);
  const JobRequest job = two_stages("job", 1);
  measure(client, job);
  auto newest = client.schedule("job", 0);
  const auto budget = [&](double from, double until, double watts) {
    JobLimits limits;
    limits.budget = {{Seconds(from), Seconds(until), Watts(watts)}};
    EXPECT_EQ(put(client, limits).status, 200u);
  };
  const auto comes_to = [&](int clock) {
    for (int i = 0; i < 4 && newest; ++i) {
      if (clocks_of(newest) == std::vector<int>{clock, clock}) return true;
      newest = client.schedule("job", 0, newest->version);
    }
    return false;
  };
  EXPECT_TRUE(comes_to(1400));
  budget(now_seconds() - 100, now_seconds() + 1000, 250);
  EXPECT_TRUE(comes_to(1000));
  const double end = now_seconds() + 2;
  budget(now_seconds() - 100, end, 250);
  EXPECT_TRUE(comes_to(1400));
  EXPECT_GE(now_seconds(), end);
  const double begin = now_seconds() + 6;
  budget(begin, begin + 1000, 350);
  EXPECT_TRUE(comes_to(1200));
  EXPECT_LT(now_seconds(), begin);
  const auto power = client.status("job").power;
  ASSERT_TRUE(power);
  EXPECT_EQ(power->max_power, Watts(350));
}

TEST(JobLimits, HoldAfterARestart) {
  const TempFolder folder;
  const PlanningServerOptions options = local_options(folder / "server.db");
  auto server = std::make_unique<ServerProcess>(options);
  auto client = std::make_unique<Client>(server->port(), kToken);
  JobRequest job = two_stages("job", 1);
  job.limits.max_power = Watts(351);
  measure(*client, job);
  const auto before = client->schedule("job", 0);
  ASSERT_TRUE(before);
  server->kill();
  server = std::make_unique<ServerProcess>(options);
  client = std::make_unique<Client>(server->port(), kToken);
  const auto after = client->schedule("job", 0);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->version, before->version);
  EXPECT_THAT(clocks_of(after), ElementsAre(1200, 1200));
  EXPECT_EQ(client->status("job").power->max_power, Watts(351));
}

// Seconds 100 to 200 at 300 W, 200 to 300 at 200 W; 250 W at all times.
TEST(LimitsBetween, LooksAheadForTheLowest) {
  JobLimits limits;
  limits.max_power = Watts(250);
  limits.budget = {{Seconds(100), Seconds(200), Watts(300)}, {Seconds(200), Seconds(300), Watts(200)}};
  const auto peak = [&](double now) { return limits_between(limits, now, Seconds(10)).peak->value(); };
  EXPECT_EQ(peak(50), 250);
  EXPECT_EQ(peak(150), 250);
  EXPECT_EQ(peak(189.9), 250);
  EXPECT_EQ(peak(190), 200);
  EXPECT_EQ(peak(299), 200);
  EXPECT_EQ(peak(300), 250);
  EXPECT_EQ(next_change(limits, 50, Seconds(10)), 90.0);
  EXPECT_EQ(next_change(limits, 195, Seconds(10)), 200.0);
  EXPECT_EQ(next_change(limits, 200, Seconds(10)), 300.0);
  EXPECT_FALSE(next_change(limits, 300, Seconds(10)));
}

std::string with_limits(const std::string& limits) {
  return R"({"id": "job", "stages": 2, "microbatches": 1, "limits": )" + limits + "}";
}

TEST(JobLimits, OfStrangersAreRefused) {
  ServerThread server;
  Client client(server.port());
  const auto refused = [&](const std::string& limits, const char* words) {
    const Response response = client.ask("POST", "/v1/jobs", with_limits(limits));
    EXPECT_EQ(response.status, 400u) << limits;
    EXPECT_THAT(response.body, HasSubstr(words)) << limits;
  };
  for (const char* power : {"-1", "0", "1e300", R"("900")", "true", "[900]", "{}"}) {
    refused(R"({"max_power_w": )" + std::string(power) + "}", "max_power_w");
  }
  for (const char* power : {"NaN", "Infinity", "1e999"}) {
    const Response response =
        client.ask("POST", "/v1/jobs", with_limits(R"({"max_power_w": )" + std::string(power) + "}"));
    EXPECT_EQ(response.status, 400u) << power;
  }
  refused(R"({"max_ramp_w_per_s": -5})", "max_ramp_w_per_s");
  refused(R"({"ramp_window_s": 0})", "ramp_window_s");
  refused(R"({"most": 1})", "most");
  refused("7", "limits");
  refused(R"({"budget": 7})", "budget");
  refused(R"({"budget": [{"from_unix_s": 5, "until_unix_s": 5, "power_w": 9}]})", "until_unix_s");
  refused(R"({"budget": [{"from_unix_s": 5, "until_unix_s": 7, "power_w": 0}]})", "power_w");
  refused(R"({"budget": [{"from_unix_s": -5, "until_unix_s": 7, "power_w": 9}]})", "from_unix_s");
  refused(R"({"budget": [{"from_unix_s": 5, "until_unix_s": 7}]})", "power_w");
  refused(R"({"budget": [{"from_unix_s": 5, "until_unix_s": 7, "power_w": 9},
                         {"from_unix_s": 6, "until_unix_s": 8, "power_w": 9}]})",
          "overlap");
  std::string many = "[";
  for (int i = 0; i < 513; ++i) {
    many += (i > 0 ? "," : "") + std::string(R"({"from_unix_s":)") + std::to_string(i) + R"(,"until_unix_s":)" +
            std::to_string(i + 1) + R"(,"power_w":9})";
  }
  refused(R"({"budget": )" + many + "]}", "budget");
  const Response envpipe = client.ask(
      "POST", "/v1/jobs", R"({"stages": 2, "microbatches": 4, "planner": "envpipe", "limits": {"max_power_w": 900}})");
  EXPECT_EQ(envpipe.status, 400u);
  EXPECT_THAT(envpipe.body, HasSubstr("kept by planners perseus and joint"));
}

JobLimits below(double watts) {
  JobLimits limits;
  limits.max_power = Watts(watts);
  return limits;
}

// An operator lowers the limit of a running job, lowers it too far, and takes it back; the server remembers the last
// limit when it is started again.
TEST(SetLimits, ARunningJobIsPlannedAnew) {
  const TempFolder folder;
  const PlanningServerOptions options = local_options(folder / "server.db");
  auto server = std::make_unique<ServerProcess>(options);
  auto client = std::make_unique<Client>(server->port(), kToken);
  JobRequest job = two_stages("job", 1);
  job.limits.max_power = Watts(1000);
  measure(*client, job);
  auto schedule = client->schedule("job", 0);
  EXPECT_THAT(clocks_of(schedule), ElementsAre(1400, 1400));
  const auto next = [&] {
    const std::int64_t before = schedule ? schedule->version : 0;
    schedule = client->schedule("job", 0, before);
    EXPECT_TRUE(schedule && schedule->version > before);
    return clocks_of(schedule);
  };
  EXPECT_EQ(put(*client, below(351)).status, 200u);
  EXPECT_THAT(next(), ElementsAre(1200, 1200));
  EXPECT_EQ(client->status("job").power->max_power, Watts(351));
  EXPECT_NEAR(client->status("job").power->peak.value(), 350.0, 1e-6);
  EXPECT_EQ(put(*client, below(100)).status, 200u);
  EXPECT_THAT(next(), ElementsAre(1000, 1000));
  EXPECT_THAT(client->status("job").trouble, HasSubstr("no plan was found"));
  EXPECT_EQ(put(*client, {}).status, 200u);
  EXPECT_THAT(next(), ElementsAre(1400, 1400));
  EXPECT_EQ(client->status("job").trouble, "");
  EXPECT_FALSE(client->status("job").power->max_power);
  // While a rank measures again, it counts with what it had measured before.
  client->post("/v1/jobs/job/measurements",
               to_json(MeasurementReport{0, 1, {{"forward", Megahertz(1400), Seconds(0.1), Joules(40), 5}}, true}));
  EXPECT_EQ(put(*client, below(351)).status, 200u);
  EXPECT_THAT(next(), ElementsAre(1200, 1200));
  EXPECT_EQ(client->status("job").trouble, "");

  server->kill();
  server = std::make_unique<ServerProcess>(options);
  client = std::make_unique<Client>(server->port(), kToken);
  const auto after = client->schedule("job", 0);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->version, schedule->version);
  EXPECT_THAT(clocks_of(after), ElementsAre(1200, 1200));
  EXPECT_EQ(read_message<JobLimits>(client->get("/v1/jobs/job/limits")), below(351));
  // The registration is still the same one.
  client->post("/v1/jobs", to_json(job), 200);
  EXPECT_EQ(read_message<JobLimits>(client->get("/v1/jobs/job/limits")), below(351));
}

// 200 W + 50 W are the least that two stages can draw: a later period of 240 W is told before it begins.
TEST(SetLimits, ABudgetThatNoPlanWillKeepIsToldBefore) {
  ServerThread server;
  Client client(server.port(), kToken);
  measure(client, two_stages("job", 1));
  const auto version = client.schedule("job", 0)->version;
  JobLimits limits;
  const double now = now_seconds();
  limits.budget = {{Seconds(now + 1000), Seconds(now + 2000), Watts(251)},
                   {Seconds(now + 3000), Seconds(now + 4000), Watts(240)}};
  EXPECT_EQ(put(client, limits).status, 200u);
  const JobStatus status = client.status("job");
  EXPECT_EQ(status.version, version);
  EXPECT_THAT(status.trouble, HasSubstr("the budget allows 240.0 W"));
  EXPECT_THAT(status.trouble, HasSubstr("the job's peak is 250.0 W"));
  ASSERT_TRUE(status.power && status.power->limit_changes_after);
  EXPECT_NEAR(status.power->limit_changes_after->value(), 1000, 60);
  EXPECT_THAT(client.ask("GET", "/metrics").body, HasSubstr("flyball_server_jobs_over_limits 0\n"));
}

TEST(SetLimits, TakesTheJobsToken) {
  ServerThread server;
  Client client(server.port(), kToken);
  measure(client, two_stages("job", 1));
  Client nobody(server.port());
  EXPECT_EQ(put(nobody, below(300)).status, 401u);
  EXPECT_EQ(nobody.ask("GET", "/v1/jobs/job/limits").status, 401u);
  Client stranger(server.port(), std::string(32, 'x'));
  EXPECT_EQ(put(stranger, below(300)).status, 403u);
  EXPECT_EQ(client.ask("PUT", "/v1/jobs/other/limits", "{}").status, 404u);
  EXPECT_EQ(client.ask("POST", "/v1/jobs/job/limits", "{}").status, 405u);
  EXPECT_EQ(read_message<JobLimits>(client.get("/v1/jobs/job/limits")), JobLimits{});
}

TEST(SetLimits, RefusesWhatMakesNoSense) {
  ServerThread server;
  Client client(server.port(), kToken);
  JobRequest job = two_stages("job", 1);
  job.limits.max_power = Watts(351);
  measure(client, job);
  const auto version = client.schedule("job", 0)->version;
  const auto answer = [&](const std::string& body) { return client.ask("PUT", "/v1/jobs/job/limits", body).status; };
  for (const char* body : {"", "{", "7", "[]", "null", R"({"max_power_w": -1})", R"({"max_power_w": NaN})",
                           R"({"max_power_w": 1e999})", R"({"max_power_w": "9"})", R"({"limits": {}})",
                           R"({"budget": [[1, 2, 3]]})", R"({"budget": {"from_unix_s": 1}})"}) {
    EXPECT_EQ(answer(body), 400u) << body;
  }
  std::string many = R"({"budget": [)";
  for (int i = 0; i < 1'000'000; ++i) many += R"({"from_unix_s":1,"until_unix_s":2,"power_w":9},)";
  Client another(server.port(), kToken);
  unsigned status = 0;
  try {
    status = another.ask("PUT", "/v1/jobs/job/limits", many + "0]}").status;
  } catch (const Error&) {
    status = 413;  // the server closed the connection before all was sent
  }
  EXPECT_EQ(status, 413u);
  EXPECT_EQ(answer(many.substr(0, 100'000) + "0]}"), 413u);
  EXPECT_EQ(client.status("job").power->max_power, Watts(351));
  EXPECT_EQ(client.status("job").version, version);

  JobRequest envpipe = two_stages("envpipe", 1);
  envpipe.planner = "envpipe";
  client.post("/v1/jobs", to_json(envpipe), 201);
  const Response refused = client.ask("PUT", "/v1/jobs/envpipe/limits", to_json(below(300)).dump());
  EXPECT_EQ(refused.status, 400u);
  EXPECT_THAT(refused.body, HasSubstr("kept by planners perseus and joint"));
  EXPECT_EQ(client.ask("PUT", "/v1/jobs/envpipe/limits", "{}").status, 200u);
}

}  // namespace
}  // namespace flyball
