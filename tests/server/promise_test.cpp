// What a job's ranks report of its plan's promise, and what the server makes of it. The rules themselves are tested
// with the client's (loop/promise_test.cpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <string>
#include <thread>

#include "base/record.h"
#include "base/wall_clock.h"
#include "server/test_server.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;
using namespace testing;

class PromiseTest : public ::testing::Test {
 protected:
  PromiseTest() {
    run_profiling(client_, job_);
    newest_ = client_.schedule(job_.id, 0).value();
  }

  Response ask(PromiseReport report) {
    if (report.version == 0) report.version = newest_.version;
    return client_.ask("POST", "/v1/jobs/" + job_.id + "/promises", to_json(report).dump());
  }
  // Of rank 0: so many iterations by the newest schedule, that take `time` where maximum clocks take 2 s.
  void report(std::int64_t iterations, double time, bool slower = false) {
    PromiseReport report;
    report.iterations = iterations;
    report.time = Seconds(time);
    report.at_maximum = Seconds(2);
    report.slower = slower;
    const Response response = ask(report);
    EXPECT_EQ(response.status, 204u) << response.body;
  }
  void next_schedule() { newest_ = client_.schedule(job_.id, 0, newest_.version).value(); }
  void measure_again() {
    for (int rank = 0; rank < job_.ranks(); ++rank) {
      auto reports = reports_of(job_, rank);
      reports[0].begins_sweep = true;
      for (MeasurementReport& one : reports) {
        one.sequence += std::ssize(reports);
        client_.post("/v1/jobs/job/measurements", to_json(one));
      }
      EXPECT_EQ(client_.ask("POST", "/v1/jobs/job/ranks/" + std::to_string(rank) + "/profiled", "{}").status, 204u);
    }
  }
  bool is_newest() { return !client_.schedule(job_.id, 0, newest_.version, 0.0).has_value(); }

  JobRequest job_ = small_job("job");
  ServerThread server_;
  Client client_ = Client(server_.port(), kToken);
  RankSchedule newest_;
};

TEST_F(PromiseTest, IsSaidWithTheSchedule) {
  EXPECT_FALSE(newest_.at_maximum);
  EXPECT_EQ(newest_.max_clock_time.value(), client_.get("/v1/jobs/job/frontier").at("max_clock_time_s").get<double>());
  EXPECT_EQ(client_.status("job").promise.verdict, PromiseVerdict::kUnknown);
  report(10, 2.001);
  const JobPromise kept = client_.status("job").promise;
  EXPECT_EQ(kept.verdict, PromiseVerdict::kKept);
  EXPECT_EQ(kept.measured, Seconds(2.001));
  EXPECT_EQ(kept.at_maximum, Seconds(2));
  // The job has no straggler and no target: what it promises is the time of maximum clocks.
  EXPECT_NEAR(kept.promised.value(), 2.0, 0.001);
  EXPECT_TRUE(is_newest());
}

// 2.1 s, with 2 s at maximum clocks: given up, and tried again after a hundred iterations.
TEST_F(PromiseTest, RanksAreShownWithTheirIterationsAndWhenTheyWereHeard) {
  const double before = now_seconds();
  report(3, 2.25);
  const nlohmann::json ranks = client_.get("/v1/jobs/job/ranks").at("ranks");
  EXPECT_EQ(ranks.at(0).at("iteration_time_s"), 2.25);
  EXPECT_GE(ranks.at(0).at("heard_s"), before);
  EXPECT_TRUE(ranks.at(1).at("iteration_time_s").is_null());
  EXPECT_LT(ranks.at(1).at("heard_s"), ranks.at(0).at("heard_s")) << "it has said nothing since it was profiled";
}

