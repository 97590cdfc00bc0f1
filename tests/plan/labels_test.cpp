// Options that labels tell apart, under every planner and in plan files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "pipeline/late_clocks.h"
#include "plan/plan_file.h"
#include "plan/planner.h"
#include "plan/relaxation.h"
#include "plan/stage_clock.h"
#include "plan/switching.h"
#include "support/exhaustive.h"
#include "support/expect_error.h"
#include "support/pipelines.h"

namespace flyball {
namespace {

using testing::dag_of;
using testing::discrete_optimum;
using ::testing::ElementsAre;
using testing::problem_of;

constexpr const char* kHeader = "stage,instruction,frequency,label,time,energy\n";

Profile labelled(const std::string& rows) { return read_profile("labelled.csv", kHeader + rows); }

// Two stages; each operation has `clocks` clocks and at each of them up to `labels` random options.
Profile random_labelled(std::mt19937& random, int clocks, int labels) {
  std::uniform_real_distribution<double> share(0.0, 1.0);
  std::string rows;
  for (int stage = 0; stage < 2; ++stage) {
    for (const std::string instruction : {"forward", "backward"}) {
      const double base = (instruction == "forward" ? 0.02 : 0.04) * (1.0 + 0.3 * share(random));
      for (int c = 0; c < clocks; ++c) {
        const int here = 1 + static_cast<int>(random() % static_cast<unsigned>(labels));
        for (int l = 0; l < here; ++l) {
          const double time = base * (1.0 + 0.15 * c + 0.12 * share(random));
          const double energy = 300.0 * base * (1.0 - 0.08 * c - 0.12 * share(random)) + 75.0 * (time - base);
          rows += std::to_string(stage) + "," + instruction + "," + std::to_string(1410 - 100 * c) + ",L" +
                  std::to_string(l) + "," + std::to_string(time) + "," + std::to_string(energy) + "\n";
        }
      }
    }
  }
  return labelled(rows);
}

// The profile with its options changed by `change`, without labels.
template <class Change>
Profile unlabelled(const Profile& profile, Change change) {
  std::vector<OperationProfile> operations;
  for (const OperationProfile& from : profile.operations) {
    operations.push_back({from.stage, from.instruction, change(from.options), 0});
  }
  return testing::profile_of(std::move(operations));
}

PlannerResult plan_with(const std::string& planner, const PlanProblem& problem) {
  return make_planner(planner)->plan(problem, {});
}

void expect_same_frontier(const Frontier& a, const Frontier& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t k = 0; k < a.size(); ++k) {
    EXPECT_EQ(a.points()[k].time, b.points()[k].time);
    EXPECT_EQ(a.points()[k].net_joules, b.points()[k].net_joules);
    EXPECT_EQ(a.plan(k), b.plan(k));
  }
}

// A forward and a backward of one microbatch on one stage, blocking 0 W. Alone at 1410 MHz they take 0.1 + 0.2 s and
// 30 + 60 J. The forward's other label saves 4 J in 0.01 s (400 W), the backward's 1200 MHz saves 10 J in 0.04 s
// (250 W), the forward's 1200 MHz, after its label, 1 J in 0.01 s (100 W); the backward's label is dearer and slower
// than both.
TEST(Labels, PlannersChooseAmongAllOptionsOfAClock) {
  const Profile profile = labelled(
      "0,forward,1410,a,0.1,30\n0,forward,1410,b,0.11,26\n0,forward,1200,a,0.12,25\n"
      "0,backward,1410,a,0.2,60\n0,backward,1410,b,0.25,61\n0,backward,1200,a,0.24,50\n");
  const ComputationDag dag = dag_of(profile, 1);
  const Frontier frontier = plan_with("perseus", problem_of(dag, Watts(0))).frontier;
  EXPECT_EQ(frontier.plan(0), (ClockPlan{0, 0}));
  const auto at = [&](double seconds) { return frontier.plan(frontier.lookup(to_nanoseconds(Seconds(seconds)))); };
  EXPECT_EQ(at(0.31), (ClockPlan{1, 0}));  // 26 + 60 J
  EXPECT_EQ(at(0.35), (ClockPlan{1, 2}));  // 26 + 50 J; options are ordered by clock, so that the backward's label is 1
  EXPECT_EQ(at(0.36), (ClockPlan{2, 2}));  // 25 + 50 J
  EXPECT_EQ(label_text(dag.type_of(0).labels.of(1)), "label=b");
}

// Every plan of a tiny pipeline is tried: bounds hold, energies are those of real plans, and the ends are exact.
TEST(Labels, FrontiersLieBetweenBoundAndExhaustiveSearch) {
  std::mt19937 random(5);
  for (int round = 0; round < 6; ++round) {
    const ComputationDag dag = dag_of(random_labelled(random, 2, 2), 2);
    const PlanProblem problem = problem_of(dag);
    const Frontier frontier = plan_with("perseus", problem).frontier;
    for (const FrontierPoint& point : frontier.points()) {
      const double optimum = discrete_optimum(problem, point.time);
      EXPECT_GE(point.net_joules, optimum - 1e-9);
      EXPECT_LE(point.net_lower_bound, optimum + 1e-9);
    }
    const FrontierPoint& last = frontier.points().back();
    EXPECT_NEAR(last.net_joules, discrete_optimum(problem, last.time), 1e-9);
  }
}

// What an option is called, by a clock of its own or by a label, changes no plan.
TEST(Labels, AreOptionsLikeClocks) {
  std::mt19937 random(6);
  const Profile profile = random_labelled(random, 5, 4);
  const Profile by_clocks = unlabelled(profile, [](std::vector<ClockOption> options) {
    for (std::size_t k = 0; k < options.size(); ++k) options[k].frequency = Megahertz(2000.0 - static_cast<double>(k));
    return options;
  });
  const ComputationDag dag = dag_of(profile, 6);
  const ComputationDag other = dag_of(by_clocks, 6);
  for (const std::string planner : {"perseus", "joint"}) {
    SCOPED_TRACE(planner);
    expect_same_frontier(plan_with(planner, problem_of(dag)).frontier, plan_with(planner, problem_of(other)).frontier);
  }
}

// Planners that choose clocks see the fastest option of each.
TEST(Labels, PlannersOfClocksTakeTheFastestOfEach) {
  std::mt19937 random(7);
  const Profile profile = random_labelled(random, 6, 4);
  const Profile fastest = unlabelled(profile, [](std::vector<ClockOption> options) {
    std::stable_sort(options.begin(), options.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
    std::vector<ClockOption> kept;
    for (const ClockOption& option : options) {
      const auto same = [&](const ClockOption& one) { return one.frequency == option.frequency; };
      if (std::none_of(kept.begin(), kept.end(), same)) kept.push_back(option);
    }
    std::sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) { return a.frequency > b.frequency; });
    return kept;
  });
  const ComputationDag dag = dag_of(profile, 6);
  const ComputationDag plain = dag_of(fastest, 6);
  for (const std::string planner :
       {"max", "uniform", "envpipe", "envpipe-greedy", "envpipe-no-reconfigure", "zeus-global", "zeus-per-stage"}) {
    SCOPED_TRACE(planner);
    const Frontier a = plan_with(planner, problem_of(dag)).frontier;
    const Frontier b = plan_with(planner, problem_of(plain)).frontier;
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t k = 0; k < a.size(); ++k) {
      EXPECT_EQ(a.points()[k].time, b.points()[k].time);
      EXPECT_NEAR(a.points()[k].net_joules, b.points()[k].net_joules, 1e-9);
    }
  }
}

