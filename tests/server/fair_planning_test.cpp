// Jobs whose planning takes long, and jobs whose ranks never finish measuring: neither leaves others, or itself,
// without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "base/record.h"
#include "server/test_server.h"
#include "support/event_stream.h"
#include "support/raw_socket.h"

namespace flyball::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Minutes of planning.
JobRequest long_job(const std::string& id) {
  JobRequest job = small_job(id);
  job.stages = 8;
  job.microbatches = 4096;
  return job;
}

void measure(Client& client, const JobRequest& job, int rank, bool finish = true) {
  const std::string path = "/v1/jobs/" + job.id;
  for (const auto& report : reports_of(job, rank)) client.post(path + "/measurements", to_json(report));
  if (!finish) return;
  const Response done = client.ask("POST", path + "/ranks/" + std::to_string(rank) + "/profiled", "{}");
  EXPECT_EQ(done.status, 204u) << done.body;
}

TEST(FairPlanning, LongJobsDoNotHoldUpAShortOne) {
  ServerThread server;
  Client client(server.port(), kToken);
  for (const char* id : {"long-1", "long-2", "long-3"}) run_profiling(client, long_job(id));
  run_profiling(client, small_job("short"));
  EXPECT_TRUE(client.schedule("short", 0));
  for (const char* id : {"long-1", "long-2", "long-3"}) {
    EXPECT_EQ(client.status(id).state, JobState::kPlanning) << id;
    EXPECT_EQ(client.ask("DELETE", std::string("/v1/jobs/") + id).status, 204u);
  }
}

TEST(FairPlanning, AJobThatTakesTooLongGetsWhatThereIsAndSaysSo) {
  std::promise<std::string> logged;
  PlanningServerOptions options = local_options();
  options.book.planning_time = Seconds(0.2);
  options.log = [&](const std::string& line) { logged.set_value(line); };  // once
  ServerThread server(options);
  Client client(server.port(), kToken);
  JobRequest job = long_job("long");
  job.microbatches = 1024;  // tens of seconds of planning
  run_profiling(client, job);
  // What is made of the cancelled frontier takes seconds with a sanitizer, and longer than one poll on a busy machine.
  std::optional<RankSchedule> schedule;
  while (!schedule && !::testing::Test::HasFailure()) schedule = client.schedule("long", 0);
  ASSERT_TRUE(schedule);
  EXPECT_EQ(schedule->computations.size(), 2u * 1024u);
  const JobStatus status = client.status("long");
  EXPECT_EQ(status.state, JobState::kReady);
  EXPECT_EQ(status.plan_status, PlanStatus::kIncomplete);
  EXPECT_THAT(status.trouble, HasSubstr("(--planning-time)"));
  EXPECT_EQ(logged.get_future().get(), "job long: " + status.trouble);
  EXPECT_EQ(client.get("/v1/jobs")["jobs"][0]["plan_status"], "incomplete");
  const FrontierReport report = read_message<FrontierReport>(client.get("/v1/jobs/long/frontier"));
  EXPECT_EQ(report.plan_status, PlanStatus::kIncomplete);
  // Nobody is slowed down by it.
  EXPECT_LE(report.points.at(report.base_point).time, report.max_clock_time);
  EXPECT_THAT(client.ask("GET", "/metrics").body, HasSubstr("flyball_server_plans_overdue_total 1\n"));
}

TEST(FairPlanning, AJobThatHasTheTimeIsComplete) {
  ServerThread server;
  Client client(server.port(), kToken);
  run_profiling(client, small_job());
  EXPECT_TRUE(client.schedule("job", 0));
  EXPECT_EQ(client.status("job").plan_status, PlanStatus::kComplete);
  EXPECT_EQ(client.get("/v1/jobs")["jobs"][0]["plan_status"], "complete");
  EXPECT_EQ(client.get("/v1/jobs/job/frontier")["plan_status"], "complete");
}

// Planners that have nothing until they have all.
TEST(FairPlanning, AJobThatTakesTooLongWithoutAPlanSaysSo) {
  PlanningServerOptions options = local_options();
  options.book.planning_time = Seconds(1e-9);
  ServerThread server(options);
  Client client(server.port(), kToken);
  JobRequest job = small_job("long");
  job.planner = "max";
  run_profiling(client, job);
  JobStatus status = client.status("long");
  while (status.state == JobState::kPlanning) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    status = client.status("long");
  }
  EXPECT_EQ(status.state, JobState::kFailed);
  EXPECT_THAT(status.trouble, HasSubstr("planning took longer than 1e-09 s"));
  EXPECT_THAT(client.ask("GET", "/metrics").body, HasSubstr("flyball_server_plans_overdue_total 1\n"));
}

