// The server as its clients see it, over loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "base/record.h"
#include "server/test_server.h"
#include "support/event_stream.h"
#include "support/raw_socket.h"

namespace flyball::testing {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(PlanningServer, ProfilesPlansAndGivesEveryRankItsStage) {
  ServerThread server;
  const JobRequest job = small_job();
  Client client(server.port(), kToken);
  run_profiling(client, job);
  const auto first = client.schedule("job", 0);
  const auto second = client.schedule("job", 1);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->version, 1);
  EXPECT_EQ(first->stage, 0);
  EXPECT_EQ(second->stage, 1);
  // 1F1B over two stages and four microbatches: stage 0 runs one forward ahead.
  std::string order;
  for (const auto& one : first->computations) order += static_cast<char>(std::toupper(one.instruction[0]));
  EXPECT_EQ(order, "FFBFBFBB");
  for (const auto& one : second->computations) EXPECT_GE(one.clock_mhz, 1000);

  const JobStatus status = client.status("job");
  EXPECT_EQ(status.state, JobState::kReady);
  EXPECT_EQ(status.ranks_profiled, 2);
  EXPECT_EQ(status.frontier_version, 1);
  EXPECT_THAT(status.waiting_for, IsEmpty());
  EXPECT_EQ(status.trouble, "");

  const FrontierReport frontier = read_message<FrontierReport>(client.get("/v1/jobs/job/frontier"));
  ASSERT_GT(frontier.points.size(), 5u);
  // As fast as all-maximum clocks and cheaper: what planning is for.
  EXPECT_LE(first->iteration_time, frontier.max_clock_time);
  EXPECT_LT(first->iteration_energy, frontier.max_clock_energy);
  EXPECT_EQ(frontier.points[first->point].time, first->iteration_time);
  for (const auto& point : frontier.points) {
    ASSERT_TRUE(point.lower_bound);
    EXPECT_LE(point.lower_bound->value(), point.energy.value() * (1 + 1e-9));
  }
}

// The server writes schedules by hand, for speed; the description says which fields they have.
TEST(PlanningServer, SendsSchedulesWithEveryFieldOfTheirDescription) {
  ServerThread server;
  const JobRequest job = small_job();
  Client client(server.port(), kToken);
  run_profiling(client, job);
  const nlohmann::json sent = client.get("/v1/jobs/job/ranks/0/schedule?wait_s=30");
  const nlohmann::json described = to_json(RankSchedule{});
  for (const auto& field : described.items()) EXPECT_TRUE(sent.contains(field.key())) << field.key();
  EXPECT_EQ(sent.size(), described.size());
  EXPECT_TRUE(sent["remeasure"].is_null());
}

TEST(PlanningServer, CountsARepeatedReportOnce) {
  ServerThread server;
  const JobRequest job = small_job();
  Client client(server.port(), kToken);
  client.post("/v1/jobs", to_json(job), 201);
  client.post("/v1/jobs/job/ranks", to_json(rank_of(job, 0)), 201);
  const MeasurementReport report = reports_of(job, 0)[3];
  const auto taken = read_message<MeasurementsTaken>(client.post("/v1/jobs/job/measurements", to_json(report)));
  EXPECT_FALSE(taken.duplicate);
  const auto again = read_message<MeasurementsTaken>(client.post("/v1/jobs/job/measurements", to_json(report)));
  EXPECT_TRUE(again.duplicate);
  EXPECT_EQ(again.last_sequence, 3);
  const auto rank = read_message<RankRegistered>(client.post("/v1/jobs/job/ranks", to_json(rank_of(job, 0))));
  EXPECT_EQ(rank.last_sequence, 3);
  EXPECT_FALSE(rank.created);
  EXPECT_THAT(client.ask("GET", "/metrics").body, HasSubstr("flyball_server_measurement_reports_total 1\n"));
}

