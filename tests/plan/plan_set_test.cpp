#include "plan/plan_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/index.h"
#include "support/pipelines.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;

// Two stages, one microbatch: F0 of stage 0, F0 of stage 1, B0 of stage 1, B0 of stage 0, each after the one before.
struct Small {
  Profile profile = read_profile("p.csv",
                                 "stage,instruction,frequency,time,energy\n"
                                 "0,forward,1410,0.1,30\n0,forward,1200,0.12,20\n0,backward,1410,0.2,60\n"
                                 "1,forward,1410,0.1,30\n1,backward,1410,0.2,60\n1,backward,900,0.3,40\n");
  ComputationDag dag = testing::dag_of(profile, 1);

  [[nodiscard]] int operation(int stage, const std::string& instruction) const {
    int i = 0;
    while (dag.type_of(i).stage != stage || dag.type_of(i).instruction != instruction) ++i;
    return i;
  }
  // All at their first option, but for these.
  [[nodiscard]] ClockPlan lowered(const std::vector<int>& operations) const {
    ClockPlan plan(at(dag.size()), 0);
    for (const int i : operations) plan[at(i)] = 1;
    return plan;
  }
};

// The character of a number is that of code point 40 more: '(' is 0, ')' 1, '*' 2.
TEST(PlanSet, HasACharacterForEachNumber) {
  const Small small;
  const int first = small.operation(0, "forward");
  Frontier frontier(Watts(150));
  frontier.add({600'000'000, 100.0}, small.lowered({}));
  frontier.add({620'000'000, 87.0}, small.lowered({first}));
  frontier.finish();
  const ClockPlan fastest = small.lowered({});
  const std::vector<Nanoseconds> usual = plan_durations(small.dag, fastest);
  std::vector<Nanoseconds> late = usual;
  late[0] += 5;
  const PlanSet set{{Watts(75), Watts(75)},
                    {{"perseus", &small.dag, &frontier, 1}},
                    {"joint"},
                    {{"as fast as it gets", Joules(270), Joules(0), &small.dag, &fastest, usual},
                     {"late", Joules(271), Joules(5), &small.dag, &fastest, late}}};
  const nlohmann::json json = nlohmann::json::parse(plan_set_json(set, 1000));
  EXPECT_EQ(json.at("stages"), 2);
  const nlohmann::json& order = json.at("orders").at(0);
  EXPECT_EQ(json.at("orders").size(), 1U) << "all plans are in one order";
  EXPECT_EQ(order.at("microbatch"), "))))");
  EXPECT_EQ(order.at("chunk"), "((((");
  EXPECT_EQ(order.at("waits"), "())*") << "the last waits for its stage's forward, too";
  EXPECT_EQ(order.at("distance"), "))+)");
  const nlohmann::json& points = json.at("plans").at(0).at("points");
  EXPECT_EQ(points.at(0).at("options"), "((((");
  std::string lowered = "((((";
  lowered[at(small.dag[first].type)] = ')';  // each type has one operation
  EXPECT_EQ(points.at(1).at("options"), lowered);
  EXPECT_EQ(points.at(1).at("time_s"), 0.62);
  EXPECT_EQ(points.at(1).at("energy_j"), 87.0 + 150.0 * 0.62);
  EXPECT_EQ(json.at("plans").at(0).at("selected"), 1);
  EXPECT_FALSE(json.at("iterations").at(0).contains("durations_ns")) << "its options say it";
  EXPECT_EQ(json.at("iterations").at(1).at("durations_ns").at(0), 100'000'005);
  EXPECT_EQ(json.at("iterations").at(1).at("straggler_wait_j"), 5);
  const nlohmann::json& type = json.at("types").at(static_cast<std::size_t>(small.dag[first].type));
  EXPECT_EQ(type.at("letters"), "F");
  EXPECT_THAT(type.at("clocks_mhz"), ElementsAre(1410, 1200));
  EXPECT_THAT(type.at("energies_j"), ElementsAre(30, 20));
}

// An operation that waits for the 55,999th before it: 55,999 + 40 = 0xDAE7 would be a surrogate, so that it is 0xE2E7,
// in UTF-8 EE 8B A7. One that is 1,000 away: 1,040 = 0x410, D0 90.
TEST(PlanSet, GreatNumbersAreCharactersToo) {
  constexpr int kCount = 56'000;
  std::vector<OperationType> types(1);
  types[0].instruction = "forward";
  types[0].options = {{Megahertz(1410), Seconds(0.001), Joules(1)}};
  std::vector<ComputationDag::Edge> edges;
  for (int i = 1; i < kCount; ++i) edges.push_back({i - 1, i});
  edges.push_back({0, kCount - 1});
  edges.push_back({0, 1000});
  const ComputationDag dag("", 1, types, std::vector<Computation>(kCount), edges);
  const ClockPlan plan(kCount, 0);
  const std::vector<Nanoseconds> durations = plan_durations(dag, plan);
  const PlanSet set{{Watts(75)}, {}, {}, {{"", Joules(0), Joules(0), &dag, &plan, durations}}};
  const std::string distance = nlohmann::json::parse(plan_set_json(set, 0)).at("orders").at(0).at("distance");
  EXPECT_NE(distance.find("\xee\x8b\xa7"), std::string::npos);
  EXPECT_NE(distance.find("\xd0\x90"), std::string::npos);
}

