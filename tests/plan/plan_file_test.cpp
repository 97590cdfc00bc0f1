#include "plan/plan_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "plan/perseus.h"
#include "support/expect_error.h"
#include "support/pipelines.h"
#include "support/small_pipelines.h"

namespace flyball {
namespace {

using ::testing::Each;

const std::vector<Watts> kBlocking(3, Watts(75.0));

// A DAG with every feature that the file knows: transfers, operations of the whole iteration, chunks.
ComputationDag rich_dag() {
  PipelineSpec spec;
  spec.schedule = ScheduleKind::kInterleaved1f1b;
  spec.microbatches = 6;
  spec.chunks = 2;
  spec.p2p = ConstantOperation{Seconds(0.001), Joules(0.0)};
  spec.gradient_sync = ConstantOperation{Seconds(0.05), Joules(4.0)};
  return build_dag(spec, testing::modelled_profile({0.031, 0.033, 0.0295}));
}

ClockPlan random_plan(const ComputationDag& dag, std::mt19937& random) {
  ClockPlan plan;
  for (int i = 0; i < dag.size(); ++i) {
    plan.push_back(static_cast<std::uint16_t>(random() % dag.type_of(i).options.size()));
  }
  return plan;
}

// Points whose times and energies are made up: the file does not care whether they are right.
Frontier random_frontier(const ComputationDag& dag, int points, std::mt19937& random) {
  Frontier frontier(Watts(225.0));
  ClockPlan plan = random_plan(dag, random);
  for (int k = 0; k < points; ++k) {
    const ClockPlan other = random_plan(dag, random);
    for (std::size_t i = random() % 3; i < plan.size(); i += 1 + random() % 9) plan[i] = other[i];
    FrontierPoint point;
    point.time = 1'000'000'007 + k * 1'234'567;
    point.net_joules = 900.0 - k * 1.0 / 3.0;
    if (k % 5 != 0) point.net_lower_bound = point.net_joules - 0.1;
    frontier.add(point, plan);
  }
  frontier.finish();
  return frontier;
}

// What waiting takes above the lowest power, and which operations wait, are read back; some options alone cannot have
// it.
TEST(PlanFile, KeepsThePowerOfWaitingByClock) {
  Profile profile = testing::modelled_profile({0.031, 0.033});
  for (int stage = 0; stage < 2; ++stage) {
    OperationProfile waiting{stage, "waiting", {}, 0};
    for (const ClockOption& option : profile.operations.front().options) {
      waiting.options.push_back({option.frequency, Seconds(1), Joules(60 + 0.05 * option.frequency.value())});
    }
    profile.operations.push_back(waiting);
  }
  PipelineSpec spec;
  spec.microbatches = 4;
  spec.optimizer_step = ConstantOperation{Seconds(0.01)};
  const ComputationDag dag = build_dag(spec, profile);
  const std::vector<Watts> blocking = spec.blocking_powers(2, profile);
  const PlanProblem problem = make_problem(dag, blocking, 1'000'000, CostModel::kHull);
  const Frontier frontier = make_perseus()->plan(problem, {}).frontier;
  const std::string text = write_plan_json({"perseus", "p.csv", "1f1b", 0}, dag, blocking, frontier);
  const PlanFile read = read_plan_json("plan.json", text);
  std::size_t waits = 0;
  for (std::size_t t = 0; t < dag.types().size(); ++t) {
    EXPECT_EQ(read.dag.types()[t].waiting_above, dag.types()[t].waiting_above);
    EXPECT_EQ(read.dag.types()[t].waits, dag.types()[t].waits);
    waits += dag.types()[t].waits ? 1 : 0;
  }
  EXPECT_EQ(waits, 2u);
  for (std::size_t k = 0; k < frontier.size(); ++k) {
    EXPECT_GT(frontier.points()[k].waiting_above, Watts(0));
    EXPECT_EQ(read.frontier.points()[k].waiting_above, frontier.points()[k].waiting_above);
  }
  EXPECT_EQ(read.dag.clocks_asked(), ClocksAsked::kWhenFree);
  nlohmann::json older = nlohmann::json::parse(text);
  older.erase("clocks_asked");
  EXPECT_EQ(read_plan_json("plan.json", older.dump()).dag.clocks_asked(), ClocksAsked::kAtBegin);
  older["clocks_asked"] = "never";
  expect_input_error([&] { static_cast<void>(read_plan_json("plan.json", older.dump())); }, 0, 0,
                     "clocks_asked: no engine asks for clocks then");
  nlohmann::json broken = nlohmann::json::parse(text);
  broken.at("types").at(0).at("options").at(1).erase("waiting_above_w");
  expect_input_error([&] { static_cast<void>(read_plan_json("plan.json", broken.dump())); }, 0, 0, "waiting_above_w");
}

TEST(PlanFile, RoundTripGivesEveryPlanBack) {
  std::mt19937 random(7);
  const ComputationDag dag = rich_dag();
  const Frontier frontier = random_frontier(dag, 40, random);
  const std::string text =
      write_plan_json({"perseus", "a \"b\" \xc3\xbc.csv", "interleaved-1f1b", 3}, dag, kBlocking, frontier);
  const PlanFile file = read_plan_json("plan.json", text);

  EXPECT_EQ(file.header.planner, "perseus");
  EXPECT_EQ(file.header.source, "a \"b\" \xc3\xbc.csv");
  EXPECT_EQ(file.header.schedule, "interleaved-1f1b");
  EXPECT_EQ(file.header.selected, 3U);
  EXPECT_EQ(file.blocking, kBlocking);
  ASSERT_EQ(file.dag.size(), dag.size());
  EXPECT_EQ(file.dag.edge_count(), dag.edge_count());
  for (int i = 0; i < dag.size(); ++i) {
    ASSERT_EQ(file.dag.label(i), dag.label(i));
    ASSERT_EQ(file.dag.type_of(i).occupies_stage, dag.type_of(i).occupies_stage);
  }
  ASSERT_EQ(file.frontier.size(), frontier.size());
  for (std::size_t k = 0; k < frontier.size(); ++k) {
    ASSERT_EQ(file.frontier.plan(k), frontier.plan(k)) << "point " << k;
    EXPECT_EQ(file.frontier.points()[k].time, frontier.points()[k].time);
    EXPECT_NEAR(file.frontier.points()[k].net_joules, frontier.points()[k].net_joules, 1e-9);
    EXPECT_EQ(std::isnan(file.frontier.points()[k].net_lower_bound), k % 5 == 0);
  }
  // The DAG that was read is the DAG that was written: plans take as long on it.
  EXPECT_EQ(emulate(file.dag, plan_durations(file.dag, frontier.plan(5))).makespan,
            emulate(dag, plan_durations(dag, frontier.plan(5))).makespan);
  EXPECT_EQ(write_plan_json(file.header, file.dag, file.blocking, file.frontier), text);
}

TEST(PlanFile, OperationsMayBeListedInAnyOrder) {
  std::mt19937 random(3);
  const ComputationDag dag = testing::dag_of(testing::modelled_profile({0.03, 0.04, 0.05}), 4);
  const Frontier frontier = random_frontier(dag, 6, random);
  auto json = nlohmann::json::parse(write_plan_json({"p", "s", "1f1b", {}}, dag, kBlocking, frontier));
  // Reverse the list: operation i becomes n - 1 - i.
  const int n = dag.size();
  std::reverse(json["operations"].begin(), json["operations"].end());
  for (auto& operation : json["operations"]) {
    for (auto& before : operation["after"]) before = n - 1 - before.get<int>();
  }
  std::reverse(json["points"][0]["clocks_mhz"].begin(), json["points"][0]["clocks_mhz"].end());
  for (auto& point : json["points"]) {
    if (!point.contains("edits")) continue;
    for (auto& edit : point["edits"]) edit[0] = n - 1 - edit[0].get<int>();
  }
  const PlanFile file = read_plan_json("plan.json", json.dump());
  EXPECT_FALSE(file.header.selected.has_value());
  for (std::size_t k = 0; k < frontier.size(); ++k) {
    const ClockPlan plan = file.frontier.plan(k);
    for (int i = 0; i < n; ++i) {
      const int was = n - 1 - file.dag.original_index(i);
      ASSERT_EQ(plan[static_cast<std::size_t>(i)], frontier.plan(k)[static_cast<std::size_t>(was)]);
      ASSERT_EQ(file.dag.label(i), dag.label(was));
    }
  }
}

TEST(PlanFile, PointsHoldOnlyWhatChanges) {
  const ComputationDag dag = testing::dag_of(testing::modelled_profile({0.03, 0.04, 0.05}), 8);
  Frontier frontier(Watts(225.0));
  ClockPlan plan(static_cast<std::size_t>(dag.size()), 0);
  FrontierPoint point;
  point.time = 100;
  point.net_joules = 10.0;
  frontier.add(point, plan);
  plan[4] = 2;
  point.time = 200;
  point.net_joules = 9.0;
  frontier.add(point, plan);
  const auto json = nlohmann::json::parse(write_plan_json({"p", "s", "1f1b", {}}, dag, kBlocking, frontier));
  EXPECT_THAT(json["points"][0]["clocks_mhz"], Each(1410.0));
  EXPECT_EQ(json["points"][1]["edits"].dump(), "[[4,1380]]");
  EXPECT_TRUE(json["points"][1]["lower_bound_j"].is_null());
}

// A small plan to spoil: two operations, two points.
constexpr const char* kSmall = R"({
"format": "flyball-plan", "version": 1, "planner": "p", "source": "s", "schedule": "", "stages": 1,
"blocking_w": [75], "selected": 1,
"types": [{"stage": 0, "instruction": "forward", "occupies_stage": true,
  "options": [{"clock_mhz": 1410, "time_s": 0.1, "energy_j": 30},
              {"clock_mhz": 1200, "time_s": 0.12, "energy_j": 25}]}],
"operations": [{"stage": 0, "instruction": "forward", "microbatch": 0, "after": []},
               {"stage": 0, "instruction": "forward", "microbatch": 1, "after": [0]}],
"points": [{"time_s": 0.2, "energy_j": 60, "lower_bound_j": 59, "clocks_mhz": [1410, 1410]},
           {"time_s": 0.22, "energy_j": 55, "lower_bound_j": null, "edits": [[1, 1200]]}]
})";