// 1410 (two options), 1200 (one), 1000 (three).
TEST(Labels, StepsGoToTheNextClocksFastestOption) {
  const Profile profile =
      labelled("0,f,1410,a,1,9\n0,f,1410,b,2,9\n0,f,1200,a,3,8\n0,f,1000,a,4,7\n0,f,1000,b,5,7\n0,f,1000,c,6,7\n");
  const OperationType type{0, "f", profile.operations[0].options, true, {}, false, profile.operations[0].labels};
  const auto none = std::nullopt;
  const std::vector<std::optional<std::uint16_t>> up = {none, none, 0, 2, 2, 2};
  const std::vector<std::optional<std::uint16_t>> down = {2, 2, 3, none, none, none};
  for (std::uint16_t k = 0; k < 6; ++k) {
    EXPECT_EQ(one_clock_up(type, k), up[k]);
    EXPECT_EQ(one_clock_down(type, k), down[k]);
  }
  EXPECT_EQ(option_at(type, Megahertz(1000)), 3);
  EXPECT_EQ(nearest_option(type, Megahertz(1050)), 3);
  EXPECT_EQ(nearest_option(type, Megahertz(1050), 1), 4);  // with label b
  EXPECT_EQ(nearest_option(type, Megahertz(1250), 1), 2);  // 1200 MHz was not measured with b
}

