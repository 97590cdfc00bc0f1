// Ranks that say that they compute slower than they were profiled, or that they have ended, and what the server makes
// of it. Who is slow is found by the client (client/pace_watch_test.cpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "base/record.h"
#include "server/test_server.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;
using namespace testing;

// Two pipelines of two stages: ranks 0 and 1, and ranks 2 and 3.
class FoundStragglersTest : public ::testing::Test {
 protected:
  FoundStragglersTest() {
    run_profiling(client_, job_);
    newest_ = normal_ = client_.schedule(job_.id, 2).value();
  }

  unsigned say(const PaceReport& report) {
    return client_.ask("POST", "/v1/jobs/job/paces", to_json(report).dump()).status;
  }
  void slow(int rank, double slowdown, std::int64_t since = 100) {
    EXPECT_EQ(say({rank, slowdown, since, PaceCause::kThrottled, "thermal"}), 204u);
  }
  void announce(int rank, double degree) {
    client_.post("/v1/jobs/job/stragglers", to_json(StragglerNotice{rank, degree, Seconds(0), std::nullopt}));
  }
  // The next schedule of a rank: how much longer than without stragglers its iterations may take.
  double next_ratio(int rank = 2) {
    newest_ = client_.schedule(job_.id, rank, newest_.version).value();
    return newest_.allowed_time / normal_.allowed_time;
  }
  bool is_newest() { return !client_.schedule(job_.id, 2, newest_.version, 0.0).has_value(); }

  JobRequest job_ = small_job("job", 2);
  ServerThread server_;
  Client client_ = Client(server_.port(), kToken);
  RankSchedule normal_;
  RankSchedule newest_;
};

// Where both stages of a pipeline take 1.2 times as long, its iteration does, too: it has nothing but computations.
TEST_F(FoundStragglersTest, OtherPipelinesSlowDownAndRecover) {
  slow(0, 1.2);
  const double one_stage = next_ratio();
  EXPECT_GT(one_stage, 1.0);
  EXPECT_LT(one_stage, 1.2);
  slow(1, 1.2);
  EXPECT_NEAR(next_ratio(), 1.2, 1e-6);
  EXPECT_GT(newest_.iteration_time, 1.1 * normal_.iteration_time);
  EXPECT_LT(newest_.iteration_energy, normal_.iteration_energy);
  // The slow pipeline keeps its clocks, and nobody expects it to be in time.
  const RankSchedule own = client_.schedule(job_.id, 0).value();
  EXPECT_EQ(own.computations, normal_.computations);  // those of the same stage
  EXPECT_NEAR(own.iteration_time.value(), normal_.iteration_time.value(), 1e-9);
  EXPECT_NEAR(own.allowed_time / normal_.allowed_time, 1.2, 1e-6);

  const JobStatus status = client_.status("job");
  ASSERT_EQ(status.found_stragglers.size(), 2u);
  const FoundStraggler& found = status.found_stragglers[1];
  EXPECT_EQ(found.rank, 1);
  EXPECT_EQ(found.slowdown, 1.2);
  EXPECT_NEAR(found.degree, 1.2, 1e-6);
  EXPECT_TRUE(found.in_force);
  EXPECT_EQ(found.since, 100);
  EXPECT_GT(found.found_unix, 1.7e9);
  EXPECT_EQ(found.cause, PaceCause::kThrottled);
  EXPECT_EQ(found.detail, "thermal");
  EXPECT_TRUE(status.stragglers.empty());

  slow(1, 1.2);  // said again
  EXPECT_TRUE(is_newest());
  slow(0, 1.0);
  (void)next_ratio();
  slow(1, 1.0);
  EXPECT_NEAR(next_ratio(), 1.0, 1e-9);
  EXPECT_EQ(newest_.computations, normal_.computations);
  EXPECT_TRUE(client_.status("job").found_stragglers.empty());
}