TEST(FairPlanning, AJobThatIsTooLargeIsRefusedWhereItRegisters) {
  PlanningServerOptions options = local_options();
  options.book.operations = 23;
  ServerThread server(options);
  Client client(server.port(), kToken);
  // 3 * 2 stages * 4 microbatches = 24.
  EXPECT_THAT(client.post("/v1/jobs", to_json(small_job()), 400)["detail"],
              AllOf(HasSubstr("24 operations"), HasSubstr("up to 23")));
  JobRequest smaller = small_job();
  smaller.microbatches = 3;
  client.post("/v1/jobs", to_json(smaller), 201);
}

int clocks_in(const std::optional<RankSchedule>& schedule) {
  std::set<int> clocks;
  for (const auto& one : schedule->computations) clocks.insert(one.clock_mhz);
  return static_cast<int>(clocks.size());
}

class Unmeasured : public ::testing::Test {
 protected:
  Unmeasured() {
    job_.stages = 4;
    job_.microbatches = 16;
    job_.patience = Seconds(0.2);
  }

  void register_ranks(Client& client) {
    client.post("/v1/jobs", to_json(job_), 201);
    for (int rank = 0; rank < 4; ++rank) client.post("/v1/jobs/job/ranks", to_json(rank_of(job_, rank)), 201);
  }

  // Planned with all ranks but 3. Where patience ends while the others still report, there are plans before that one,
  // in which rank 2, the last to finish, has no choice of clocks either.
  void wait_for_plan_without_stage_3(Client& client) {
    std::int64_t version = 0;
    while (true) {
      const auto schedule = client.schedule("job", 2, version);
      if (!schedule) continue;
      if (clocks_in(schedule) > 1) break;
      version = schedule->version;
    }
    EXPECT_THAT(client.status("job").trouble,
                AllOf(HasSubstr("the first of them 3;"),
                      HasSubstr("at the highest clock until one of its ranks has finished: stage 3")));
  }

  JobRequest job_ = small_job();
};