// Two microbatches: forwards of stage 0 stand first, in their order, then its backwards, then those of stage 1,
// wherever they stand in the schedule.
TEST(PlanSet, OptionsStandByTypes) {
  const Small small;
  const ComputationDag dag = testing::dag_of(small.profile, 2);
  ClockPlan plan(at(dag.size()), 0);
  for (int i = 0; i < dag.size(); ++i) {
    const OperationType& type = dag.type_of(i);
    const bool is_lowered = type.stage == 0 ? type.instruction == "forward" && dag[i].microbatch == 1
                                            : type.instruction == "backward" && dag[i].microbatch == 0;
    if (is_lowered) plan[at(i)] = 1;
  }
  const std::vector<Nanoseconds> durations = plan_durations(dag, plan);
  const PlanSet set{{Watts(75), Watts(75)}, {}, {}, {{"", Joules(0), Joules(0), &dag, &plan, durations}}};
  const nlohmann::json json = nlohmann::json::parse(plan_set_json(set, 0));
  std::string wanted;
  for (const nlohmann::json& type : json.at("types")) {
    const bool is_forward = type.at("instruction") == "forward";
    wanted += type.at("stage") == 0 ? (is_forward ? "()" : "((") : (is_forward ? "((" : ")(");
  }
  EXPECT_EQ(wanted.size(), 8U);
  EXPECT_EQ(json.at("iterations").at(0).at("options"), wanted);
}

// Each curve has as many points as another that has so many. Points have four operations: 36 are nine points, the one
// of a curve that has no more, and four of each other.
TEST(PlanSet, CurvesHaveAsManyPoints) {
  const Small small;
  Frontier many(Watts(0));
  for (int k = 0; k <= 100; ++k) many.add({600'000'000 + k, 200.0 - k}, small.lowered({}));
  many.finish();
  Frontier one(Watts(0));
  one.add({600'000'000, 200.0}, small.lowered({}));
  one.finish();
  const PlanSet set{{Watts(0), Watts(0)},
                    {{"a", &small.dag, &many, {}}, {"b", &small.dag, &one, {}}, {"c", &small.dag, &many, {}}},
                    {},
                    {}};
  const nlohmann::json plans = nlohmann::json::parse(plan_set_json(set, 36)).at("plans");
  EXPECT_EQ(plans.at(0).at("points").size(), 4U);
  EXPECT_EQ(plans.at(1).at("points").size(), 1U);
  EXPECT_EQ(plans.at(2).at("points").size(), 4U);
}

// Points are evenly apart in time, and not in their place. Of times from 0 to 10 ns and of 100 and 200 ns four are to
// be chosen: with 5 ns between them there are five, 0, 5, 10, 100 and 200, and with 6 ns it is 0, 6, 100 and 200.
TEST(PlanSet, PointsAreEvenlyApartInTime) {
  const Small small;
  Frontier frontier(Watts(0));
  for (int k = 0; k <= 10; ++k) frontier.add({600'000'000 + k, 200.0 - k}, small.lowered({}));
  frontier.add({600'000'100, 100.0}, small.lowered({}));
  frontier.add({600'000'200, 90.0}, small.lowered({}));
  frontier.finish();
  const PlanSet set{{Watts(0), Watts(0)}, {{"perseus", &small.dag, &frontier, {}}}, {}, {}};
  std::vector<double> energies;
  const nlohmann::json json = nlohmann::json::parse(plan_set_json(set, 16));
  for (const nlohmann::json& point : json.at("plans").at(0).at("points")) energies.push_back(point.at("energy_j"));
  EXPECT_THAT(energies, ElementsAre(200, 194, 100, 90));
}

// Of 101 points of four operations each, 40 operations in all are 10 points. They are a nanosecond apart from one
// another: every 12th of them, the last and the selected one; every 11th and the last would be eleven.
TEST(PlanSet, ThinsOutWhatDoesNotFit) {
  const Small small;
  Frontier frontier(Watts(0));
  for (int k = 0; k <= 100; ++k) frontier.add({600'000'000 + k, 200.0 - k}, small.lowered({}));
  frontier.finish();
  const PlanSet set{{Watts(0), Watts(0)}, {{"perseus", &small.dag, &frontier, 50}}, {}, {}};
  const nlohmann::json plan = nlohmann::json::parse(plan_set_json(set, 40)).at("plans").at(0);
  std::vector<double> energies;
  for (const nlohmann::json& point : plan.at("points")) energies.push_back(point.at("energy_j"));
  EXPECT_THAT(energies, ElementsAre(200, 188, 176, 164, 152, 150, 140, 128, 116, 104, 100));
  EXPECT_EQ(plan.at("selected"), 5);
  EXPECT_EQ(plan.at("points_in_all"), 101);
}

// Without blocking, energies are 10, 8, 9, 7 and 9 J: the third costs more than the second, and the last is slower than
// the cheapest, for those who wait anyway.
TEST(PlanSet, LeavesOutWhatIsNotWorthChoosing) {
  const Small small;
  Frontier frontier(Watts(1e9));  // 1 J for each nanosecond
  frontier.add({1, 9.0}, small.lowered({}));
  frontier.add({2, 6.0}, small.lowered({}));
  frontier.add({4, 5.0}, small.lowered({}));
  frontier.add({5, 2.0}, small.lowered({}));
  frontier.add({8, 1.0}, small.lowered({}));
  frontier.finish();
  EXPECT_THAT(worthwhile_points(frontier), ElementsAre(0, 1, 3, 4));
}

}  // namespace
}  // namespace flyball