// What the ranks measure at maximum clocks while a pipeline takes 1.2 times as long has that in it: all that they may
// take longer for it is in what they compare with, then, and must not be allowed twice.
TEST_F(FoundStragglersTest, WhatMaximumClocksTakeMeanwhileIsComparedAsSuch) {
  slow(0, 1.2);
  (void)next_ratio();
  slow(1, 1.2);
  EXPECT_NEAR(next_ratio(), 1.2, 1e-6);
  EXPECT_NEAR(newest_.max_clock_time / normal_.max_clock_time, 1.0, 1e-9);
  const auto report = [&](double time, bool slower) {
    const PromiseReport one{2, newest_.version, 10, Seconds(time), Seconds(slower ? 1.0 : time), slower, {}};
    EXPECT_EQ(client_.ask("POST", "/v1/jobs/job/promises", to_json(one).dump()).status, 204u);
  };
  const double ratio = normal_.allowed_time / normal_.max_clock_time;
  report(1.25 * ratio, true);
  (void)next_ratio();
  ASSERT_TRUE(newest_.at_maximum);
  report(1.24, false);  // within one per cent: all of it is slower
  EXPECT_NEAR(next_ratio(), 1.2, 1e-6);
  EXPECT_FALSE(newest_.at_maximum);
  EXPECT_NEAR(newest_.max_clock_time / normal_.max_clock_time, 1.2, 1e-6);
  slow(0, 1.0);
  (void)next_ratio();
  slow(1, 1.0);
  EXPECT_NEAR(next_ratio(), 1.0, 1e-9);
  EXPECT_NEAR(newest_.max_clock_time / normal_.max_clock_time, 1.2, 1e-6);
}

// The second stage's computations take 0.6 times as long as the first's, so that it runs at lower clocks. At these it
// would make its pipeline 1.2 times as long; at its highest clock it has time enough, but for the pipeline's beginning
// and end.
TEST_F(FoundStragglersTest, AStageThatHadSlackUsesItUp) {
  JobRequest job = small_job("uneven", 2);
  const std::string path = "/v1/jobs/uneven";
  client_.post("/v1/jobs", to_json(job), 201);
  for (int rank = 0; rank < 4; ++rank) client_.post(path + "/ranks", to_json(rank_of(job, rank)), 201);
  int highest = 0;
  for (int rank = 0; rank < 4; ++rank) {
    for (MeasurementReport report : reports_of(job, rank - rank % 2)) {
      report.rank = rank;
      for (InstructionMeasurement& one : report.measurements) {
        if (rank % 2 == 1) one.time = 0.6 * one.time;
        highest = std::max(highest, static_cast<int>(one.clock.value()));
      }
      client_.post(path + "/measurements", to_json(report));
    }
    (void)client_.ask("POST", path + "/ranks/" + std::to_string(rank) + "/profiled", "{}");
  }
  const auto at_highest = [highest](const RankSchedule& schedule) {
    return std::all_of(schedule.computations.begin(), schedule.computations.end(),
                       [highest](const ScheduledComputation& one) { return one.clock_mhz == highest; });
  };
  const RankSchedule before = client_.schedule("uneven", 1).value();
  EXPECT_FALSE(at_highest(before));
  const PaceReport slow{1, 1.2, 1, PaceCause::kComputation, {}};
  EXPECT_EQ(client_.ask("POST", path + "/paces", to_json(slow).dump()).status, 204u);
  const RankSchedule after = client_.schedule("uneven", 1, before.version).value();
  EXPECT_TRUE(at_highest(after));
  EXPECT_EQ(client_.schedule("uneven", 3, before.version).value().computations.size(), before.computations.size());
  EXPECT_GT(after.allowed_time, before.allowed_time);
  EXPECT_LT(after.allowed_time, 1.06 * before.allowed_time);
}