// Changes take hold after 0.6 s; plan: 300 MHz with a, then 200 MHz with b, over and over. The first begins at 200 MHz
// with its own label a: 0.6 of 1.5 s is 0.4 of the work, 0.4 * 350 J, and the rest 0.6 * 1.0 s and 0.6 * 400 J. The
// second begins at 300 MHz with b: 0.6 of 1.2 s is half of it, 190 J, and the rest 0.5 * 1.8 s and 0.5 * 330 J.
TEST(Labels, StayWhatTheyAreWhileAClockIsLate) {
  const Profile profile =
      labelled("0,forward,300,a,1.0,400\n0,forward,300,b,1.2,380\n0,forward,200,a,1.5,350\n0,forward,200,b,1.8,330\n");
  const OperationProfile& forward = profile.operations[0];
  const ComputationDag dag("test", 1, {{0, "forward", forward.options, true, {}, false, forward.labels}},
                           {{0, 0, 0}, {0, 1, 0}}, {{0, 1}});
  const std::vector<Watts> blocking = {Watts(0)};
  const SwitchedRun run = emulate_switching(dag, {0, 3}, blocking, 600 * kMillisecond);
  EXPECT_THAT(run.durations, ElementsAre(1200 * kMillisecond, 1500 * kMillisecond));
  EXPECT_NEAR(run.energy.total().value(), 140 + 240 + 190 + 165, 1e-9);
}

// At one clock label b saves 50 J in 0.1 s. Three operations within 3.3 s can all have it, and nothing changes its
// clock: 3 * 350 J. Within 3.25 s two can: 2 * 350 + 400 J; plans in which each had a would take 1200 J.
TEST(Labels, PlansWithFewChangesKeepWhatLabelsSave) {
  const Profile profile = labelled("0,forward,300,a,1.0,400\n0,forward,300,b,1.1,350\n0,forward,200,a,1.9,345\n");
  const OperationProfile& forward = profile.operations[0];
  const ComputationDag dag("test", 1, {{0, "forward", forward.options, true, {}, false, forward.labels}},
                           {{0, 0, 0}, {0, 1, 0}, {0, 2, 0}}, {{0, 1}, {1, 2}});
  const PlanProblem problem = problem_of(dag, Watts(0));
  const auto least = [&](Nanoseconds deadline) {
    const auto front = switching_fronts(problem, {{fastest_plan(problem)}}, {deadline, 100 * kMillisecond, 0}).front();
    EXPECT_EQ(front.back().switches, 0);
    return front.back().energy.value();
  };
  EXPECT_NEAR(least(3300 * kMillisecond), 1050.0, 1e-9);
  EXPECT_LE(least(3250 * kMillisecond), 1200.0);
}