TEST_F(PromiseTest, ThatIsNotKeptIsGivenUp) {
  report(10, 2.1, true);
  next_schedule();
  EXPECT_TRUE(newest_.at_maximum);
  EXPECT_EQ(client_.status("job").trouble, "");  // perhaps everything has become slower
  report(10, 2.0);
  EXPECT_TRUE(is_newest());
  EXPECT_EQ(client_.status("job").promise.verdict, PromiseVerdict::kSlower);
  EXPECT_THAT(client_.status("job").trouble, HasSubstr("iterations by the plan take 2.1 s, but 2 s are promised"));
  report(80, 2.0);
  EXPECT_TRUE(is_newest());
  report(100, 2.0);
  next_schedule();
  EXPECT_FALSE(newest_.at_maximum);
  EXPECT_EQ(client_.status("job").trouble, "");
  report(100, 2.0);
  EXPECT_EQ(client_.status("job").promise.verdict, PromiseVerdict::kKept);
}

// At maximum clocks iterations take 2.1 s now, too: the plan goes on.
TEST_F(PromiseTest, IsAsLongAsMaximumClocksAreNow) {
  report(10, 2.1, true);
  next_schedule();
  report(10, 2.1);
  next_schedule();
  EXPECT_FALSE(newest_.at_maximum);
  EXPECT_EQ(client_.status("job").trouble, "");
  EXPECT_NEAR(client_.status("job").promise.promised.value(), 2.1, 0.001);
}

// A plan of new measurements has not broken any promise.
TEST_F(PromiseTest, IsTrustedAnewWithNewMeasurements) {
  report(10, 2.1, true);
  next_schedule();
  report(10, 2.0);
  measure_again();
  next_schedule();
  EXPECT_FALSE(newest_.at_maximum);
  EXPECT_EQ(client_.status("job").promise.verdict, PromiseVerdict::kUnknown);
  EXPECT_EQ(client_.status("job").trouble, "");
}

// Rank 0: 100 iterations, 600 J of 700; rank 1: 90, 500 of 550. Rank 1 is then started anew, and counts from zero.
TEST_F(PromiseTest, SavingsAreThoseOfAllRanks) {
  const auto report_savings = [&](int rank, std::int64_t iterations, double energy, double at_maximum, double time) {
    PromiseReport report;
    report.rank = rank;
    report.iterations = 10;
    report.time = report.at_maximum = Seconds(2);
    report.savings = {iterations, Joules(energy), Joules(at_maximum), Seconds(time), Seconds(200)};
    EXPECT_EQ(ask(report).status, 204u);
  };
  EXPECT_EQ(client_.status("job").savings.iterations, 0);
  report_savings(0, 50, 300, 350, 101);
  report_savings(0, 100, 600, 700, 201);
  report_savings(1, 90, 500, 550, 181);
  JobSavings all = client_.status("job").savings;
  EXPECT_EQ(all.iterations, 100);
  EXPECT_EQ(all.energy, Joules(1100));
  EXPECT_EQ(all.energy_at_maximum, Joules(1250));
  EXPECT_EQ(all.time, Seconds(201));
  report_savings(1, 10, 50, 60, 20);
  all = client_.status("job").savings;
  EXPECT_EQ(all.energy, Joules(1150));
  EXPECT_EQ(all.energy_at_maximum, Joules(1310));
}

// Both stages take 100 J at maximum clocks and `planned` by the newest schedule, all known to 0.1 J.
class EnergyPromiseTest : public PromiseTest {
 protected:
  void report_energy(double planned, std::int64_t iterations, double at_maximum = 100.0) {
    for (int rank = 0; rank < job_.ranks(); ++rank) {
      PromiseReport report;
      report.rank = rank;
      report.version = newest_.version;
      report.iterations = iterations;
      report.time = report.at_maximum = Seconds(2);
      report.energy = {Joules(planned), Joules(0.1), Joules(at_maximum), Joules(0.1)};
      EXPECT_EQ(ask(report).status, 204u);
    }
  }
};

