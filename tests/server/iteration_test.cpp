// A job's last iteration as it was measured, beside what was planned. The ranks of these tests take what their profile
// says, so that every difference to the plan is one that a test has put there.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/record.h"
#include "server/reporting_ranks.h"
#include "server/test_server.h"
#include "wire/iteration_messages.h"

namespace flyball {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using namespace testing;

// Times of a profile are whole nanoseconds but for what means of five runs round.
constexpr double kRounding = 2e-8;

JobRequest four_stages(const std::string& planner = {}) {
  JobRequest job = small_job();
  job.stages = 4;
  job.microbatches = 6;
  job.planner = planner;
  return job;
}

class IterationTest : public ::testing::Test {
 protected:
  IterationTest() : client_(server_.port(), kToken) {}

  Response asked() { return client_.ask("GET", "/v1/jobs/job/iteration"); }
  MeasuredIteration told() { return read_message<MeasuredIteration>(client_.get("/v1/jobs/job/iteration")); }
  Response report(const nlohmann::ordered_json& report) {
    return client_.ask("POST", "/v1/jobs/job/steps", report.dump());
  }

  ServerThread server_;
  Client client_;
};

// The number of the operation that a stage's schedule has at some place: stages' operations stand in their order.
std::size_t operation_at(const MeasuredIteration& told, int stage, std::size_t place) {
  for (std::size_t i = 0; i < told.operations.type.size(); ++i) {
    const IterationType& type = told.types[static_cast<std::size_t>(told.operations.type[i])];
    if (type.stage == stage && told.operations.measured_begin[i] && place-- == 0) return i;
  }
  ADD_FAILURE() << "stage " << stage << " has no operation at that place";
  return 0;
}

TEST_F(IterationTest, RunAsPlannedIsThePlansTimeline) {
  const JobRequest job = four_stages();
  run_profiling(client_, job);
  Ranks ranks(client_, job);
  ASSERT_TRUE(ranks.fetch());
  EXPECT_THAT(told().missing, HasSubstr("no iteration by a schedule has been reported yet"));
  const std::vector<StepReport> reports = ranks.run(41);
  for (int rank = 0; rank < 3; ++rank) ranks.report(reports[static_cast<std::size_t>(rank)]);
  EXPECT_THAT(told().missing, HasSubstr("reported yet")) << "a stage is missing";
  StepReport last = reports[3];
  last.clock = StepClock::kDevice;
  ranks.report(last);

  const MeasuredIteration one = told();
  EXPECT_EQ(one.missing, "");
  EXPECT_EQ(one.job, "job");
  EXPECT_EQ(one.version, ranks.version());
  EXPECT_EQ(one.step, 41);
  EXPECT_NEAR(one.promised_time.value(), ranks.schedules()[0].allowed_time.value(), 1e-9);
  EXPECT_NEAR(one.planned_time.value(), ranks.schedules()[0].iteration_time.value(), kRounding);
  EXPECT_NEAR(one.measured_time.value(), one.planned_time.value(), 100 * kRounding);
  // By the ranks' own schedules: each computation's clock beside that of the next, the first behind the last.
  std::int64_t changes = 0;
  for (const RankSchedule& schedule : ranks.schedules()) {
    int before = schedule.computations.back().clock_mhz;
    for (const ScheduledComputation& next : schedule.computations)
      changes += std::exchange(before, next.clock_mhz) != next.clock_mhz ? 1 : 0;
  }
  EXPECT_GT(changes, 0);
  EXPECT_EQ(one.clock_changes, changes);
  using enum StepClock;
  EXPECT_EQ(one.clocks, (std::vector{kHost, kHost, kHost, kDevice}));

  const IterationOperations& all = one.operations;
  ASSERT_THAT(all.type, SizeIs(4 * 6 * 2));
  Joules energy;
  for (std::size_t i = 0; i < all.type.size(); ++i) {
    const IterationType::Setting& setting =
        one.types[static_cast<std::size_t>(all.type[i])].settings.at(static_cast<std::size_t>(all.setting[i]));
    EXPECT_NEAR(setting.time.value(), all.planned_time[i].value(), kRounding);
    EXPECT_NEAR(setting.power.value() * setting.time.value(), setting.energy.value(), 1e-9);
    EXPECT_GT(setting.clock, Megahertz(0));
    ASSERT_TRUE(all.measured_begin[i] && all.measured_time[i] && all.late[i] && all.added[i]);
    EXPECT_NEAR(all.measured_begin[i]->value(), all.planned_begin[i].value(), 100 * kRounding);
    EXPECT_NEAR(all.measured_time[i]->value(), all.planned_time[i].value(), kRounding);
    EXPECT_NEAR(all.added[i]->value(), 0.0, 100 * kRounding);
    energy += setting.energy;
  }
  // What the schedule says, less what stages draw while they wait.
  EXPECT_GT(energy, Joules(0));
  EXPECT_LT(energy, ranks.schedules()[0].iteration_energy);
}

// Half a second at one operation makes all that follow late, but nothing else has added to it.
TEST_F(IterationTest, ADelayShowsWhereItWasAndNowhereElse) {
  const JobRequest job = four_stages();
  run_profiling(client_, job);
  Ranks ranks(client_, job);
  ASSERT_TRUE(ranks.fetch());
  for (const StepReport& one : ranks.run(7, {2, 5, Seconds(0.5)})) ranks.report(one);
  const MeasuredIteration one = told();
  const std::size_t delayed = operation_at(one, 2, 5);
  int late = 0;
  for (std::size_t i = 0; i < one.operations.type.size(); ++i) {
    EXPECT_NEAR(one.operations.added[i].value().value(), i == delayed ? 0.5 : 0.0, 1e-5) << i;
    const Seconds longer = *one.operations.measured_time[i] - one.operations.planned_time[i];
    EXPECT_NEAR(longer.value(), i == delayed ? 0.5 : 0.0, 1e-6) << i;
    late += one.operations.late[i].value() > Seconds(0.1) ? 1 : 0;
  }
  EXPECT_GT(late, 4);
  EXPECT_GT(one.measured_time, one.planned_time + Seconds(0.1));
  // A newer one takes its place.
  for (const StepReport& report : ranks.run(8)) ranks.report(report);
  EXPECT_EQ(told().step, 8);
  EXPECT_LT(told().measured_time, one.measured_time);
}

TEST_F(IterationTest, OnlyTheFirstPipelineIsAsked) {
  JobRequest job = small_job("job", 2);
  run_profiling(client_, job);
  const auto first = client_.schedule("job", 1);
  const auto second = client_.schedule("job", 2);
  ASSERT_TRUE(first && second);
  // A report in some thirty seconds.
  EXPECT_NEAR(static_cast<double>(first->measured_every) * first->allowed_time.value(), 30.0,
              first->allowed_time.value());
  EXPECT_EQ(second->measured_every, 0);
}

TEST_F(IterationTest, IsForWhoeverMayReadTheJob) {
  run_profiling(client_, four_stages());
  Client stranger(server_.port(), std::string(32, 'x'));
  EXPECT_EQ(stranger.ask("GET", "/v1/jobs/job/iteration").status, 403u);
  EXPECT_EQ(client_.ask("GET", "/v1/jobs/nobody/iteration").status, 404u);
}

TEST_F(IterationTest, ReportsThatDoNotFitAreRefusedAndChangeNothing) {
  const JobRequest job = four_stages();
  run_profiling(client_, job);
  Ranks ranks(client_, job);
  ASSERT_TRUE(ranks.fetch());
  for (const StepReport& one : ranks.run(5)) ranks.report(one);
  const std::string before = asked().body;
  const std::vector<StepReport> next = ranks.run(6);
  for (int rank = 0; rank < 3; ++rank) ranks.report(next[static_cast<std::size_t>(rank)]);
  const nlohmann::ordered_json good = to_json(next[3]);

  const auto refused = [&](const char* field, const nlohmann::ordered_json& value, unsigned status,
                           const std::string& words) {
    nlohmann::ordered_json bad = good;
    bad[field] = value;
    const Response response = report(bad);
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_THAT(response.body, HasSubstr(words));
    EXPECT_EQ(asked().body, before) << words;
  };
  using List = std::vector<double>;
  refused("begin_s", List(11, 0.0), 400, "end_s");
  refused("begin_s", std::vector<std::nullptr_t>(12), 400, "begin_s[0]");
  refused("begin_s", List(12, -1e308), 400, "begin_s[0]");
  refused("clock", "sundial", 400, "host");
  refused("rank", 99, 409, "has not registered");
  refused("step", -1, 400, "step");
  nlohmann::ordered_json long_one = good;
  long_one["begin_s"] = List(12, -1e9);
  long_one["end_s"] = List(12, -1e9);
  long_one["end_s"][11] = 1e9;
  EXPECT_EQ(report(long_one).status, 400u);
  std::string no_number = good.dump();
  no_number.replace(no_number.find("\"begin_s\":[") + 11, 1, "NaN,");
  EXPECT_EQ(client_.ask("POST", "/v1/jobs/job/steps", no_number).status, 400u);
  nlohmann::ordered_json short_one = good;
  short_one["begin_s"] = short_one["end_s"] = List(3, 0.0);
  EXPECT_EQ(report(short_one).status, 400u);
  nlohmann::ordered_json of_another_version = good;
  of_another_version["version"] = ranks.version() + 1;
  EXPECT_EQ(report(of_another_version).status, 204u);
  EXPECT_EQ(asked().body, before);
  // The job is as it was: what was refused is told anew, and is the last stage's.
  ranks.report(next[3]);
  EXPECT_EQ(told().step, 6);
}

// While EnvPipe adjusts its plan, every iteration is reported anyway.
TEST_F(IterationTest, IsKeptOfStepsThatAdjustThePlan) {
  JobRequest job = four_stages("envpipe");
  job.executed_steps = true;
  run_profiling(client_, job);
  Ranks ranks(client_, job);
  ASSERT_TRUE(ranks.fetch());
  EXPECT_TRUE(ranks.schedules()[0].report_steps);
  EXPECT_EQ(ranks.schedules()[0].measured_every, 0);
  const std::int64_t version = ranks.version();
  for (const StepReport& one : ranks.run(1)) ranks.report(one);
  ASSERT_TRUE(ranks.fetch());
  EXPECT_GT(ranks.version(), version);
  EXPECT_EQ(told().version, version);
  EXPECT_EQ(told().step, 1);
}

// 10,000 operations are told in some 120 bytes each; an iteration of more than kMostIterationOperations is not asked
// for, and taken from nobody.
TEST_F(IterationTest, OfManyOperationsIsBounded) {
  JobRequest job = four_stages("uniform");
  job.microbatches = 1250;
  run_profiling(client_, job);
  Ranks ranks(client_, job);
  ASSERT_TRUE(ranks.fetch());
  for (const StepReport& one : ranks.run(2)) ranks.report(one);
  EXPECT_THAT(told().operations.type, SizeIs(10'000));
  EXPECT_LT(asked().body.size(), 120u * 10'000u);

  JobRequest larger = four_stages("uniform");
  larger.id = "larger";
  larger.microbatches = 1 + static_cast<int>(kMostIterationOperations) / 8;
  run_profiling(client_, larger);
  Ranks more(client_, larger);
  ASSERT_TRUE(more.fetch());
  EXPECT_EQ(more.schedules()[0].measured_every, 0);
  for (const StepReport& one : more.run(2)) more.report(one);
  const auto missing = read_message<MeasuredIteration>(client_.get("/v1/jobs/larger/iteration"));
  EXPECT_THAT(missing.missing, HasSubstr("32776 operations are not measured"));
  EXPECT_THAT(missing.operations.type, IsEmpty());
}

}  // namespace
}  // namespace flyball
