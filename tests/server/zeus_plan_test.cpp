// Jobs that run the server's plan file, and servers that come back with another one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "database/database.h"
#include "pipeline/pipeline_spec.h"
#include "plan/plan_file.h"
#include "plan/planner.h"
#include "profile/profile.h"
#include "server/given_plan.h"
#include "server/test_server.h"
#include "support/expect_error.h"

namespace flyball::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A plan of that many stages: all clocks at their highest, or the frontier's last point.
std::string plan_file(const std::string& path, int stages, bool slow) {
  SynthRequest synth;
  synth.stages = stages;
  const Profile profile = synthesize_profile(synth).profile;
  PipelineSpec spec;
  spec.stages = stages;
  spec.microbatches = 4;
  const ComputationDag dag = build_dag(spec, profile);
  const PlanProblem problem = make_problem(dag, spec.blocking_powers(stages, profile), 1'000'000, CostModel::kHull);
  const PlannerResult result = make_planner(slow ? "uniform" : "max")->plan(problem, [](double) { return true; });
  PlanFileHeader header{slow ? "uniform" : "max", "test", "1f1b", result.frontier.size() - 1};
  std::ofstream(path) << write_plan_json(header, dag, problem.blocking, result.frontier);
  return path;
}

PlanningServerOptions with_plan(const std::string& database, const std::string& plan) {
  PlanningServerOptions options = local_options(database);
  options.zeus_plan = plan;
  return options;
}

constexpr int kStages = 4;

std::string register_with_ranks(Client& client) {
  const nlohmann::json job = client.post(
      "/register_job",
      {{"job_id", ""}, {"pp_degree", kStages}, {"dp_degree", 1}, {"tp_degree", 1}, {"world_size", kStages}});
  const std::string id = job.get<std::string>();
  for (int rank = 0; rank < kStages; ++rank) {
    client.post(
        "/register_rank/" + id,
        {{"rank", rank}, {"dp_rank", 0}, {"pp_rank", rank}, {"tp_rank", 0}, {"available_frequencies", {1410, 1395}}});
  }
  return id;
}

class ZeusPlan : public ::testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> troubles(const std::string& plan) const {
    EventLoop loop;
    return PlanningServer(loop, with_plan(database_, plan)).troubles();
  }

  // What every rank of the job is told by a server with that plan.
  std::vector<Response> ask_all(const std::string& plan, const std::string& id) const {
    ServerThread server(with_plan(database_, plan));
    Client client(server.port());
    std::vector<Response> answers;
    for (int rank = 0; rank < kStages; ++rank) {
      answers.push_back(client.ask("GET", "/schedule/" + id + "?rank=" + std::to_string(rank)));
    }
    EXPECT_EQ(client.ask("GET", "/healthz").status, 200u);
    return answers;
  }

  std::string register_with(const std::string& plan) const {
    ServerThread server(with_plan(database_, plan));
    Client client(server.port());
    return register_with_ranks(client);
  }

  TempFolder folder_;
  const std::string database_ = folder_ / "server.db";
  const std::string four_ = plan_file(folder_ / "four.json", kStages, false);
  const std::string other_four_ = plan_file(folder_ / "other.json", kStages, true);
  const std::string two_ = plan_file(folder_ / "two.json", 2, false);
};

// What PipelineFrequencyOptimizer of zeus 0.16.0 sends first, recorded; with any other answer than 200 it raises
// RuntimeError with the answer's text. Users write into job_metadata what they like.
TEST_F(ZeusPlan, ZeusOwnClientIsRefusedWithoutAPlanOfItsStages) {
  for (const char* metadata : {"null", R"("run 7")", R"("microbatches=4 schedule=1f1b")"}) {
    const std::string recorded =
        std::string(R"({"job_id":"","pp_degree":4,"dp_degree":1,"tp_degree":1,"world_size":4,)") +
        R"("job_metadata":)" + metadata + "}";
    for (const auto& [plan, had] : {std::pair(std::string(), "(none)"), std::pair(two_, "(one of 2)")}) {
      ServerThread server(with_plan("", plan));
      Client client(server.port());
      const Response answer = client.ask("POST", "/register_job", recorded);
      EXPECT_EQ(answer.status, 422u) << answer.body;
      EXPECT_THAT(answer.body, AllOf(HasSubstr("no plan of 4 stages"), HasSubstr(had), HasSubstr("--zeus-plan"),
                                     HasSubstr("asks for one schedule and reports nothing")));
    }
    ServerThread server(with_plan("", four_));
    EXPECT_EQ(Client(server.port()).ask("POST", "/register_job", recorded).status, 200u);
  }
}