// 110 J where 100 J are taken at maximum clocks: all ranks run at these for a moment, which confirms it.
TEST_F(EnergyPromiseTest, WhatTakesMoreThanMaximumClocksIsGivenUp) {
  report_energy(110.0, 10);  // too soon
  EXPECT_TRUE(is_newest());
  report_energy(110.0, 20);
  next_schedule();
  EXPECT_TRUE(newest_.at_maximum);
  EXPECT_EQ(client_.status("job").trouble, "");
  report_energy(0.0, 10);
  const JobStatus status = client_.status("job");
  EXPECT_EQ(status.promise.verdict, PromiseVerdict::kDearer);
  EXPECT_NEAR(status.promise.measured_saving_pct, -10.0, 1e-9);
  // 0.1 J of each of two ranks, of 200 J: sqrt(2) * 0.1 * sqrt(1 + 1.1 * 1.1) / 200.
  EXPECT_NEAR(status.promise.measured_saving_error_pct, 100.0 * std::sqrt(2.0 * 2.21) * 0.1 / 200.0, 1e-9);
  EXPECT_GT(status.promise.promised_saving_pct, 0.0);
  EXPECT_THAT(status.trouble, HasSubstr("take 10.00 % more energy than maximum clocks"));
  EXPECT_TRUE(is_newest());
  report_energy(0.0, 100);
  next_schedule();
  EXPECT_FALSE(newest_.at_maximum);
}