std::string replaced(const std::string& what, const std::string& with) {
  std::string text = kSmall;
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

void expect_refused(const std::string& text, const std::string& words) {
  expect_input_error([&] { static_cast<void>(read_plan_json("plan.json", text)); }, 0, 0, words);
}

TEST(PlanFile, ReadsTheSmallPlan) {
  const PlanFile file = read_plan_json("plan.json", kSmall);
  EXPECT_EQ(file.frontier.plan(1), (ClockPlan{0, 1}));
  EXPECT_EQ(file.frontier.energy(1), Joules(55.0));
}

TEST(PlanFile, SyntaxErrorsHaveLineAndColumn) {
  expect_input_error([] { static_cast<void>(read_plan_json("plan.json", "{\n  \"format\": oops}")); }, 2, 13,
                     "plan.json:2:13");
  expect_input_error([] { static_cast<void>(read_plan_json("plan.json", "")); }, 1, 1, "this is no JSON");
}

TEST(PlanFile, RefusesWhatIsNoPlan) {
  expect_refused("[]", "this is no object");
  expect_refused("{}", "'format' is missing");
  expect_refused(replaced("flyball-plan", "other"), "no plan of format");
  expect_refused(replaced("\"version\": 1", "\"version\": 2"), "no plan of format");
  expect_refused(replaced("\"stages\": 1", "\"stages\": 2"), "blocking_w: 1 powers");
  expect_refused(replaced("[75]", "[-75]"), "blocking_w[0]: -75 is out of range");
  expect_refused(replaced("\"selected\": 1", "\"selected\": 2"), "selected: there is no such point");
  expect_refused(replaced("\"clock_mhz\": 1200", "\"clock_mhz\": 1410"),
                 "types[0].options[1]: this clock stands twice");
  expect_refused(replaced("\"time_s\": 0.1,", "\"time_s\": \"x\","), "types[0].options[0].time_s: this is no number");
  expect_refused(replaced("\"forward\", \"microbatch\": 1", "\"reward\", \"microbatch\": 1"),
                 "operations[1]: 'types' has no 'reward' of stage 0");
  expect_refused(replaced("\"after\": [0]", "\"after\": [2]"), "operations[1].after[0]: there is no such operation");
  expect_refused(replaced("\"after\": []", "\"after\": [1]"), "cycle");
  expect_refused(replaced("[1410, 1410]", "[1410]"), "points[0].clocks_mhz: 1 clocks for 2 operations");
  expect_refused(replaced("[[1, 1200]]", "[[1, 1201]]"), "points[1].edits[0][1]: the operation has no such clock");
  expect_refused(replaced("[[1, 1200]]", "[[1]]"), "points[1].edits[0]: this is no pair");
  expect_refused(replaced("[[1, 1200]]", "[[-1, 1200]]"), "points[1].edits[0][0]: there is no such operation");
  expect_refused(replaced("\"time_s\": 0.22", "\"time_s\": 0.2"), "points[1]: the point is no better");
  expect_refused(replaced("\"energy_j\": 55", "\"energy_j\": 65"), "points[1]: the point is no better");
  expect_refused(replaced("\"energy_j\": 55", "\"energy_j\": 1e999"), "too large");
  expect_refused(replaced("\"time_s\": 0.12", "\"time_s\": 6e8"), "operations: they take more than 1e9 s in all");
}

TEST(PlanFile, RefusesTypesThatCannotBeToldApart) {
  const OperationType type{0, "forward", {{Megahertz(1410), Seconds(0.1), Joules(30)}}, true};
  const ComputationDag dag("test", 1, {type, type}, {{0, 0, 0}, {1, 1, 0}}, {{0, 1}});
  Frontier frontier(Watts(75.0));
  frontier.add({200, 1.0}, {0, 0});
  EXPECT_THROW(static_cast<void>(write_plan_json({"p", "s", "", {}}, dag, {Watts(75.0)}, frontier)), Error);
}

// Keys that the writer writes and keys that the schema asks for are the same.
TEST(PlanFile, SchemaNamesTheKeysThatAreWritten) {
  const auto schema = nlohmann::json::parse(
      read_text_file(std::filesystem::path(FLYBALL_SOURCE_DIR) / "docs/formats/plan.schema.json"));
  std::mt19937 random(1);
  const ComputationDag dag = rich_dag();
  const auto plan =
      nlohmann::json::parse(write_plan_json({"p", "s", "", 0}, dag, kBlocking, random_frontier(dag, 3, random)));
  const auto expect_keys = [](const nlohmann::json& value, const nlohmann::json& definition) {
    for (const auto& key : definition["required"]) EXPECT_TRUE(value.contains(key)) << key;
    for (const auto& [key, unused] : value.items()) EXPECT_TRUE(definition["properties"].contains(key)) << key;
  };
  const auto& definitions = schema["$defs"];
  expect_keys(plan, schema);
  for (const auto& type : plan["types"]) expect_keys(type, definitions["type"]);
  for (const auto& operation : plan["operations"]) expect_keys(operation, definitions["operation"]);
  auto first = definitions["first_point"];
  first["properties"].update(definitions["point"]["properties"]);
  expect_keys(plan["points"][0], first);
  auto next = definitions["next_point"];
  next["properties"].update(definitions["point"]["properties"]);
  expect_keys(plan["points"][2], next);
}

}  // namespace
}  // namespace flyball