TEST_F(ZeusPlan, AServerWithAnotherPlanGivesTheJobNone) {
  const std::string id = register_with(four_);
  const std::vector<Response> first = ask_all(four_, id);
  for (const Response& answer : first) EXPECT_EQ(answer.status, 200u) << answer.body;
  EXPECT_THAT(troubles(four_), IsEmpty());

  for (const auto& [plan, stages] : {std::pair(two_, "of 2;"), std::pair(other_four_, "of 4;")}) {
    const auto told = troubles(plan);
    ASSERT_EQ(told.size(), 1u);
    EXPECT_THAT(told[0], AllOf(HasSubstr(id), HasSubstr("plan file of 4 stages"), HasSubstr(stages)));
    for (const Response& answer : ask_all(plan, id)) {
      EXPECT_EQ(answer.status, 409u);
      EXPECT_THAT(answer.body, HasSubstr("start the server with the plan that the job was given"));
    }
  }
  EXPECT_THAT(troubles(""), ::testing::ElementsAre(HasSubstr("without the plan file")));

  // With its own plan again, all is as it was.
  const std::vector<Response> again = ask_all(four_, id);
  for (std::size_t rank = 0; rank < again.size(); ++rank) EXPECT_EQ(again[rank].body, first[rank].body);
}

TEST_F(ZeusPlan, TheJobItselfSaysWhatIsWrong) {
  const std::string id = register_with(four_);
  PlanningServerOptions options = with_plan(database_, two_);
  options.administrator_token = "administrator-administrator-administrator";
  ServerThread server(options);
  Client administrator(server.port(), *options.administrator_token);
  const JobStatus status = administrator.status(id);
  EXPECT_EQ(status.state, JobState::kFailed);
  EXPECT_THAT(status.trouble, HasSubstr("plan file of 4 stages"));
  // A rank that comes late is told as well, rather than taken for a schedule that it cannot get.
  const std::string rank = R"({"rank":0,"dp_rank":0,"pp_rank":0,"tp_rank":0,"available_frequencies":[1410]})";
  EXPECT_EQ(administrator.ask("POST", "/register_rank/" + id, rank).status, 409u);
}

TEST_F(ZeusPlan, AJobOfAnOlderDatabaseTakesTheFirstPlanThatFits) {
  const std::string id = register_with(four_);
  {
    Database database(database_);
    database.execute("ALTER TABLE jobs DROP COLUMN given_plan; PRAGMA user_version=3");
  }
  EXPECT_THAT(troubles(two_), ::testing::SizeIs(1));
  EXPECT_EQ(ask_all(four_, id)[3].status, 200u);
  EXPECT_EQ(ask_all(other_four_, id)[3].status, 409u);
}

// The server hands out clocks: Kareus's labels reach its trainer by another file, a power limit would reach nobody.
TEST(GivenPlanOfLabels, HasTheirClocksAndNoPowerLimits) {
  const auto given = [](const std::string& column) {
    const Profile profile = read_profile("p.csv", "stage,instruction,frequency," + column +
                                                      ",time,energy\n0,forward,1410,250,0.1,30\n"
                                                      "0,forward,1410,200,0.12,25\n0,backward,1410,,0.2,50\n");
    PipelineSpec spec;
    spec.microbatches = 1;
    const ComputationDag dag = build_dag(spec, profile);
    const PlanProblem problem = make_problem(dag, {Watts(75)}, 1'000'000, CostModel::kHull);
    const PlannerResult result = make_planner("perseus")->plan(problem, {});
    const std::string text = write_plan_json({"perseus", "p", "1f1b", 0}, dag, problem.blocking, result.frontier);
    return given_plan_of(read_plan_json("plan.json", text), "plan.json");
  };
  EXPECT_EQ(given("sm").tails.at(0), R"("frequencies":[["forward",1410],["backward",1410]]})");
  expect_input_error([&] { static_cast<void>(given("power_limit")); }, 0, 0, "sets a power limit of 250 W");
}

}  // namespace
}  // namespace flyball::testing