TEST_F(Unmeasured, AStageThatNeverFinishesIsToldOfAndKeepsItsHighestClock) {
  const TempFolder folder;
  const std::string database = folder / "server.db";
  std::int64_t version = 0;
  {
    ServerThread server(local_options(database));
    Client client(server.port(), kToken);
    register_ranks(client);
    // Stage 3 has measured its two highest clocks, 1410 and 1395 MHz, and goes on for ever.
    const auto reports = reports_of(job_, 3);
    for (int i = 0; i < 2; ++i) {
      client.post("/v1/jobs/job/measurements", to_json(reports[static_cast<std::size_t>(i)]));
    }
    for (int rank = 0; rank < 3; ++rank) measure(client, job_, rank);
    wait_for_plan_without_stage_3(client);
    const auto fixed = client.schedule("job", 3);
    const auto other = client.schedule("job", 0);
    ASSERT_TRUE(fixed && other);
    EXPECT_EQ(fixed->computations.size(), 32u);  // 16 microbatches, forward and backward
    for (const auto& one : fixed->computations) EXPECT_EQ(one.clock_mhz, 1410);
    EXPECT_GT(clocks_in(other), 1);  // the others are planned as ever
    EXPECT_THAT(client.ask("GET", "/metrics").body, HasSubstr("flyball_server_jobs_unmeasured_total 1\n"));
    version = fixed->version;
  }
  // A server that is started again makes the same plan.
  ServerThread server(local_options(database));
  Client client(server.port(), kToken);
  const auto again = client.schedule("job", 3);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->version, version);
  // The stage finishes after all, and gets its freedom.
  const auto reports = reports_of(job_, 3);
  for (std::size_t i = 2; i < reports.size(); ++i) client.post("/v1/jobs/job/measurements", to_json(reports[i]));
  EXPECT_EQ(client.ask("POST", "/v1/jobs/job/ranks/3/profiled", "{}").status, 204u);
  const auto free = client.schedule("job", 3, version);
  ASSERT_TRUE(free);
  EXPECT_GT(clocks_in(free), 1);
  while (!client.status("job").trouble.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

TEST_F(Unmeasured, ItIsAnEventAndALineForTheAdministrator) {
  std::promise<std::string> logged;
  PlanningServerOptions options = local_options();
  options.log = [&](const std::string& line) { logged.set_value(line); };  // once
  ServerThread server(options);
  Client client(server.port(), kToken);
  register_ranks(client);
  std::promise<void> subscribed;
  std::string told;
  std::thread listener([&] {
    const auto listen = [&](const ServerEvent& event) {
      if (event.name == "state" && told.empty()) {
        told = "-";
        subscribed.set_value();
      }
      if (event.name == "trouble") told = nlohmann::json::parse(event.data)["trouble"];
      return event.name != "trouble";
    };
    follow_events(RawSocket(server.port()), "/v1/jobs/job/events", listen, kToken);
  });
  subscribed.get_future().wait();
  measure(client, job_, 0);
  listener.join();
  EXPECT_EQ(told, "none of the ranks of stages 1, 2, 3 has finished measuring in 0.2 s, the job's patience");
  EXPECT_EQ(logged.get_future().get(), "job job: " + told);
}

TEST_F(Unmeasured, AStageOfWhichNothingIsKnownIsAsFastAsTheFastest) {
  ServerThread server;
  Client client(server.port(), kToken);
  client.post("/v1/jobs", to_json(job_), 201);
  RankRequest silent = rank_of(job_, 3);
  silent.clocks_mhz = {1200, 1380, 1305};
  client.post("/v1/jobs/job/ranks", to_json(silent), 201);
  for (int rank = 0; rank < 3; ++rank) {
    client.post("/v1/jobs/job/ranks", to_json(rank_of(job_, rank)), 201);
    measure(client, job_, rank);
  }
  wait_for_plan_without_stage_3(client);
  const auto fixed = client.schedule("job", 3);
  ASSERT_TRUE(fixed);
  for (const auto& one : fixed->computations) EXPECT_EQ(one.clock_mhz, 1380);  // the highest that it can set
  // No stage of the others is slower than maximum clocks allow: with stage 3 no slower than any, the pace is theirs.
  double slowest = 0.0;
  for (int rank = 0; rank < 3; ++rank) {
    double microbatch = 0.0;
    const MeasurementReport highest = reports_of(job_, rank)[0];
    for (const auto& one : highest.measurements) microbatch += one.time.value();
    slowest = std::max(slowest, microbatch);
  }
  EXPECT_GE(fixed->iteration_time.value(), 16 * slowest);
  EXPECT_LT(fixed->iteration_time.value(), (16 + 4) * slowest);
}

TEST_F(Unmeasured, ReportsOfAStageThatNeverFinishesDoNotStopThePlanning) {
  ServerThread server;
  Client client(server.port(), kToken);
  job_.patience = Seconds(0.05);
  register_ranks(client);
  for (int rank = 0; rank < 3; ++rank) measure(client, job_, rank);
  MeasurementReport report = reports_of(job_, 3)[0];
  while (client.ask("GET", "/v1/jobs/job/ranks/0/schedule").status == 204u) {
    client.post("/v1/jobs/job/measurements", to_json(report));
    ++report.sequence;
  }
  EXPECT_THAT(client.ask("GET", "/metrics").body, HasSubstr("flyball_server_plans_cancelled_total 0\n"));
}

TEST_F(Unmeasured, AJobOfWhichNobodyFinishesSaysSo) {
  ServerThread server;
  Client client(server.port(), kToken);
  register_ranks(client);
  for (int rank = 0; rank < 4; ++rank) measure(client, job_, rank, false);
  JobStatus status = client.status("job");
  while (status.trouble.empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    status = client.status("job");
  }
  EXPECT_THAT(status.trouble, HasSubstr("no rank has finished measuring"));
  EXPECT_EQ(status.state, JobState::kProfiling);
  // Should they finish all the same, it is forgotten.
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(client.ask("POST", "/v1/jobs/job/ranks/" + std::to_string(rank) + "/profiled", "{}").status, 204u);
  }
  while (!client.status("job").trouble.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(client.schedule("job", 0));
}

}  // namespace
}  // namespace flyball::testing