// Rank 2 is the second pipeline's first stage. A slow link changes no plan, and goes by itself.
TEST_F(FoundStragglersTest, ASlowLinkIsNoStraggler) {
  EXPECT_EQ(say({2, 9.5, 120, PaceCause::kCommunication, {}, PaceOf::kTransfer}), 204u);
  EXPECT_EQ(say({3, 9.4, 121, PaceCause::kCommunication, {}, PaceOf::kTransferBack}), 204u);
  EXPECT_EQ(say({0, 1.5, 122, PaceCause::kCommunication, {}, PaceOf::kReduction}), 204u);
  const JobStatus status = client_.status("job");
  EXPECT_TRUE(status.found_stragglers.empty());
  ASSERT_EQ(status.slow_links.size(), 3u);
  const SlowLink& forwards = status.slow_links[1];
  EXPECT_EQ(forwards.rank, 2);
  EXPECT_EQ(forwards.transfer, PaceOf::kTransfer);
  EXPECT_EQ(forwards.pipeline, 1);
  EXPECT_EQ(forwards.from_stage, 0);
  EXPECT_EQ(forwards.to_stage, 1);
  EXPECT_EQ(forwards.slowdown, 9.5);
  EXPECT_EQ(forwards.since, 120);
  EXPECT_GT(forwards.found_unix, 1.7e9);
  EXPECT_EQ(status.slow_links[2].from_stage, 1);
  EXPECT_EQ(status.slow_links[2].to_stage, 0);
  EXPECT_EQ(status.slow_links[0].from_stage, status.slow_links[0].to_stage);
  EXPECT_TRUE(is_newest());
  EXPECT_TRUE(status.promise.cause.empty());  // nobody has found iterations too long
  for (const SlowLink& one : status.slow_links) {
    EXPECT_EQ(say({one.rank, 1.0, 200, PaceCause::kCommunication, {}, one.transfer}), 204u);
  }
  EXPECT_TRUE(client_.status("job").slow_links.empty());
}

// Iterations are longer than promised, and a rank that is not at the link does not know why.
TEST_F(FoundStragglersTest, ASlowLinkIsTheCauseOfIterationsThatAreTooLong) {
  PromiseReport broken{0, newest_.version, 10, Seconds(2), Seconds(1), true};
  broken.cause = "the ranks wait for communication or something else";
  EXPECT_EQ(client_.ask("POST", "/v1/jobs/job/promises", to_json(broken).dump()).status, 204u);
  EXPECT_THAT(client_.status("job").promise.cause, HasSubstr("something else"));
  EXPECT_EQ(say({2, 9.5, 120, PaceCause::kCommunication, {}, PaceOf::kTransfer}), 204u);
  EXPECT_EQ(client_.status("job").promise.cause,
            "communication: p2p from stage 0 to stage 1 of pipeline 1 takes 9.5 times as long as in its profile, "
            "since step 120 of rank 2");
}

// Where all pipelines are slow, nobody waits for anybody.
TEST_F(FoundStragglersTest, NobodyWaitsWhereAllAreSlow) {
  for (int rank = 0; rank < 4; ++rank) {
    slow(rank, 1.2);
    (void)next_ratio();
  }
  EXPECT_NEAR(newest_.iteration_time.value(), normal_.iteration_time.value(), 1e-9);
  EXPECT_EQ(newest_.computations, normal_.computations);
}

TEST_F(FoundStragglersTest, NoticesWin) {
  slow(0, 1.2);
  slow(1, 1.2);
  EXPECT_LE(next_ratio(), 1.2 + 1e-6);
  if (!is_newest()) (void)next_ratio();
  announce(0, 1.1);
  double ratio = next_ratio();
  if (ratio > 1.15) ratio = next_ratio();  // a version for the second slow rank, which came late
  EXPECT_NEAR(ratio, 1.1, 1e-6);
  EXPECT_FALSE(client_.status("job").found_stragglers[0].in_force);
  announce(0, 1.0);
  EXPECT_NEAR(next_ratio(), 1.2, 1e-6);
  EXPECT_TRUE(client_.status("job").found_stragglers[0].in_force);
  // A notice about the other pipeline says nothing of this one.
  announce(2, 1.5);
  EXPECT_NEAR(next_ratio(0), 1.5, 1e-6);
  EXPECT_TRUE(client_.status("job").found_stragglers[0].in_force);
}

// A rank has given its plan up, since iterations were longer than promised, when the straggler is found: the plan is
// not at fault, and goes on.
TEST_F(FoundStragglersTest, IterationsThatAreLongerAreTheirs) {
  PromiseReport broken;
  broken.rank = 2;
  broken.version = newest_.version;
  broken.iterations = 3;
  broken.time = Seconds(2.4);
  broken.at_maximum = Seconds(2);
  broken.slower = true;
  EXPECT_EQ(client_.ask("POST", "/v1/jobs/job/promises", to_json(broken).dump()).status, 204u);
  (void)next_ratio();
  EXPECT_TRUE(newest_.at_maximum);
  slow(0, 1.2);
  EXPECT_GT(next_ratio(), 1.0);
  EXPECT_FALSE(newest_.at_maximum);
  EXPECT_EQ(client_.status("job").trouble, "");
}

