// flyball jobs and flyball cluster report, asking a planning server.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <string>
#include <thread>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "server/reporting_ranks.h"
#include "server/test_server.h"

namespace flyball::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class Jobs : public ::testing::Test {
 protected:
  Jobs() : server_(with_administrator()), client_(server_.port(), kToken) {
    write_file(folder_ / "admin", std::string(kAdministrator) + "\n");
    write_file(folder_ / "job", std::string(kToken) + "\n");
  }

  static PlanningServerOptions with_administrator() {
    PlanningServerOptions options = local_options();
    options.administrator_token = kAdministrator;
    options.open_registration = true;
    return options;
  }

  // Two stages, each of which has run ten iterations: 60 J less than the 500 J of maximum clocks, give or take 3 J.
  void plan_and_run(const std::string& job = "job") {
    run_profiling(client_, small_job(job));
    const auto schedule = client_.schedule(job, 0, 0);
    ASSERT_TRUE(schedule);
    for (int rank = 0; rank < 2; ++rank) {
      PromiseReport report;
      report.rank = rank;
      report.version = schedule->version;
      report.iterations = 10;
      report.time = schedule->iteration_time;
      report.at_maximum = schedule->max_clock_time;
      report.savings.iterations = 10;
      report.savings.energy = Joules(440);
      report.savings.energy_at_maximum = Joules(500);
      report.savings.energy_error = Joules(3);
      report.session = 1 + rank;
      const Response response = client_.ask("POST", "/v1/jobs/" + job + "/promises", to_json(report).dump());
      ASSERT_EQ(response.status, 204u) << response.body;
    }
  }

  [[nodiscard]] Ran jobs(std::vector<std::string> arguments, const std::string& token = "admin") const {
    arguments.insert(arguments.begin(), {"jobs", "--server", fmt::format("127.0.0.1:{}", server_.port())});
    if (!token.empty()) arguments.insert(arguments.end(), {"--token-file", folder_ / token});
    return run_flyball(arguments, "", folder_.path());
  }

  TempFolder folder_;
  ServerThread server_;
  Client client_;
};

TEST_F(Jobs, AreListed) {
  EXPECT_EQ(jobs({}).out, "the server has no jobs\n");
  plan_and_run();
  JobRequest other = small_job("other");
  client_.post("/v1/jobs", to_json(other), 201);
  const Ran ran = jobs({});
  EXPECT_EQ(ran.status, 0) << ran.err;
  // 2 * 60 J, with an error of sqrt(2) * 3 J.
  EXPECT_THAT(ran.out, AllOf(HasSubstr("ready"), HasSubstr("perseus"), HasSubstr("0.12 ± 0.0042")));
  EXPECT_THAT(ran.out, AllOf(HasSubstr("other"), HasSubstr("registering 0/2")));
}

TEST_F(Jobs, AreShownToTheirOwnersAndTheAdministrator) {
  plan_and_run();
  for (const char* token : {"admin", "job"}) {
    const Ran ran = jobs({"job"}, token);
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_THAT(ran.out, AllOf(HasSubstr("a small job"), HasSubstr("2 GPUs: stages 2, pipelines 1, GPUs per stage 1;"),
                               HasSubstr("in 10 iterations by plan")));
  }
  EXPECT_NE(jobs({}, "job").status, 0);
  const Ran refused = jobs({"job"}, "");
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.err, HasSubstr("401"));
  EXPECT_THAT(jobs({"nobody"}).err, HasSubstr("404"));
}