TEST(PlanningServer, RegistersTheSameJobAgainAndRefusesAnother) {
  ServerThread server;
  Client client(server.port());
  const JobRequest job = small_job();
  EXPECT_TRUE(read_message<JobRegistered>(client.post("/v1/jobs", to_json(job), 201)).created);
  EXPECT_FALSE(read_message<JobRegistered>(client.post("/v1/jobs", to_json(job), 200)).created);
  JobRequest other = job;
  other.microbatches = 5;
  EXPECT_THAT(client.post("/v1/jobs", to_json(other), 409)["detail"], HasSubstr("another job"));
  JobRequest thief = job;
  thief.token = "ffffffffffffffffffffffffffffffff";
  EXPECT_THAT(client.post("/v1/jobs", to_json(thief), 401)["detail"], HasSubstr("token"));
  JobRequest unnamed = job;
  unnamed.id = unnamed.token = "";
  const auto first = read_message<JobRegistered>(client.post("/v1/jobs", to_json(unnamed), 201));
  const auto second = read_message<JobRegistered>(client.post("/v1/jobs", to_json(unnamed), 201));
  EXPECT_NE(first.job, second.job);
  EXPECT_GE(first.token.size(), kShortestToken);
}

TEST(PlanningServer, AsksForTokens) {
  PlanningServerOptions options = local_options();
  options.administrator_token = "administrator-administrator-administrator";
  ServerThread server(options);
  Client nobody(server.port());
  Client owner(server.port(), kToken);
  Client other(server.port(), "ffffffffffffffffffffffffffffffff");
  Client administrator(server.port(), *options.administrator_token);
  nobody.post("/v1/jobs", to_json(small_job()), 201);
  EXPECT_EQ(nobody.ask("GET", "/v1/jobs/job").status, 401u);
  EXPECT_EQ(other.ask("GET", "/v1/jobs/job").status, 403u);
  EXPECT_EQ(owner.ask("GET", "/v1/jobs/job").status, 200u);
  EXPECT_EQ(administrator.ask("GET", "/v1/jobs/job").status, 200u);
  EXPECT_EQ(nobody.ask("GET", "/v1/jobs").status, 401u);
  EXPECT_EQ(owner.ask("GET", "/v1/jobs").status, 403u);
  EXPECT_EQ(administrator.ask("GET", "/v1/jobs").status, 200u);
  for (const char* path : {"/ranks", "/measurements", "/stragglers", "/ranks/0/profiled"}) {
    EXPECT_EQ(other.ask("POST", std::string("/v1/jobs/job") + path, "{}").status, 403u) << path;
  }
  EXPECT_EQ(other.ask("DELETE", "/v1/jobs/job").status, 403u);
  EXPECT_EQ(other.ask("GET", "/v1/jobs/job/events").status, 403u);
  EXPECT_EQ(nobody.ask("GET", "/healthz").status, 200u);
  EXPECT_EQ(owner.ask("DELETE", "/v1/jobs/job").status, 204u);
  EXPECT_EQ(owner.ask("GET", "/v1/jobs/job").status, 404u);
}

TEST(PlanningServer, NeedsAnAdministratorBeyondThisMachine) {
  EventLoop loop;
  PlanningServerOptions options = local_options();
  options.listen_host = "0.0.0.0";
  EXPECT_THROW(PlanningServer(loop, options), UsageError);
}