TEST_F(FoundStragglersTest, ARankThatMeasuresItselfAnewIsForgotten) {
  slow(0, 1.2);
  EXPECT_GT(next_ratio(), 1.0);
  MeasurementReport report = reports_of(job_, 0)[0];
  report.sequence = 100;
  client_.post("/v1/jobs/job/measurements", to_json(report));
  EXPECT_NEAR(next_ratio(), 1.0, 1e-9);
  EXPECT_TRUE(client_.status("job").found_stragglers.empty());
}

TEST_F(FoundStragglersTest, OddReportsAreRefused) {
  EXPECT_EQ(say({7, 1.2, 1, PaceCause::kUnknown, {}}), 409u);
  for (const char* bad : {R"({"rank":0,"slowdown":0.5})", R"({"rank":0})", R"({"rank":0,"slowdown":1e9})",
                          R"({"rank":0,"slowdown":1.2,"since_step":-1})", R"([])"}) {
    EXPECT_EQ(client_.ask("POST", "/v1/jobs/job/paces", bad).status, 400u) << bad;
  }
  EXPECT_TRUE(is_newest());
  // A cause of a later version.
  EXPECT_EQ(client_.ask("POST", "/v1/jobs/job/paces", R"({"rank":0,"slowdown":1.2,"cause":"moonlight"})").status, 204u);
  (void)next_ratio();
  EXPECT_EQ(client_.status("job").found_stragglers.at(0).cause, PaceCause::kUnknown);
}

// --- Ended and lost ----------------------------------------------------------------------------------------------

class JobLifeTest : public ::testing::Test {
 protected:
  static PlanningServerOptions options() {
    PlanningServerOptions options = local_options();
    options.book.lost_after = Seconds(0.5);
    options.administrator_token = kAdministrator;
    return options;
  }
  JobLifeTest() {
    run_profiling(client_, job_);
    version_ = client_.schedule(job_.id, 0).value().version;
  }
  unsigned end(int rank) {
    return client_.ask("POST", "/v1/jobs/job/ranks/" + std::to_string(rank) + "/ended", "{}").status;
  }
  bool comes_to(JobState state) {
    for (int i = 0; i < 600; ++i) {
      if (client_.status("job").state == state) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return false;
  }

  JobRequest job_ = small_job("job");
  ServerThread server_{options()};
  Client client_ = Client(server_.port(), kToken);
  std::int64_t version_ = 0;
};

TEST_F(JobLifeTest, AJobOfWhichAllRanksHaveEndedHasEnded) {
  EXPECT_EQ(end(0), 204u);
  EXPECT_NE(client_.status("job").state, JobState::kEnded);
  EXPECT_EQ(end(1), 204u);
  EXPECT_EQ(client_.status("job").state, JobState::kEnded);
  EXPECT_EQ(end(7), 409u);
  // It stays so, and keeps its plan; the next word of a rank brings it back.
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  EXPECT_EQ(client_.status("job").state, JobState::kEnded);
  EXPECT_EQ(client_.status("job").version, version_);
  Client administrator(server_.port(), kAdministrator);
  EXPECT_EQ(administrator.get("/v1/jobs").at("jobs").at(0).at("state"), "ended");
  EXPECT_THAT(administrator.ask("GET", "/metrics").body, HasSubstr("flyball_server_jobs{state=\"ended\"} 1"));
  EXPECT_EQ(client_.schedule(job_.id, 1).value().version, version_);
  EXPECT_NE(client_.status("job").state, JobState::kEnded);
}

// A rank that waits for a schedule is there, however long it waits.
TEST_F(JobLifeTest, AJobOfSilentRanksIsLostUntilOneIsHeard) {
  ASSERT_TRUE(comes_to(JobState::kLost));
  EXPECT_EQ(client_.status("job").version, version_);
  EXPECT_FALSE(client_.schedule(job_.id, 0, version_, 2.0));
  EXPECT_EQ(client_.status("job").state, JobState::kReady);
  ASSERT_TRUE(comes_to(JobState::kLost));
  EXPECT_EQ(client_.schedule(job_.id, 0).value().version, version_);
}

}  // namespace
}  // namespace flyball