// 1 J less than at maximum clocks, where the plan promises several per cent.
TEST_F(EnergyPromiseTest, WhatSavesLessIsSaidAndRunsOn) {
  report_energy(99.0, 20);
  next_schedule();
  EXPECT_TRUE(newest_.at_maximum);
  report_energy(0.0, 10);
  next_schedule();
  EXPECT_FALSE(newest_.at_maximum);
  EXPECT_EQ(client_.status("job").promise.verdict, PromiseVerdict::kDearer);
  EXPECT_THAT(client_.status("job").trouble, HasSubstr("the plan saves 1.00 % of the energy of maximum clocks"));
  report_energy(99.0, 20);
  EXPECT_TRUE(is_newest());  // no news
  measure_again();
  // The plan of the same measurements is the same.
  for (int i = 0; i < 2000 && !client_.status("job").trouble.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(client_.status("job").trouble, "");
}

// It seemed so only because maximum clocks take more by now.
TEST_F(EnergyPromiseTest, WhatMaximumClocksTakeNowDecides) {
  report_energy(99.0, 20);
  next_schedule();
  report_energy(0.0, 10, 140.0);
  next_schedule();
  EXPECT_FALSE(newest_.at_maximum);
  EXPECT_EQ(client_.status("job").promise.verdict, PromiseVerdict::kKept);
  EXPECT_EQ(client_.status("job").trouble, "");
}

// What a session counts is counted once, however often it reports, and a new session's beside it: also of a server that
// was started again in between.
TEST(SavingsOfServers, SurviveThem) {
  const TempFolder folder;
  const JobRequest job = small_job("job");
  const auto report_savings = [&](Client& client, std::int64_t session, std::int64_t iterations) {
    PromiseReport report;
    report.version = 1;
    report.iterations = 10;
    report.time = report.at_maximum = Seconds(2);
    report.session = session;
    const auto n = static_cast<double>(iterations);
    report.savings = {iterations, Joules(6 * n), Joules(7 * n), Seconds(2 * n), Seconds(2 * n), Joules(n), Seconds(0)};
    EXPECT_EQ(client.ask("POST", "/v1/jobs/job/promises", to_json(report).dump()).status, 204u);
  };
  const auto expect_savings = [](Client& client, std::int64_t iterations, double error) {
    const JobStatus status = client.status("job");
    const auto n = static_cast<double>(iterations);
    EXPECT_EQ(status.savings.iterations, iterations);
    EXPECT_NEAR(status.savings.energy.value(), 6 * n, 1e-9);
    EXPECT_NEAR(status.savings.energy_at_maximum.value(), 7 * n, 1e-9);
    EXPECT_NEAR(status.savings.energy_error.value(), error, 1e-9);
    // The plan promises less than maximum clocks take.
    EXPECT_GT(status.promised_energy, Joules(0));
    EXPECT_LT(status.promised_energy, status.savings.energy_at_maximum);
  };
  {
    ServerThread server(local_options(folder / "server.db"));
    Client client(server.port(), kToken);
    run_profiling(client, job);
    (void)client.schedule(job.id, 0);
    report_savings(client, 17, 100);
    report_savings(client, 17, 200);
    expect_savings(client, 200, 200.0);
  }
  ServerThread server(local_options(folder / "server.db"));
  Client client(server.port(), kToken);
  (void)client.schedule(job.id, 0);
  expect_savings(client, 200, 200.0);
  report_savings(client, 17, 300);  // the session has joined again
  expect_savings(client, 300, 300.0);
  report_savings(client, 18, 400);     // another process of this rank, that has run longer already
  expect_savings(client, 700, 500.0);  // 300 and 400 are the sides of a right angle
}

// Limits that the plan of maximum clocks would break: it promises a time of its own, and iterations that are longer are
// said. Nobody runs at maximum clocks.
TEST_F(PromiseTest, InsideLimitsIsSaidAndNotGivenUp) {
  JobLimits limits;
  limits.max_power = 0.97 * client_.status("job").power->peak;
  EXPECT_LT(client_.ask("PUT", "/v1/jobs/job/limits", to_json(limits).dump()).status, 300u);
  next_schedule();
  EXPECT_TRUE(newest_.limited);
  EXPECT_EQ(newest_.max_clock_time, Seconds(0));
  const double promised = std::max(newest_.allowed_time, newest_.iteration_time).value();
  report(10, promised);
  EXPECT_EQ(client_.status("job").promise.verdict, PromiseVerdict::kKept);
  report(20, 1.1 * promised, true);
  EXPECT_TRUE(is_newest());
  EXPECT_EQ(client_.status("job").promise.verdict, PromiseVerdict::kSlower);
  EXPECT_NEAR(client_.status("job").promise.promised.value(), promised, 1e-9);
  EXPECT_THAT(client_.status("job").trouble, HasSubstr("promised inside the limits on power"));
  report(40, promised);
  EXPECT_EQ(client_.status("job").promise.verdict, PromiseVerdict::kKept);
}

// An operator's order, beside whatever the promise comes to.
class ClocksOrderTest : public PromiseTest {
 protected:
  static unsigned order(Client& client, const std::string& body) {
    return client.ask("PUT", "/v1/jobs/job/clocks", body).status;
  }
  void order(bool at_maximum) { EXPECT_EQ(order(client_, to_json(ClocksOrder{at_maximum}).dump()), 200u); }
  static std::string computations(const RankSchedule& schedule) { return to_json(schedule).at("computations").dump(); }
};

TEST_F(ClocksOrderTest, HoldsUntilItIsTakenBackAndIsNoFaultOfThePlan) {
  report(10, 2.001);
  const std::string planned = computations(newest_);
  const JobPromise promise = client_.status("job").promise;
  order(true);
  next_schedule();
  EXPECT_TRUE(newest_.at_maximum);
  EXPECT_TRUE(client_.status("job").ordered_maximum);
  // Half as long again as promised: of the plan that says nothing, since it does not run.
  report(200, 3.0, true);
  report(500, 3.0, true);
  EXPECT_TRUE(is_newest());
  EXPECT_EQ(client_.status("job").promise.verdict, PromiseVerdict::kKept);
  EXPECT_EQ(client_.status("job").promise.measured, promise.measured);
  EXPECT_EQ(client_.status("job").trouble, "");
  order(true);
  EXPECT_TRUE(is_newest()) << "told again, it changes nothing";
  order(false);
  next_schedule();
  EXPECT_FALSE(newest_.at_maximum);
  EXPECT_FALSE(client_.status("job").ordered_maximum);
  EXPECT_EQ(computations(newest_), planned);
}

TEST_F(ClocksOrderTest, HoldsForPlansThatAreMadeMeanwhile) {
  report(10, 2.001);
  order(true);
  next_schedule();
  measure_again();
  const auto verdict = [this] { return client_.status("job").promise.verdict; };
  for (int i = 0; i < 2000 && verdict() == PromiseVerdict::kKept; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(verdict(), PromiseVerdict::kUnknown) << "a new plan has not been judged";
  EXPECT_TRUE(client_.schedule("job", 0, 0).value().at_maximum);
}

// A plan that has been given up is still given up when the order is over: its pause is one of iterations by rule.
TEST_F(ClocksOrderTest, LeavesAPlanGivenUpThatWasSo) {
  report(10, 2.1, true);
  next_schedule();
  report(10, 2.0);
  order(true);
  report(500, 2.0);
  order(false);
  report(10, 2.0);
  EXPECT_TRUE(client_.schedule("job", 0, 0).value().at_maximum);
  EXPECT_THAT(client_.status("job").trouble, HasSubstr("iterations by the plan take 2.1 s"));
}

TEST_F(ClocksOrderTest, YieldsToLimitsOnPower) {
  order(true);
  next_schedule();
  JobLimits limits;
  limits.max_power = 0.97 * client_.status("job").power->peak;
  EXPECT_EQ(client_.ask("PUT", "/v1/jobs/job/limits", to_json(limits).dump()).status, 200u);
  next_schedule();
  EXPECT_TRUE(newest_.limited);
  EXPECT_FALSE(newest_.at_maximum);
  EXPECT_THAT(client_.status("job").trouble, HasSubstr("maximum clocks are ordered, but the limits"));
  EXPECT_EQ(client_.ask("PUT", "/v1/jobs/job/limits", "{}").status, 200u);
  next_schedule();
  EXPECT_TRUE(newest_.at_maximum);
  EXPECT_EQ(client_.status("job").trouble, "");
}

TEST_F(ClocksOrderTest, IsRefusedWithoutTheRightOrTheWord) {
  Client nobody(server_.port(), "");
  EXPECT_EQ(order(nobody, R"({"at_maximum":true})"), 401u);
  for (const char* bad : {"", "{}", "[]", R"({"at_maximum":1})", R"({"at_maximum":null})"}) {
    EXPECT_EQ(order(client_, bad), 400u) << bad;
  }
  EXPECT_EQ(client_.ask("PUT", "/v1/jobs/other/clocks", R"({"at_maximum":true})").status, 404u);
  EXPECT_TRUE(is_newest());
}

TEST(ClocksOrders, SurviveTheServer) {
  const TempFolder folder;
  const JobRequest job = small_job("job");
  const auto order = [](Client& client, bool at_maximum) {
    EXPECT_EQ(client.ask("PUT", "/v1/jobs/job/clocks", to_json(ClocksOrder{at_maximum}).dump()).status, 200u);
  };
  std::int64_t version = 0;
  {
    ServerThread server(local_options(folder / "server.db"));
    Client client(server.port(), kToken);
    run_profiling(client, job);
    const RankSchedule planned = client.schedule("job", 0).value();
    order(client, true);
    version = client.schedule("job", 0, planned.version).value().version;
  }
  {
    ServerThread server(local_options(folder / "server.db"));
    Client client(server.port(), kToken);
    const RankSchedule again = client.schedule("job", 0).value();
    EXPECT_TRUE(again.at_maximum);
    EXPECT_EQ(again.version, version) << "the same schedules keep their number";
    order(client, false);
    version = client.schedule("job", 0, version).value().version;
  }
  ServerThread server(local_options(folder / "server.db"));
  Client client(server.port(), kToken);
  EXPECT_FALSE(client.schedule("job", 0).value().at_maximum);
  EXPECT_FALSE(client.status("job").ordered_maximum);
}

TEST_F(PromiseTest, ReportsThatTellNothingChangeNothing) {
  PromiseReport old;
  old.version = newest_.version + 7;
  old.iterations = 10;
  old.time = Seconds(9);
  old.slower = true;
  EXPECT_EQ(ask(old).status, 204u);
  EXPECT_EQ(client_.status("job").promise.verdict, PromiseVerdict::kUnknown);
  old.rank = 1999;
  EXPECT_EQ(ask(old).status, 409u);
  for (const char* bad :
       {R"({"rank":0,"version":1,"iterations":10,"time_s":-1})", R"({"rank":0,"version":1,"iterations":0,"time_s":1})",
        R"({"rank":0,"version":1,"iterations":10,"time_s":1e300})",
        R"({"rank":0,"version":1,"iterations":10,"time_s":1,"slower":1})", R"({"rank":0,"version":1,"iterations":10})",
        R"([])"}) {
    EXPECT_EQ(client_.ask("POST", "/v1/jobs/job/promises", bad).status, 400u) << bad;
  }
  EXPECT_TRUE(is_newest());
}

}  // namespace
}  // namespace flyball