TEST(PlanningServer, RefusesNonsenseAndNamesTheField) {
  ServerThread server;
  Client client(server.port(), kToken);
  const JobRequest job = small_job();
  client.post("/v1/jobs", to_json(job), 201);
  RankRequest rank = rank_of(job, 0);
  rank.clocks_mhz = {1410, 1395};
  client.post("/v1/jobs/job/ranks", to_json(rank), 201);
  const auto refused = [&](const std::string& path, const std::string& body, const std::string& words) {
    const Response response = client.ask("POST", path, body);
    EXPECT_EQ(response.status, 400u) << body;
    EXPECT_EQ(response.content_type, "application/problem+json");
    EXPECT_THAT(response.body, HasSubstr(words)) << body;
  };
  const std::string measurements = "/v1/jobs/job/measurements";
  const auto report = [](const std::string& fields) {
    return R"({"rank":0,"sequence":1,"measurements":[{"instruction":"forward","clock_mhz":1410,)" + fields + "}]}";
  };
  refused(measurements, report(R"("time_s":NaN,"energy_j":1)"), "no JSON");
  refused(measurements, report(R"("time_s":-1,"energy_j":1)"), "measurements[0].time_s");
  refused(measurements, report(R"("time_s":1e999,"energy_j":1)"), "too large");
  refused(measurements, report(R"("time_s":0.1,"energy_j":0)"), "measurements[0].energy_j");
  refused(measurements, report(R"("time_s":0.1)"), "measurements[0].energy_j");
  refused(measurements, report(R"("time_s":0.1,"energy_j":1,"samples":0)"), "measurements[0].samples");
  refused(measurements, report(R"("time_s":0.1,"energy_j":1,"watts":3)"), "measurements[0].watts");
  const std::string good = R"("time_s":0.1,"energy_j":1}]})";
  refused(measurements, R"({"rank":0,"sequence":1,"measurements":[{"instruction":"sleep","clock_mhz":1410,)" + good,
          "'sleep' is no instruction");
  refused(measurements, R"({"rank":0,"sequence":1,"measurements":[{"instruction":"forward.1","clock_mhz":1410,)" + good,
          "'forward.1' is no instruction");
  refused(measurements, R"({"rank":0,"sequence":1,"measurements":[{"instruction":"forward","clock_mhz":1400,)" + good,
          "no clock that rank 0 has registered");
  refused(measurements, R"({"rank":0,"sequence":-1})", "sequence");
  refused("/v1/jobs/job/ranks", R"({"rank":2,"dp_rank":0,"pp_rank":0,"tp_rank":0})", "rank is 2");
  refused("/v1/jobs/job/ranks", R"({"rank":1,"dp_rank":0,"pp_rank":2,"tp_rank":0})", "pp_rank is 2");
  refused("/v1/jobs/job/stragglers", R"({"straggler":0,"degree":0.5})", "degree");
  refused("/v1/jobs/job/stragglers", R"({"straggler":9,"degree":1.5})", "no rank of job");
  refused("/v1/jobs/job/stragglers", R"({"straggler":0,"degree":1.5,"sequence":9223372036854775806})",
          "give a whole number from 0 to 4611686018427387904");
  refused("/v1/jobs", R"({"stages":2,"microbatches":4,"planner":"magic"})", "unknown planner");
  refused("/v1/jobs", R"({"stages":2,"microbatches":4,"schedule":"2f2b"})", "unknown schedule");
  refused("/v1/jobs", R"({"stages":1024,"microbatches":65536})", "operations");
  refused("/v1/jobs", R"({"stages":2,"microbatches":4,"blocking_power_w":[1,2,3]})", "blocking_power_w");
  refused("/v1/jobs", "[]", "object");
  refused("/v1/jobs", std::string(100'000, '['), "more than 64 deep");
  EXPECT_EQ(client.ask("POST", measurements, R"({"rank":1,"sequence":0})").status, 409u);
  EXPECT_EQ(client.ask("POST", "/v1/jobs/job/ranks", R"({"rank":1,"dp_rank":0,"pp_rank":0,"tp_rank":0})").status, 409u);
  EXPECT_EQ(client.ask("POST", "/v1/jobs/job/ranks/0/profiled").status, 409u);  // has measured nothing
  EXPECT_EQ(client.ask("GET", "/v1/jobs/job/frontier").status, 409u);
  EXPECT_EQ(client.ask("GET", "/v1/jobs/job/ranks/1/schedule").status, 404u);
  EXPECT_EQ(client.ask("GET", "/v1/jobs/job/ranks/0/schedule?wait_s=nan").status, 400u);
  EXPECT_EQ(client.ask("PUT", "/v1/jobs/job", "{}").status, 405u);
  EXPECT_EQ(client.ask("POST", "/v1/jobs", std::string(2u << 20u, ' ')).status, 413u);
  // None of it left a trace.
  const auto again = read_message<RankRegistered>(client.post("/v1/jobs/job/ranks", to_json(rank)));
  EXPECT_EQ(again.last_sequence, -1);
}

TEST(PlanningServer, SaysWhyMeasurementsMakeNoPlanAndTakesNewOnes) {
  ServerThread server;
  Client client(server.port(), kToken);
  const JobRequest job = small_job();
  client.post("/v1/jobs", to_json(job), 201);
  for (int rank = 0; rank < 2; ++rank) client.post("/v1/jobs/job/ranks", to_json(rank_of(job, rank)), 201);
  for (int rank = 0; rank < 2; ++rank) {
    MeasurementReport forward_only{rank, 0, {{"forward", Megahertz(1410), Seconds(0.01), Joules(2), 5}}};
    client.post("/v1/jobs/job/measurements", to_json(forward_only));
    client.ask("POST", "/v1/jobs/job/ranks/" + std::to_string(rank) + "/profiled", "{}");
  }
  JobStatus status = client.status("job");
  while (status.state == JobState::kPlanning) status = client.status("job");
  EXPECT_EQ(status.state, JobState::kFailed);
  EXPECT_THAT(status.trouble, HasSubstr("backward"));
  for (int rank = 0; rank < 2; ++rank) {
    MeasurementReport backward{rank, 1, {{"backward", Megahertz(1410), Seconds(0.02), Joules(4), 5}}};
    client.post("/v1/jobs/job/measurements", to_json(backward));
    client.ask("POST", "/v1/jobs/job/ranks/" + std::to_string(rank) + "/profiled", "{}");
  }
  EXPECT_TRUE(client.schedule("job", 1));
  EXPECT_EQ(client.status("job").trouble, "");
}

TEST(PlanningServer, PlansWithoutARankThatNeverReports) {
  ServerThread server;
  Client client(server.port(), kToken);
  JobRequest job = small_job("job", 2);  // ranks 0 and 1, 2 and 3
  job.patience = Seconds(0.2);
  client.post("/v1/jobs", to_json(job), 201);
  for (int rank = 0; rank < 3; ++rank) client.post("/v1/jobs/job/ranks", to_json(rank_of(job, rank)), 201);
  const auto measure = [&](int rank) {
    for (const auto& report : reports_of(job, rank)) client.post("/v1/jobs/job/measurements", to_json(report));
    client.ask("POST", "/v1/jobs/job/ranks/" + std::to_string(rank) + "/profiled", "{}");
  };
  measure(0);
  measure(2);
  measure(1);
  EXPECT_TRUE(client.schedule("job", 0));
  // Where patience ends while the others still report, there is a plan before this one.
  while (client.status("job").trouble.find("first of them 3") == std::string::npos) {
  }
  EXPECT_THAT(client.status("job").waiting_for, ElementsAre(3));
}

TEST(PlanningServer, SlowsTheOthersForAStragglerAndBack) {
  ServerThread server;
  const JobRequest job = small_job("job", 2);
  Client client(server.port(), kToken);
  run_profiling(client, job);
  const auto normal = client.schedule("job", 0);
  ASSERT_TRUE(normal);
  const FrontierReport frontier = read_message<FrontierReport>(client.get("/v1/jobs/job/frontier"));

  client.post("/v1/jobs/job/stragglers", to_json(StragglerNotice{2, 1.05, Seconds(0), 1}));
  const auto slowed = client.schedule("job", 0, normal->version);
  const auto straggler = client.schedule("job", 2, normal->version);
  ASSERT_TRUE(slowed && straggler);
  // Rank 2 is of pipeline 1, which keeps its pace; pipeline 0 takes what 1.05 times the normal allows, and no more.
  EXPECT_EQ(straggler->point, normal->point);
  const Seconds allowed = 1.05 * normal->iteration_time;
  EXPECT_NEAR(slowed->allowed_time.value(), allowed.value(), 1e-9);
  EXPECT_LE(slowed->iteration_time, allowed);
  EXPECT_GT(slowed->point, normal->point);
  const bool at_the_end = slowed->point + 1 == frontier.points.size();
  EXPECT_TRUE(at_the_end || frontier.points[slowed->point + 1].time > allowed);

  // Beyond T* nothing is slowed further (eq. 2).
  client.post("/v1/jobs/job/stragglers", to_json(StragglerNotice{2, 50.0, Seconds(0), 2}));
  const auto slowest = client.schedule("job", 0, slowed->version);
  ASSERT_TRUE(slowest);
  EXPECT_EQ(slowest->point, frontier.points.size() - 1);

  client.post("/v1/jobs/job/stragglers", to_json(StragglerNotice{2, 1.0, Seconds(0), 3}));
  const auto recovered = client.schedule("job", 0, slowest->version);
  ASSERT_TRUE(recovered);
  EXPECT_EQ(recovered->point, normal->point);
  EXPECT_EQ(recovered->computations, normal->computations);
}

TEST(PlanningServer, AnswersStragglersOfAJobWhoseClocksAreSlowToChange) {
  ServerThread server;
  JobRequest job = small_job("job", 2);
  job.switch_latency = Seconds(0.01);
  job.min_dwell = Seconds(0.05);
  Client client(server.port(), kToken);
  run_profiling(client, job);
  const auto normal = client.schedule("job", 0);
  ASSERT_TRUE(normal);
  client.post("/v1/jobs/job/stragglers", to_json(StragglerNotice{"rack", 1.1, Seconds(0), 1}));
  const auto slowed = client.schedule("job", 0, normal->version);
  ASSERT_TRUE(slowed);
  EXPECT_LE(slowed->iteration_time, slowed->allowed_time + Seconds(1e-9));
  EXPECT_LT(slowed->iteration_energy, normal->iteration_energy);
  client.post("/v1/jobs/job/stragglers", to_json(StragglerNotice{"rack", 1.0, Seconds(0), 2}));
  const auto recovered = client.schedule("job", 0, slowed->version);
  ASSERT_TRUE(recovered);
  EXPECT_EQ(recovered->computations, normal->computations);
}

// Every notice wants other runs prepared, which takes longer than to send the next: of one job one is prepared at a
// time, and the last one's in the end.
TEST(PlanningServer, NoticesDoNotQueueUpBeforeThePlanners) {
  ServerThread server;
  JobRequest job = small_job("job", 2);
  job.microbatches = 64;
  job.switch_latency = Seconds(0.01);
  job.min_dwell = Seconds(0.05);
  Client client(server.port(), kToken);
  run_profiling(client, job);
  const auto normal = client.schedule("job", 0);
  ASSERT_TRUE(normal);
  for (int i = 1; i <= 100; ++i) {
    client.post("/v1/jobs/job/stragglers", to_json(StragglerNotice{"rack", 1.1 + 0.001 * i, Seconds(0), i}));
    EXPECT_THAT(client.ask("GET", "/metrics").body,
                AnyOf(HasSubstr("flyball_server_plans_waiting 0\n"), HasSubstr("flyball_server_plans_waiting 1\n")));
  }
  auto slowed = client.schedule("job", 0, normal->version);
  // 1.1 + 0.001 * 100
  while (slowed && slowed->allowed_time < 1.1995 * normal->allowed_time) {
    slowed = client.schedule("job", 0, slowed->version);
  }
  ASSERT_TRUE(slowed);
  EXPECT_NEAR(slowed->allowed_time / normal->allowed_time, 1.2, 1e-6);
}

// Each notice replaces the recovery that the one before has announced.
TEST(PlanningServer, StragglersThatLastAWhileRecoverByThemselves) {
  ServerThread server;
  const JobRequest job = small_job();
  Client client(server.port(), kToken);
  run_profiling(client, job);
  const auto normal = client.schedule("job", 0);
  ASSERT_TRUE(normal);
  StragglerNotice notice{"outside", 1.1, Seconds(0), std::nullopt, Seconds(3600)};
  client.post("/v1/jobs/job/stragglers", to_json(notice));
  const auto slowed = client.schedule("job", 0, normal->version);
  ASSERT_TRUE(slowed);
  EXPECT_NEAR(slowed->allowed_time / normal->allowed_time, 1.1, 1e-9);
  notice.lasts = Seconds(0.2);
  client.post("/v1/jobs/job/stragglers", to_json(notice));
  const auto recovered = client.schedule("job", 0, slowed->version);
  ASSERT_TRUE(recovered);
  EXPECT_EQ(recovered->computations, normal->computations);
  const JobStatus status = client.status("job");
  ASSERT_EQ(status.stragglers.size(), 1u);
  EXPECT_EQ(status.stragglers[0].degree, 1.0);
  EXPECT_TRUE(status.stragglers[0].announced.empty());
}

TEST(PlanningServer, IgnoresNoticesThatNewerOnesHaveOvertaken) {
  ServerThread server;
  const JobRequest job = small_job("job", 2);
  Client client(server.port(), kToken);
  run_profiling(client, job);
  const auto normal = client.schedule("job", 0);
  ASSERT_TRUE(normal);
  const auto notify = [&](double degree, std::int64_t sequence) {
    return read_message<StragglerTaken>(
        client.post("/v1/jobs/job/stragglers", to_json(StragglerNotice{2, degree, Seconds(0), sequence})));
  };
  EXPECT_FALSE(notify(1.3, 7).stale);
  EXPECT_TRUE(notify(1.1, 6).stale);
  EXPECT_TRUE(notify(1.3, 7).stale);
  EXPECT_FALSE(notify(1.0, 8).stale);
  EXPECT_TRUE(notify(1.5, 5).stale);
  const JobStatus status = client.status("job");
  ASSERT_EQ(status.stragglers.size(), 1u);
  EXPECT_EQ(status.stragglers[0].degree, 1.0);
  EXPECT_EQ(status.stragglers[0].sequence, 8);
  // Without a number a notice is the newest.
  const auto newest =
      read_message<StragglerTaken>(client.post("/v1/jobs/job/stragglers", {{"straggler", 2}, {"degree", 1.2}}));
  EXPECT_EQ(newest.sequence, 9);
  EXPECT_FALSE(newest.stale);
}

TEST(PlanningServer, HonoursTheDelayOfANotice) {
  ServerThread server;
  const JobRequest job = small_job("job", 2);
  Client client(server.port(), kToken);
  run_profiling(client, job);
  const auto normal = client.schedule("job", 0);
  ASSERT_TRUE(normal);
  const auto begin = std::chrono::steady_clock::now();
  client.post("/v1/jobs/job/stragglers", to_json(StragglerNotice{"rack 7/pdu", 1.2, Seconds(0.4), 1}), 400);
  client.post("/v1/jobs/job/stragglers", to_json(StragglerNotice{"rack-7/pdu", 1.2, Seconds(0.4), 1}));
  EXPECT_EQ(client.status("job").stragglers[0].degree, 1.0);
  EXPECT_EQ(client.status("job").stragglers[0].announced.size(), 1u);
  const auto slowed = client.schedule("job", 0, normal->version);
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(slowed);
  EXPECT_GE(waited.count(), 0.4);
  EXPECT_GT(slowed->point, normal->point);
  // It lies outside of the job: every pipeline waits for it.
  EXPECT_EQ(client.schedule("job", 2, normal->version)->point, slowed->point);
}

// What the event's description makes of it is what was sent.
template <class Message>
void expect_described_as(const ServerEvent& event) {
  EXPECT_EQ(to_json(read_message<Message>(nlohmann::json::parse(event.data))).dump(), event.data) << event.name;
}

void expect_described(const ServerEvent& event) {
  if (event.name == "state") return expect_described_as<JobStatus>(event);
  if (event.name == "progress") return expect_described_as<PlanningProgress>(event);
  if (event.name == "schedule") return expect_described_as<SchedulesReplaced>(event);
  if (event.name == "straggler") return expect_described_as<StragglerNotice>(event);
  if (event.name == "deleted") return expect_described_as<JobDeleted>(event);
  ADD_FAILURE() << event.name << " is no event of an untroubled job";
}

TEST(PlanningServer, TellsWhatHappensAsEvents) {
  ServerThread server;
  const JobRequest job = small_job();
  Client client(server.port(), kToken);
  client.post("/v1/jobs", to_json(job), 201);
  std::vector<std::string> names;
  std::promise<void> subscribed;
  std::thread listener([&] {
    const auto listen = [&](const ServerEvent& event) {
      if (names.empty()) subscribed.set_value();
      names.push_back(event.name);
      expect_described(event);
      return event.name != "deleted";
    };
    follow_events(RawSocket(server.port()), "/v1/jobs/job/events", listen, kToken);
  });
  subscribed.get_future().wait();
  for (int rank = 0; rank < 2; ++rank) {
    client.post("/v1/jobs/job/ranks", to_json(rank_of(job, rank)), 201);
    for (const auto& report : reports_of(job, rank)) client.post("/v1/jobs/job/measurements", to_json(report));
    client.ask("POST", "/v1/jobs/job/ranks/" + std::to_string(rank) + "/profiled", "{}");
  }
  EXPECT_TRUE(client.schedule("job", 0));
  client.post("/v1/jobs/job/stragglers", to_json(StragglerNotice{0, 1.2, Seconds(0), 1}));
  EXPECT_EQ(client.ask("DELETE", "/v1/jobs/job").status, 204u);
  listener.join();
  const std::set<std::string> kinds(names.begin(), names.end());
  EXPECT_EQ(kinds.count("state"), 1u);
  EXPECT_EQ(kinds.count("schedule"), 1u);
  EXPECT_EQ(kinds.count("straggler"), 1u);
  EXPECT_EQ(names.back(), "deleted");
}

TEST(PlanningServer, EndsTheWaitsOfADeletedJob) {
  ServerThread server;
  const JobRequest job = small_job();
  Client client(server.port(), kToken);
  client.post("/v1/jobs", to_json(job), 201);
  client.post("/v1/jobs/job/ranks", to_json(rank_of(job, 0)), 201);
  std::atomic<unsigned> status{0};
  std::thread waiter([&] {
    Client other(server.port(), kToken);
    status = other.ask("GET", "/v1/jobs/job/ranks/0/schedule?wait_s=60").status;
  });
  while (client.ask("GET", "/metrics").body.find("flyball_server_waiting_polls 1\n") == std::string::npos) {
  }
  EXPECT_EQ(client.ask("DELETE", "/v1/jobs/job").status, 204u);
  waiter.join();
  EXPECT_EQ(status, 404u);
  EXPECT_THAT(client.ask("GET", "/metrics").body, HasSubstr("flyball_server_waiting_polls 0\n"));
  client.post("/v1/jobs", to_json(job), 201);  // the id is free again
}

TEST(PlanningServer, LimitsJobsAndRequests) {
  PlanningServerOptions options = local_options();
  options.book.jobs = 2;
  ServerThread server(options);
  Client client(server.port());
  client.post("/v1/jobs", to_json(small_job("a")), 201);
  client.post("/v1/jobs", to_json(small_job("b")), 201);
  for (const char* job : {"a", "b"}) {
    Client(server.port(), kToken).post("/v1/jobs/"s + job + "/ranks", to_json(rank_of(small_job(), 0)), 201);
  }
  EXPECT_THAT(client.post("/v1/jobs", to_json(small_job("c")), 429)["detail"], HasSubstr("2 jobs"));

  PlanningServerOptions slow = local_options();
  slow.requests_per_second = 5;
  ServerThread limited(slow);
  Client hasty(limited.port());
  int refused = 0;
  for (int i = 0; i < 60; ++i) refused += hasty.ask("GET", "/openapi.yaml").status == 429 ? 1 : 0;
  EXPECT_GT(refused, 10);
}

// --- Clients that misbehave ---------------------------------------------------------------------------------------

TEST(PlanningServer, ServesOthersWhileClientsMisbehave) {
  PlanningServerOptions options = local_options();
  options.http.read = Seconds(0.5);
  ServerThread server(options);
  Client client(server.port(), kToken);
  const JobRequest job = small_job();
  client.post("/v1/jobs", to_json(job), 201);
  client.post("/v1/jobs/job/ranks", to_json(rank_of(job, 0)), 201);

  const std::string head =
      std::string("POST /v1/jobs/job/measurements HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ") + kToken +
      "\r\n";
  {  // gone in mid-body
    const std::string body = to_json(reports_of(job, 0)[0]).dump();
    const RawSocket gone(server.port());
    gone.send(head + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body.substr(0, body.size() / 2));
  }
  const RawSocket slow(server.port());  // never finishes
  slow.send("POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Len");
  const RawSocket nonsense(server.port());
  nonsense.send("\x16\x03\x01\x02"s + '\0' + "\x01"s + '\0' + "\x01\xfc\x03\x03 hello\r\n\r\n");
  EXPECT_THAT(nonsense.read_all(), HasSubstr("400"));
  const RawSocket liar(server.port());
  liar.send(head + "Content-Length: 99999999999\r\n\r\n{");
  EXPECT_THAT(liar.read_all(), HasSubstr("413"));
  const RawSocket chunked(server.port());
  chunked.send(head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n");
  EXPECT_THAT(chunked.read_all(), HasSubstr("400"));

  const auto rank = read_message<RankRegistered>(client.post("/v1/jobs/job/ranks", to_json(rank_of(job, 0))));
  EXPECT_EQ(rank.last_sequence, -1);  // half a report is none
  EXPECT_EQ(slow.read_all(), "");     // closed after the time for reading
  EXPECT_EQ(client.ask("GET", "/healthz").status, 200u);
}

}  // namespace
}  // namespace flyball::testing