TEST_F(Jobs, AreWrittenAsTheServerTellsThem) {
  plan_and_run();
  const Ran ran = jobs({"--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto told = nlohmann::json::parse(ran.out).at("jobs").at(0);
  EXPECT_EQ(told.at("job"), "job");
  EXPECT_EQ(told.at("compared_iterations"), 10);
  EXPECT_EQ(told.at("compared_energy_at_maximum_j"), 1000.0);
}

// A row has the savings of its jobs; where none is known, there is nothing, and not 0.
TEST_F(Jobs, GiveTheirSavingsToTheReportOfTheCluster) {
  plan_and_run("slurm-1041");
  plan_and_run("slurm-1041.second");
  plan_and_run("slurm-77");
  plan_and_run("1042");
  client_.post("/v1/jobs", to_json(small_job("slurm-1043")), 201);
  write_file(folder_ / "jobs.csv",
             "job,user,node,gpus,begin_s,seconds,energy_j\n1041,ann,n1,0,1795219200,10,2000\n"
             "1042,ann,n1,1,1795219200,10,1000\n1043,bob,n1,2,1795219200,10,500\n");
  const auto report = [&](const std::string& by) {
    const Ran ran = run_flyball({"cluster", "report", "--by", by, "--format", "json", "--token-file", folder_ / "admin",
                                 "--server", fmt::format("127.0.0.1:{}", server_.port()), folder_ / "jobs.csv"});
    EXPECT_EQ(ran.status, 0) << ran.err;
    return ran.json();
  };
  const nlohmann::json jobs = report("job");
  EXPECT_EQ(jobs["rows"][0]["job"], 1041);
  EXPECT_EQ(jobs["rows"][0]["saved_j"], 240.0);  // twice that of two ranks, 60 J each
  EXPECT_EQ(jobs["rows"][1]["job"], 1042);
  EXPECT_EQ(jobs["rows"][1]["saved_j"], nullptr);
  EXPECT_EQ(jobs["rows"][2]["saved_j"], nullptr);
  const nlohmann::json users = report("user");
  EXPECT_EQ(users["rows"][0]["user"], "ann");
  EXPECT_EQ(users["rows"][0]["saved_j"], 240.0);
  EXPECT_EQ(users["rows"][1]["saved_j"], nullptr);
  EXPECT_EQ(users["total"]["saved_j"], 240.0);
}

// A server without an administrator's token lists its jobs to everybody, and nothing more.
TEST(JobsOfAnOpenServer, AreListed) {
  ServerThread server;
  Client client(server.port(), kToken);
  client.post("/v1/jobs", to_json(small_job("open")), 201);
  const Ran ran = run_flyball({"jobs", "--server", fmt::format("127.0.0.1:{}", server.port())});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("open"), HasSubstr("registering 0/2")));
  EXPECT_THAT(ran.err, HasSubstr("give --token-file"));
  EXPECT_THAT(run_flyball({"jobs", "--server", "127.0.0.1:1"}).err, Not(HasSubstr("terminate")));
}

// The second backward of the first stage takes 12.5 ms more than planned; its place in the schedule is looked up.
TEST_F(Jobs, ShowTheirLastIterationBesideThePlan) {
  EXPECT_THAT(jobs({"--iteration"}).err, HasSubstr("name the JOB"));
  const JobRequest job = small_job();
  run_profiling(client_, job);
  Ranks ranks(client_, job);
  ASSERT_TRUE(ranks.fetch());
  EXPECT_THAT(jobs({"job", "--iteration"}).out, HasSubstr("no iteration by a schedule has been reported yet"));
  DelayOfOne delay{0, 0, Seconds(0.0125)};
  const auto& computations = ranks.schedules()[0].computations;
  while (computations[delay.computation].instruction != "backward" || computations[delay.computation].microbatch != 1)
    ++delay.computation;
  for (const StepReport& report : ranks.run(3, delay)) ranks.report(report);
  const Ran ran = jobs({"job", "--iteration"}, "job");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("job: step 3 by schedule 1, measured "));
  const std::string clock = fmt::format("{}", computations[delay.computation].clock_mhz);
  EXPECT_THAT(ran.out, ContainsRegex("\n *0  backward +1 +" + clock + " .* 12\\.50 +12\\.50\n$"));
  EXPECT_THAT(ran.out, ContainsRegex("\n *1 +8 .* 0\\.00  host\n"));
  const nlohmann::json told = nlohmann::json::parse(jobs({"job", "--iteration", "--format", "json"}).out);
  EXPECT_EQ(told, client_.get("/v1/jobs/job/iteration"));
}

}  // namespace
}  // namespace flyball::testing