TEST(Labels, PlanFilesKeepThemAndTellOptionsOfOneClockApart) {
  std::mt19937 random(8);
  const ComputationDag dag = dag_of(random_labelled(random, 3, 3), 3);
  const PlanProblem problem = problem_of(dag);
  const Frontier frontier = plan_with("perseus", problem).frontier;
  const std::string text = write_plan_json({"perseus", "p.csv", "1f1b", 0}, dag, problem.blocking, frontier);
  const PlanFile file = read_plan_json("plan.json", text);
  for (std::size_t k = 0; k < frontier.size(); ++k) ASSERT_EQ(file.frontier.plan(k), frontier.plan(k));
  for (std::size_t t = 0; t < dag.types().size(); ++t) {
    for (std::size_t k = 0; k < dag.types()[t].options.size(); ++k) {
      EXPECT_EQ(file.dag.types()[t].labels.of(k), dag.types()[t].labels.of(k));
    }
  }
  EXPECT_EQ(write_plan_json(file.header, file.dag, file.blocking, file.frontier), text);
}

// Two options at 1410 MHz.
constexpr const char* kTwoOfOneClock = R"({
"format": "flyball-plan", "version": 1, "planner": "p", "source": "s", "schedule": "", "stages": 1,
"blocking_w": [75], "selected": 1,
"types": [{"stage": 0, "instruction": "forward", "occupies_stage": true,
  "options": [{"clock_mhz": 1410, "time_s": 0.1, "energy_j": 30, "labels": [["sm", "6"], ["window", "x"]]},
              {"clock_mhz": 1410, "time_s": 0.12, "energy_j": 25, "labels": [["sm", "12"]]}]}],
"operations": [{"stage": 0, "instruction": "forward", "microbatch": 0, "after": []}],
"points": [{"time_s": 0.1, "energy_j": 30, "lower_bound_j": null, "clocks_mhz": [1410], "options": [0]},
           {"time_s": 0.12, "energy_j": 25, "lower_bound_j": null, "edits": [[0, 1410, 1]]}]
})";

TEST(Labels, PlanFilesThatLeaveAnOptionOpenAreRefused) {
  EXPECT_EQ(read_plan_json("plan.json", kTwoOfOneClock).frontier.plan(1), (ClockPlan{1}));
  const auto expect_refused = [](const std::string& what, const std::string& with, const std::string& words) {
    std::string text = kTwoOfOneClock;
    const std::size_t at = text.find(what);
    ASSERT_NE(at, std::string::npos) << what;
    text.replace(at, what.size(), with);
    expect_input_error([&] { static_cast<void>(read_plan_json("plan.json", text)); }, 0, 0, words);
  };
  expect_refused(R"(, "options": [0])", "", "points[0].clocks_mhz[0]: several options have this clock");
  expect_refused("[0, 1410, 1]", "[0, 1410]", "points[1].edits[0][1]: several options have this clock");
  expect_refused("[0, 1410, 1]", "[0, 1410, 2]", "points[1].edits[0][2]: this is no option of that clock");
  expect_refused("[0, 1410, 1]", "[0, 1410, -1]", "points[1].edits[0][2]: there is no such option");
  expect_refused("[0, 1410, 1]", "[0, 1410, 1, 1]", "points[1].edits[0]: this is no pair");
  expect_refused(R"("options": [0])", R"("options": [])", "points[0].options: 0 options for 1 operations");
  expect_refused(R"([["sm", "12"]])", R"([["sm", "6"], ["window", "x"]])",
                 "types[0].options[1]: this clock stands twice");
  expect_refused(R"([["sm", "12"]])", R"([["sm"]])", "types[0].options[1].labels[0]: this is no pair");
  expect_refused(R"([["sm", "12"]])", R"([["sm", ""]])", "labels[0]: a label has a name and a value");
  expect_refused(R"([["sm", "12"]])", R"({"sm": "12"})", "labels: this is no array");
}

}  // namespace
}  // namespace flyball
