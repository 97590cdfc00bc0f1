// flyball plan, run as users run it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "cli/program.h"

namespace flyball::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kBlockingWatts = 4 * 75.0;  // four stages at the default power

// With free clock changes where the options say nothing of them: a search for fewer takes its time under sanitizers.
Ran plan(std::vector<std::string> options) {
  std::vector<std::string> arguments{"plan", kBertProfile, "--microbatches", "8"};
  const auto names = {"--switch-latency", "--min-dwell"};
  if (std::ranges::none_of(names, [&](const char* name) { return std::ranges::count(options, name) > 0; }))
    arguments.insert(arguments.end(), {"--switch-latency", "0"});
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run_flyball(arguments);
}

json plan_json(std::vector<std::string> options = {}) {
  options.insert(options.end(), {"--format", "json"});
  const Ran ran = plan(options);
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  return ran.json();
}

std::vector<std::string> keys_of(const json& object) {
  std::vector<std::string> keys;
  for (const auto& item : object.items()) keys.push_back(item.key());
  return keys;
}

// What must hold of every planner's object.
void expect_consistent(const json& result) {
  SCOPED_TRACE(result.at("planner").get<std::string>());
  const json& selected = result.at("selected");
  const json& baseline = result.at("baseline");
  const json& frontier = result.at("frontier");
  const auto percent = [](double part, double whole) { return 100.0 * part / whole; };
  const double time = selected.at("time");
  const double energy = selected.at("energy");
  EXPECT_NEAR(selected.at("saving_pct"), percent(baseline.at("energy").get<double>() - energy, baseline.at("energy")),
              1e-9);
  EXPECT_NEAR(selected.at("slowdown_pct"), percent(time - baseline.at("time").get<double>(), baseline.at("time")),
              1e-9);
  if (!selected.at("lower_bound").is_null()) {
    const double bound = selected.at("lower_bound");
    EXPECT_NEAR(selected.at("gap_pct"), percent(energy - bound, bound), 1e-9);
    EXPECT_GE(energy, bound * (1 - 1e-12));
  }
  EXPECT_TRUE(selected.at("switches").is_number_integer());

  ASSERT_FALSE(frontier.empty());
  double least_total = frontier[0].at("energy");
  double least_total_time = frontier[0].at("time");
  for (std::size_t i = 1; i < frontier.size(); ++i) {
    const json& point = frontier[i];
    const json& before = frontier[i - 1];
    EXPECT_LT(before.at("time"), point.at("time"));
    // What counts once waiting is paid anyway: energy net of blocking.
    EXPECT_LT(point.at("energy").get<double>() - kBlockingWatts * point.at("time").get<double>(),
              before.at("energy").get<double>() - kBlockingWatts * before.at("time").get<double>());
    if (point.at("energy") < least_total) {
      least_total = point.at("energy");
      least_total_time = point.at("time");
    }
  }
  for (const json& point : frontier) {
    if (point.at("lower_bound").is_null()) continue;
    EXPECT_GE(point.at("energy").get<double>(), point.at("lower_bound").get<double>() * (1 - 1e-12));
  }
  EXPECT_EQ(result.at("t_star"), frontier.back().at("time"));
  EXPECT_EQ(result.at("t_least_total"), least_total_time);
}

TEST(PlanJson, HasExactlyTheDocumentedFields) {
  const json result = plan_json();
  EXPECT_EQ(keys_of(result),
            (std::vector<std::string>{"baseline", "frontier", "in_flight", "landmarks", "one_more_in_flight", "order",
                                      "planner", "schedule_in_flight", "selected", "stats", "t_allowed",
                                      "t_least_total", "t_min", "t_star"}));
  EXPECT_EQ(keys_of(result.at("landmarks").at(0)),
            (std::vector<std::string>{"energy", "gap_pct", "lower_bound", "name", "point", "saving_pct", "slowdown_pct",
                                      "switches", "time"}));
  EXPECT_EQ(keys_of(result.at("baseline")), (std::vector<std::string>{"energy", "time"}));
  EXPECT_EQ(keys_of(result.at("selected")),
            (std::vector<std::string>{"energy", "expected", "gap_pct", "limited_by", "lower_bound", "saving_pct",
                                      "slowdown_pct", "switches", "time"}));
  // The shipped profiles were made with 0.04 % of noise. 2 * 8 operations of some 50 clocks tell that to a few percent.
  const json& expected = result.at("selected").at("expected");
  EXPECT_EQ(expected.at("noise"), "from smoothness");
  EXPECT_NEAR(expected.at("energy_noise_pct").get<double>(), 0.04, 0.015);
  EXPECT_NEAR(expected.at("time_noise_pct").get<double>(), 0.04, 0.015);
  EXPECT_NEAR(expected.at("saving_pct").get<double>(), result.at("selected").at("saving_pct").get<double>(), 0.3);
  EXPECT_EQ(expected.size(), 11u);
  EXPECT_EQ(keys_of(result.at("frontier").at(0)), (std::vector<std::string>{"energy", "lower_bound", "time"}));
  EXPECT_EQ(keys_of(result.at("stats")),
            (std::vector<std::string>{"edges", "nodes", "peak_rss_mb", "solve_seconds", "steps"}));
  EXPECT_EQ(result.at("planner"), "perseus");
  // 4 stages, 8 microbatches, a forward and a backward each.
  EXPECT_EQ(result.at("stats").at("nodes"), 64);
  EXPECT_GT(result.at("stats").at("peak_rss_mb").get<double>(), 1.0);
}

TEST(PlanJson, SelectsTheFastestPlanWhichSlowsNothing) {
  const json result = plan_json();
  expect_consistent(result);
  EXPECT_EQ(result.at("selected").at("time"), result.at("frontier").at(0).at("time"));
  EXPECT_LE(result.at("selected").at("time").get<double>(), 1.001 * result.at("t_min").get<double>());
  EXPECT_GT(result.at("selected").at("saving_pct").get<double>(), 1.0);
  EXPECT_GT(result.at("frontier").size(), 50u);
}

// Noise makes a lower clock the faster one on this profile, so that T_min is below the time of all-maximum clocks.
TEST(PlanJson, SelectsTheSlowestPlanAsFastAsMaximumClocks) {
  const Ran ran = run_flyball(
      {"plan", "examples/profiles/wide-resnet101-1.5b-a40-8stage.csv", "--microbatches", "8", "--format", "json"});
  const json result = ran.json();
  const double allowed = result.at("baseline").at("time");
  const double chosen = result.at("selected").at("time");
  ASSERT_LT(result.at("t_min").get<double>(), allowed);
  EXPECT_GT(chosen, result.at("t_min").get<double>());
  for (const json& point : result.at("frontier")) {
    const double time = point.at("time");
    EXPECT_TRUE(time <= chosen || time > allowed) << time;
  }
}

// One stage, one microbatch: nothing is ever blocked, and an iteration takes what its forward and its backward (1 s,
// 100 J) take:
//   300 MHz  1.0 + 1 s  400 + 100 J
//   200 MHz  1.5 + 1 s  350 + 100 J   the least
//   100 MHz  3.0 + 1 s  420 + 100 J   net of 75 W still less: 420 - 225 = 195 J against 350 - 112.5 = 237.5 J
// With time to spare 2.5 s and 450 J are best; only who waits for others anyway is to take the 4 s.
TEST(PlanJson, ATargetNeverChoosesWhatIsSlowerAndDearer) {
  const std::string profile =
      "stage,instruction,frequency,time,energy\n"
      "0,forward,300,1.0,400\n0,forward,200,1.5,350\n0,forward,100,3.0,420\n0,backward,300,1.0,100\n";
  const auto selected = [&](std::vector<std::string> options) {
    std::vector<std::string> arguments{"plan", "-", "--microbatches", "1", "--unit-time", "0.1s", "--format", "json"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Ran ran = run_flyball(arguments, profile);
    EXPECT_EQ(ran.status, 0) << ran.err;
    const json result = ran.json();
    EXPECT_EQ(result.at("t_least_total"), 2.5);
    EXPECT_EQ(result.at("t_star"), 4.0);
    return result.at("selected");
  };
  for (const char* target : {"3", "4", "100"}) {
    const json chosen = selected({"--target-time", target});
    EXPECT_EQ(chosen.at("time"), 2.5) << target;
    EXPECT_EQ(chosen.at("energy"), 450.0) << target;
    EXPECT_EQ(chosen.at("limited_by"), "least_energy") << target;
  }
  EXPECT_EQ(selected({"--target-time", "2.5"}).at("limited_by"), "target_time");
  EXPECT_EQ(selected({"--target-time", "2.4"}).at("time"), 2.0);
  EXPECT_EQ(selected({"--target-time", "2.4"}).at("limited_by"), "target_time");
  EXPECT_EQ(selected({}).at("limited_by"), "baseline_time");
  // T' is 3 * 2 s and 1.5 * 2 s.
  EXPECT_EQ(selected({"--straggler", "3"}).at("time"), 4.0);
  EXPECT_EQ(selected({"--straggler", "3"}).at("limited_by"), "t_star");
  EXPECT_EQ(selected({"--straggler", "1.5"}).at("time"), 2.5);
  EXPECT_EQ(selected({"--straggler", "1.5"}).at("limited_by"), "straggler_time");
}

// As above; the GPU was measured to draw 80 W while it waits. A straggler of 1.5 takes 3 s, the plan 2.5 s and 450 J,
// and the rest is waited for. 75 W lie 6 % off; 600 W are more than the 400 W of the forward at 300 MHz.
TEST(PlanJson, TheMeasuredWaitingPowerIsUsed) {
  const std::string profile =
      "stage,instruction,frequency,time,energy\n"
      "0,forward,300,1.0,400\n0,forward,200,1.5,350\n0,forward,100,3.0,420\n0,backward,300,1.0,100\n"
      "0,waiting,0,1,80\n";
  const auto ran = [&](std::vector<std::string> options) {
    std::vector<std::string> arguments{"plan", "-",        "--microbatches", "1",           "--unit-time",
                                       "0.1s", "--format", "json",           "--straggler", "1.5"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run_flyball(arguments, profile);
  };
  const Ran measured = ran({});
  EXPECT_EQ(measured.err, "");
  EXPECT_NEAR(measured.json().at("selected").at("energy").get<double>(), 450 + 0.5 * 80, 1e-9);
  const Ran stated = ran({"--blocking-power", "75"});
  EXPECT_THAT(stated.err,
              HasSubstr("warning: the stated blocking power is not what was measured: stage 0 80 W, stated 75 W"));
  EXPECT_NEAR(stated.json().at("selected").at("energy").get<double>(), 450 + 0.5 * 75, 1e-9);
  EXPECT_THAT(ran({"--blocking-power", "600"}).err, HasSubstr("a GPU that waits is to draw 600 W, more than"));
}

// As above, but the GPU waits at 100 W at 300 MHz and at 80 W at 200 MHz. At maximum clocks an iteration takes 2 s and
// 500 J, and waits for 1 s: 600 J. The backward keeps the clock of the forward, so that the plan waits at 80 W.
TEST(PlanJson, WaitingIsPaidAtTheClockThatIsKept) {
  const Ran ran =
      run_flyball({"plan", "-", "--microbatches", "1", "--unit-time", "0.1s", "--format", "json", "--straggler", "1.5"},
                  "stage,instruction,frequency,time,energy\n"
                  "0,forward,300,1.0,400\n0,forward,200,1.5,350\n0,forward,100,3.0,420\n0,backward,300,1.0,100\n"
                  "0,waiting,300,1,100\n0,waiting,200,1,80\n");
  EXPECT_EQ(ran.err, "");
  EXPECT_NEAR(ran.json().at("baseline").at("energy").get<double>(), 500 + 1.0 * 100, 1e-9);
  EXPECT_NEAR(ran.json().at("selected").at("energy").get<double>(), 450 + 0.5 * 80, 1e-9);
}

// A forward of 1 s and a backward of 2 s on each of two stages. Stage 0 waits for 3 s before its backward, stage 1 for
// 1 s before its forward and for 2 s after its backward. At maximum clocks all waits are at 100 W, whenever clocks are
// asked for.
TEST(PlanJson, WaitingIsAtTheNextClockIfTheEngineAsksForIt) {
  std::string profile = "stage,instruction,frequency,time,energy\n";
  for (const std::string stage : {"0", "1"}) {
    for (const char* row : {"forward,300,1.0,400", "forward,200,1.5,420", "backward,300,2.0,800",
                            "backward,200,2.5,600", "waiting,300,1,100", "waiting,200,1,80"}) {
      profile += stage;
      profile += ',';
      profile += row;
      profile += '\n';
    }
  }
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> options{"plan",     "-",    "--microbatches", "1", "--unit-time", "0.1s",
                                     "--format", "json", "--target-time",  "7", "--planner",   "perseus"};
    options.insert(options.end(), more.begin(), more.end());
    return run_flyball(options, profile).json();
  };
  const json ahead = run({});
  EXPECT_EQ(run({"--clocks-asked", "when-free"}).at("frontier"), ahead.at("frontier"));
  const json late = run({"--clocks-asked", "at-begin"});
  // 400 + 800 J on each stage, and 3 + 3 s of waiting.
  EXPECT_NEAR(ahead.at("baseline").at("energy").get<double>(), 2400 + 600, 1e-6);
  EXPECT_NEAR(late.at("baseline").at("energy").get<double>(), 2400 + 600, 1e-6);
  // Forwards at 300 MHz and backwards at 200 end after 7 s and take 400 + 600 J each. Stage 0 waits for 3.5 s before
  // its backward: at 80 W if its clock has been asked for, else at 100 W. Stage 1 waits for 1 s before its forward, at
  // 100 W or at the last backward's 80 W, and for 2.5 s at 80 W after it.
  EXPECT_NEAR(ahead.at("selected").at("energy").get<double>(), 2000 + 3.5 * 80 + 1 * 100 + 2.5 * 80, 1e-6);
  EXPECT_NEAR(late.at("selected").at("energy").get<double>(), 2000 + 3.5 * 100 + 1 * 80 + 2.5 * 80, 1e-6);
  EXPECT_EQ(plan({"--clocks-asked", "never"}).status, 2);
}

// One clock for all is no curve: what an iteration takes may rise and fall again. With a backward of 1 s and 100 J,
//   300 MHz  1.0 + 1 s  400 + 100 J
//   200 MHz  1.5 + 1 s  350 + 100 J
//   150 MHz  2.0 + 1 s  360 + 100 J   net of 75 W still less: 360 - 150 = 210 J against 350 - 112.5 = 237.5 J
//   100 MHz  3.0 + 1 s  300 + 100 J   the least
// A target of 3.2 s leaves room for the third, which is dearer than the second; but the fourth is not.
TEST(PlanJson, ATargetIsTheLimitWhereSlowerPlansBeyondItTakeLess) {
  const std::string profile =
      "stage,instruction,frequency,time,energy\n"
      "0,forward,300,1.0,400\n0,forward,200,1.5,350\n0,forward,150,2.0,360\n0,forward,100,3.0,300\n"
      "0,backward,300,1.0,100\n";
  const auto ran = [&](const char* target, const char* format) {
    return run_flyball(
        {"plan", "-", "--microbatches", "1", "--planner", "zeus-global", "--target-time", target, "--format", format},
        profile);
  };
  const auto expect = [&](const char* target, double time, double energy, const char* limit) {
    const json result = ran(target, "json").json();
    EXPECT_EQ(result.at("frontier").size(), 4u);
    EXPECT_EQ(result.at("t_least_total"), 4.0);
    EXPECT_EQ(result.at("selected").at("time"), time) << target;
    EXPECT_EQ(result.at("selected").at("energy"), energy) << target;
    EXPECT_EQ(result.at("selected").at("limited_by"), limit) << target;
  };
  expect("2.5", 2.5, 450.0, "target_time");
  expect("3.2", 2.5, 450.0, "target_time");
  expect("4", 4.0, 400.0, "target_time");
  expect("5", 4.0, 400.0, "least_energy");
  EXPECT_THAT(ran("3.2", "text").out, Not(HasSubstr("take more energy")));
  EXPECT_THAT(ran("5", "text").out, HasSubstr("5.0000 s leave room, but plans slower than 4.0000 s take more energy"));
}

TEST(PlanJson, TargetTimeSelectsTheLeastEnergyThatFits) {
  const json all = plan_json();
  const double target = 1.1 * all.at("t_min").get<double>();
  const json result = plan_json({"--target-time", std::to_string(target)});
  expect_consistent(result);
  double least_that_fits = 1e9;
  for (const json& point : result.at("frontier")) {
    if (point.at("time").get<double>() <= target)
      least_that_fits = std::min<double>(least_that_fits, point.at("energy"));
  }
  EXPECT_LE(result.at("selected").at("time"), target);
  EXPECT_EQ(result.at("selected").at("energy"), least_that_fits);
  EXPECT_GT(result.at("selected").at("saving_pct"), all.at("selected").at("saving_pct"));
}

TEST(PlanJson, StragglerChargesEveryoneForWaiting) {
  const json alone = plan_json();
  const json result = plan_json({"--straggler", "1.1"});
  expect_consistent(result);
  const double pace = 1.1 * alone.at("t_min").get<double>();
  const double baseline_wait = kBlockingWatts * (pace - alone.at("baseline").at("time").get<double>());
  EXPECT_NEAR(result.at("baseline").at("energy"), alone.at("baseline").at("energy").get<double>() + baseline_wait,
              1e-6);
  EXPECT_LE(result.at("selected").at("time").get<double>(), pace);
  EXPECT_GT(result.at("selected").at("time").get<double>(), 1.09 * alone.at("t_min").get<double>());
}

TEST(PlanJson, StragglerBeyondTStarSelectsTStar) {
  const json result = plan_json({"--straggler", "3"});
  EXPECT_EQ(result.at("selected").at("time"), result.at("t_star"));
}

TEST(PlanJson, AllComparesEveryPlannerOnTheSameBaseline) {
  const json result = plan_json({"--planner", "all"});
  EXPECT_EQ(result.at("planner"), "perseus");
  std::vector<std::string> names;
  for (const json& planner : result.at("planners")) {
    expect_consistent(planner);
    names.push_back(planner.at("planner"));
    EXPECT_EQ(planner.at("baseline"), result.at("baseline"));
    EXPECT_EQ(planner.at("t_min"), result.at("t_min"));
  }
  EXPECT_THAT(names,
              ::testing::UnorderedElementsAre("perseus", "joint", "envpipe", "envpipe-greedy", "envpipe-no-reconfigure",
                                              "max", "uniform", "zeus-global", "zeus-per-stage"));
  EXPECT_EQ(names.front(), "perseus");
}

TEST(PlanJson, EveryScheduleAndCostModelIsConsistent) {
  expect_consistent(plan_json({"--schedule", "gpipe"}));
  expect_consistent(plan_json({"--schedule", "interleaved-1f1b", "--chunks", "2"}));
  expect_consistent(plan_json({"--cost-model", "exponential"}));
  expect_consistent(plan_json({"--unit-time", "5ms"}));
  expect_consistent(plan_json({"--noise", "0.5"}));
}

TEST(PlanJson, OneBlockingPowerStandsForAllStages) {
  json one = plan_json({"--blocking-power", "60"});
  json each = plan_json({"--blocking-power", "60,60,60,60"});
  one.erase("stats");
  each.erase("stats");
  EXPECT_EQ(one, each);
  EXPECT_NE(one.at("baseline"), plan_json().at("baseline"));
}

TEST(PlanJson, SwitchingIsReducedAndCharged) {
  const json result = plan_json({"--straggler", "1.1", "--switch-latency", "10ms", "--min-dwell", "50ms"});
  const json& charged = result.at("switching").at("charged");
  const json& reduced = result.at("switching").at("reduced");
  EXPECT_EQ(charged.at("switches"), result.at("selected").at("switches"));
  EXPECT_LT(reduced.at("switches"), charged.at("switches"));
  EXPECT_GE(reduced.at("shortest_dwell").get<double>(), 0.05);
  EXPECT_LE(reduced.at("time").get<double>(), 1.1 * result.at("t_min").get<double>() + 1e-9);
  EXPECT_GT(reduced.at("saving_pct").get<double>(), 0.0);
}

// Unless something else is said, clock changes are charged that take 4 to 9 ms; a little more time is looked at, too.
TEST(PlanJson, ChargesChangesByDefault) {
  const Ran ran = run_flyball({"plan", kBertProfile, "--microbatches", "8", "--format", "json"});
  const json result = ran.json();
  const json& switching = result.at("switching");
  EXPECT_EQ(switching.at("latency"), (json{0.004, 0.009}));
  const double allowed = result.at("baseline").at("time");
  EXPECT_LE(switching.at("reduced").at("time").get<double>(), allowed + 1e-9);
  EXPECT_GT(switching.at("reduced").at("saving_pct").get<double>(),
            0.5 * result.at("selected").at("saving_pct").get<double>());
  ASSERT_EQ(switching.at("slower").size(), 3u);
  double factor[] = {1.0025, 1.005, 1.01};
  for (std::size_t k = 0; k < 3; ++k) {
    const json& slower = switching.at("slower").at(k);
    EXPECT_NEAR(slower.at("deadline").get<double>(), factor[k] * allowed, 1e-8);
    for (const json& one : slower.at("front"))
      EXPECT_LE(one.at("time").get<double>(), slower.at("deadline").get<double>() + 1e-9);
    EXPECT_LE(slower.at("front").back().at("energy"), switching.at("front").back().at("energy"));
  }
  EXPECT_FALSE(plan_json({"--planner", "perseus", "--switch-latency", "0"}).contains("switching"));
  const Ran named =
      run_flyball({"plan", kBertProfile, "--microbatches", "8", "--planner", "perseus", "--format", "json"});
  EXPECT_FALSE(named.json().contains("switching"));
}

// Whoever says what memory there is lets the order be chosen. 60 GB over 12 GB are five microbatches.
TEST(PlanJson, TheOrderIsFreeWhereMemoryIsKnown) {
  const json free_order = plan_json({"--memory-limit", "5"});
  EXPECT_EQ(free_order.at("planner"), "joint");
  EXPECT_EQ(plan_json({"--memory-limit", "60GB/12GB"}).at("frontier"), free_order.at("frontier"));
  EXPECT_EQ(plan_json({"--planner", "joint", "--memory-limit", "5,5,5,5"}).at("frontier"), free_order.at("frontier"));
  const json fixed = plan_json({"--order", "fixed", "--memory-limit", "5"});
  EXPECT_EQ(fixed.at("planner"), "perseus");
  EXPECT_EQ(plan_json({"--order", "free"}).at("planner"), "joint");
  EXPECT_EQ(plan({"--order", "free", "--planner", "joint"}).status, 2);
  EXPECT_GT(free_order.at("selected").at("saving_pct"), fixed.at("selected").at("saving_pct"));
  // What could be had is told to those who say nothing.
  const json hint = plan_json().at("one_more_in_flight");
  EXPECT_EQ(hint.at("memory_limit"), (json{5, 4, 3, 1}));
  const json one_more = plan_json({"--memory-limit", "5,4,3,1"});
  EXPECT_NEAR(hint.at("saving_pct").get<double>(), one_more.at("selected").at("saving_pct").get<double>(), 0.5);
  EXPECT_FALSE(fixed.contains("one_more_in_flight"));
  EXPECT_THAT(plan({}).out, HasSubstr("--memory-limit 5,4,3,1"));
}

// The shipped profile has whole backwards: ZB-H1 takes half of each for the weight gradients, and says so. What it is
// compared with is 1F1B as it is planned without.
TEST(PlanJson, WeightGradientsHaveAPlaceOfTheirOwn) {
  const Ran ran = plan({"--schedule", "zb-h1", "--planner", "joint", "--memory-limit", "4", "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("0.5 of their time and energy is taken for the weight gradients"));
  const json split = json::parse(ran.out);
  EXPECT_EQ(plan_json({"--schedule", "zb-h1", "--split-backward", "0.5", "--planner", "joint", "--memory-limit", "4"})
                .at("frontier"),
            split.at("frontier"));
  EXPECT_EQ(split.at("schedule_in_flight"), (json{4, 4, 4, 4}));
  for (const json& held : split.at("in_flight")) EXPECT_LE(held, 4);
  const json whole = plan_json({"--planner", "perseus"});
  const json& against = split.at("against_whole");
  EXPECT_EQ(against.at("whole_time"), whole.at("baseline").at("time"));
  EXPECT_EQ(against.at("whole_energy"), whole.at("baseline").at("energy"));
  EXPECT_LE(against.at("time"), against.at("whole_time"));
  const double clocks = against.at("whole_saving_pct");
  EXPECT_GE(clocks, whole.at("selected").at("saving_pct").get<double>());
  EXPECT_GT(against.at("saving_pct").get<double>(), clocks + 1.0);
  EXPECT_FALSE(whole.contains("against_whole"));
  EXPECT_EQ(plan({"--split-backward", "1"}).status, 2);
  EXPECT_EQ(plan({"--schedule", "gpipe", "--split-backward", "0.5"}).status, 2);
  EXPECT_THAT(plan({"--split-backward", "0.4"}).out, HasSubstr("1f1b with whole backwards takes"));
}

// What holds whatever the plan: the peak is below the limit, the mean is the energy over the time, of all 16 GPUs, and
// the bound on the time is below the time.
TEST(PlanPower, TheFastestPlanInsideALimitIsTaken) {
  const json free_run = plan_json();
  const std::vector<std::string> copies{"--data-parallel", "2", "--tensor-parallel", "2"};
  const auto limited = [&](const std::string& limit) {
    std::vector<std::string> options = copies;
    options.insert(options.end(), {"--max-power", limit});
    return plan_json(options);
  };
  const json boundless = limited("1e6");
  const double free_peak = boundless.at("power").at("plan").at("peak_w");
  const json result = limited(std::to_string(0.9 * free_peak));
  const json& power = result.at("power");
  EXPECT_LE(power.at("plan").at("peak_w"), 0.9 * free_peak);
  EXPECT_GT(power.at("baseline").at("peak_w"), 0.9 * free_peak);
  EXPECT_EQ(power.at("gpus_per_stage"), 4);
  const json& selected = result.at("selected");
  const double mean = selected.at("energy").get<double>() / selected.at("time").get<double>();
  EXPECT_NEAR(power.at("plan").at("mean_w").get<double>(), 4.0 * mean, 1e-6 * mean);
  EXPECT_EQ(selected.at("limited_by"), "power");
  EXPECT_GT(selected.at("time"), free_run.at("selected").at("time"));
  EXPECT_LE(power.at("least_time"), selected.at("time"));
  EXPECT_NEAR(power.at("over_least_time_pct"),
              100.0 * (selected.at("time").get<double>() / power.at("least_time").get<double>() - 1.0), 1e-9);
  EXPECT_GE(selected.at("gap_pct").get<double>(), -1e-9);
  EXPECT_EQ(boundless.at("selected").at("time"), free_run.at("frontier").at(0).at("time"));
}

// A ramp that everything keeps leaves the time of maximum clocks as the bound, and the fastest plan takes no more.
TEST(PlanPower, ALimitOnTheRampHasABound) {
  const json result = plan_json({"--max-ramp", "1e9"});
  const json& power = result.at("power");
  const double fastest = result.at("baseline").at("time");
  EXPECT_NEAR(power.at("least_time").get<double>(), fastest, 1e-8 * fastest);
  EXPECT_NEAR(power.at("over_least_time_pct").get<double>(), 0.0, 1e-6);
}

TEST(PlanPower, IsShownInWordsAndInThePage) {
  const TempFolder folder;
  const Ran ran = plan({"--max-power", "850", "--out", folder / "out"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("power of the job"));
  EXPECT_THAT(ran.out, HasSubstr("no plan below 850.0 W in this order takes less than "));
  EXPECT_THAT(ran.out, HasSubstr("> in limits"));
  EXPECT_THAT(file_text(folder / "out/report.html"), HasSubstr("<h2>Power</h2>"));
  EXPECT_THAT(file_text(folder / "out/power.svg"), HasSubstr("limit 850 W"));
}

// Three periods of an hour, the first and the last with the same limit: two plans, each below its limit. A stage
// draws 300 to 317 W at the highest clock of this profile and 200 to 207 W at the lowest, so that four together have
// room below 980 and 900 W, and less of it below 900.
TEST(PlanPower, ABudgetHasAPlanForEachPeriod) {
  const TempFolder folder;
  write_file(folder / "budget.csv",
             "from,until,power_w\n2026-11-24T17:00Z,2026-11-24T18:00Z,980\n"
             "2026-11-24T18:00Z,2026-11-24T19:00Z,900\n2026-11-24T19:00Z,2026-11-24T20:00Z,980\n");
  const json result = plan_json({"--budget", folder / "budget.csv", "--out", folder / "out"});
  const json& budget = result.at("budget");
  ASSERT_EQ(budget.size(), 3u);
  for (const json& period : budget) {
    EXPECT_LE(period.at("peak_w"), period.at("power_w"));
    EXPECT_NEAR(period.at("iterations").get<double>() * period.at("time").get<double>(), 3600.0, 1e-6);
  }
  EXPECT_EQ(budget[0].at("plan"), 0);
  EXPECT_EQ(budget[1].at("plan"), 1);
  EXPECT_EQ(budget[2].at("plan"), 0);
  EXPECT_GT(budget[1].at("time"), budget[0].at("time"));
  // The chosen plan is that of the least power.
  EXPECT_EQ(result.at("selected").at("time"), budget[1].at("time"));
  EXPECT_EQ(result.at("power").at("max_power_w"), 900);
  const auto time_of = [&](const std::string& name) {
    return json::parse(file_text(folder / ("out/" + name))).at("points").at(0).at("time_s");
  };
  EXPECT_EQ(time_of("plan-budget-0.json"), budget[0].at("time"));
  EXPECT_EQ(time_of("plan-budget-1.json"), budget[1].at("time"));
  std::istringstream lines(plan({"--budget", folder / "budget.csv", "--max-ramp", "1e6"}).out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  // What another run does not write again goes away.
  ASSERT_EQ(plan({"--out", folder / "out", "--switch-latency", "7ms"}).status, 0);
  EXPECT_FALSE(std::filesystem::exists(folder / "out/plan-budget-1.json"));
}

TEST(PlanPower, ABudgetThatIsNoneIsRefusedWithItsPlace) {
  const TempFolder folder;
  const auto refused = [&](const std::string& rows) {
    write_file(folder / "budget.csv", "from,until,power_w\n" + rows);
    const Ran ran = plan({"--budget", folder / "budget.csv"});
    EXPECT_EQ(ran.status, 3) << rows;
    return ran.err;
  };
  EXPECT_THAT(refused(""), HasSubstr("there is no period"));
  EXPECT_THAT(refused("0,3600,1200\n1800,7200,1200\n"), HasSubstr("budget.csv:3:1: this period begins before"));
  EXPECT_THAT(refused("3600,3600,1200\n"), HasSubstr("budget.csv:2:6: this period ends no later"));
  EXPECT_THAT(refused("0,noon,1200\n"), HasSubstr("'noon' is no time"));
  EXPECT_THAT(refused("0,3600,-5\n"), HasSubstr("-5 W is no power"));
}

TEST(PlanPower, WhatCannotBeKeptIsRefused) {
  const Ran ran = plan({"--max-power", "400"});
  EXPECT_THAT(ran.err,
              HasSubstr("never draws more than 400.0 W; of the plans that were looked at, the lowest peak is "));
  EXPECT_EQ(ran.status, 1);
  for (const std::vector<std::string>& options : {std::vector<std::string>{"--max-power", "1100", "--target-time", "5"},
                                                  {"--max-ramp", "9", "--planner", "all"},
                                                  {"--max-power", "1100", "--switch-latency", "7ms"},
                                                  {"--ramp-window", "2s"},
                                                  {"--max-power", "0"}}) {
    EXPECT_EQ(plan(options).status, 2) << ::testing::PrintToString(options);
  }
}

TEST(Plan, ReadsAProfileFromStandardInput) {
  const std::string profile = file_text(std::filesystem::path(FLYBALL_SOURCE_DIR) / kBertProfile);
  const Ran piped = run_flyball({"plan", "-", "--microbatches", "8", "--format", "json"}, profile);
  ASSERT_EQ(piped.status, 0) << piped.err;
  EXPECT_EQ(piped.json().at("frontier"), plan_json().at("frontier"));
}

TEST(Plan, OptionsOverrideThePipelineFile) {
  const TempFolder folder;
  write_file(folder / "pipeline.toml", "schedule = \"gpipe\"\nmicrobatches = 3\nblocking_power = 60\n");
  const auto nodes = [&](std::vector<std::string> options) {
    std::vector<std::string> arguments{"plan",     kBertProfile, "--pipeline", folder / "pipeline.toml",
                                       "--format", "json"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Ran ran = run_flyball(arguments);
    EXPECT_EQ(ran.status, 0) << ran.err;
    return ran.json().at("stats").at("nodes").get<int>();
  };
  EXPECT_EQ(nodes({}), 4 * 2 * 3);
  EXPECT_EQ(nodes({"--microbatches", "5"}), 4 * 2 * 5);
}

// The first stage of this profile is the longest, so that forwards moved up shorten the iteration (by 5 %).
TEST(Plan, MemoryLimitSaysHowFarEnvPipeMovesForwards) {
  const TempFolder folder;
  write_file(folder / "pipeline.toml", "memory_limit = [4, 3, 2, 1]\n");
  const auto selected_time = [](std::vector<std::string> options) {
    options.insert(options.end(), {"--planner", "envpipe"});
    return plan_json(options).at("selected").at("time").get<double>();
  };
  const double unlimited = selected_time({});
  const double in_order = selected_time({"--memory-limit", "4,3,2,1"});
  EXPECT_LT(unlimited, 0.99 * in_order);
  EXPECT_EQ(selected_time({"--pipeline", folder / "pipeline.toml"}), in_order);
  EXPECT_EQ(selected_time({"--pipeline", folder / "pipeline.toml", "--memory-limit", "8"}), unlimited);
}

TEST(Plan, TextFitsEightyColumnsAndNamesTheFiles) {
  const TempFolder folder;
  const Ran ran = plan({"--planner", "all", "--straggler", "1.1", "--switch-latency", "10ms", "--tensor-parallel", "2",
                        "--out", folder / "out"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  std::istringstream lines(ran.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(folder.path().string()) == std::string::npos) EXPECT_LE(line.size(), 80u) << line;
  }
  for (const auto& [name, contents] : folder_contents(folder / "out")) EXPECT_THAT(ran.out, HasSubstr(name));
}

TEST(Plan, HeadlineCountsOneInTheSingular) {
  const TempFolder folder;
  write_file(folder / "one.csv",
             "stage,instruction,frequency,time,energy\n0,forward,1410,0.1,30\n0,backward,1410,0.2,60\n");
  const Ran ran = run_flyball({"plan", folder / "one.csv", "--microbatches", "1", "--unit-time", "10ms"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("one.csv: 1 stage, 1 microbatch, 1f1b\n"));
}

TEST(PlanJson, NoSavingIsZeroWithoutASign) {
  const json selected = plan_json({"--planner", "max"}).at("selected");
  EXPECT_EQ(selected.at("saving_pct"), 0.0);
  EXPECT_FALSE(std::signbit(selected.at("saving_pct").get<double>()));
}

TEST(Plan, WholeJobMultipliesJoules) {
  const Ran ran = plan({"--data-parallel", "8", "--tensor-parallel", "2"});
  const double one = plan_json().at("baseline").at("energy");
  char joules[64];
  std::snprintf(joules, sizeof joules, "%.1f", 16 * one);
  EXPECT_THAT(ran.out, HasSubstr("whole job, 8 pipelines"));
  EXPECT_THAT(ran.out, HasSubstr(joules));
}

// Every row of the table's whole job, of its landmarks and of the straggler is in the object.
TEST(PlanJson, HoldsWhatTheTablesShow) {
  const std::vector<std::string> options{"--data-parallel", "8", "--tensor-parallel", "2", "--straggler", "1.1"};
  const json result = plan_json(options);
  const std::string shown = plan(options).out;
  const auto digits = [](const json& number, int behind) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", behind, number.get<double>());
    return std::string(text);
  };
  EXPECT_NEAR(result.at("t_straggler"), 1.1 * result.at("t_min").get<double>(), 1e-12);
  EXPECT_EQ(result.at("t_allowed"), result.at("t_straggler"));
  EXPECT_THAT(shown, HasSubstr("straggler: T' = " + digits(result.at("t_straggler"), 4) + " s"));
  ASSERT_EQ(result.at("job").size(), 2u);
  for (const json& row : result.at("job")) {
    for (const char* joules : {"baseline_j", "plan_j", "saved_j"})
      EXPECT_THAT(shown, HasSubstr(digits(row.at(joules), 1)));
  }
  EXPECT_NEAR(result.at("job").at(1).at("plan_j"), 2 * result.at("selected").at("energy").get<double>(), 1e-9);
  std::vector<std::string> names;
  for (const json& landmark : result.at("landmarks")) {
    names.push_back(landmark.at("name"));
    EXPECT_THAT(shown, HasSubstr(digits(landmark.at("time"), 4) + "  "));
    EXPECT_EQ(landmark.at("time"), result.at("frontier").at(landmark.at("point").get<std::size_t>()).at("time"));
  }
  EXPECT_THAT(names, ::testing::ElementsAre("fastest", "straggler", "least_total", "t_star"));
}

TEST(PlanJson, HoldsTheSlowerPlansThatTheTableShows) {
  const std::vector<std::string> options{"--switch-latency", "4ms..9ms"};
  const json switching = plan_json(options).at("switching");
  const std::string shown = plan(options).out;
  std::size_t rows = 0;
  for (std::size_t at = shown.find("\n  slower "); at != std::string::npos; at = shown.find("\n  slower ", at + 1)) {
    std::istringstream row(shown.substr(at));
    std::string label, time;
    row >> label >> time;
    char expected[64];
    std::snprintf(expected, sizeof expected, "%.4f", switching.at("worth_time").at(rows++).at("time").get<double>());
    EXPECT_EQ(time, expected);
  }
  EXPECT_EQ(rows, switching.at("worth_time").size());
  EXPECT_GT(rows, 0u);
  for (const json& one : switching.at("worth_time")) EXPECT_LE(one.at("time"), one.at("deadline"));
}

TEST(PlanFiles, AreTheSameBytesEveryTime) {
  const TempFolder first;
  const TempFolder second;
  const std::string profile = (std::filesystem::path(FLYBALL_SOURCE_DIR) / kBertProfile).string();
  const std::vector<std::string> arguments{"plan", profile, "--microbatches", "8", "--planner", "all", "--out", "out"};
  ASSERT_EQ(run_flyball(arguments, "", first.path()).status, 0);
  ASSERT_EQ(run_flyball(arguments, "", second.path()).status, 0);
  const auto files = folder_contents(first / "out");
  EXPECT_EQ(files, folder_contents(second / "out"));
  for (const char* name : {"plan.json", "report.html", "summary.json", "timeline.svg", "timeline.trace.json",
                           "frontier.svg", "cost-curves.svg"}) {
    ASSERT_TRUE(files.contains(name)) << name;
    EXPECT_GT(files.at(name).size(), 1000u) << name;
  }
}

TEST(PlanFiles, SummaryIsThePrintedObjectWithoutMeasuredRunTimes) {
  const TempFolder folder;
  json printed = plan_json({"--out", folder / "out"});
  printed.at("stats").erase("solve_seconds");
  printed.at("stats").erase("peak_rss_mb");
  EXPECT_EQ(json::parse(file_text(folder / "out/summary.json")), printed);
}

TEST(PlanFiles, ZeusFilesAreTheSelectedAllOrNone) {
  const TempFolder folder;
  const std::size_t points = plan_json({"--out", folder / "selected"}).at("frontier").size();
  ASSERT_EQ(plan({"--out", folder / "all", "--zeus-files", "all"}).status, 0);
  ASSERT_EQ(plan({"--out", folder / "none", "--zeus-files", "none"}).status, 0);
  const auto selected = folder_contents(folder / "selected/zeus");
  const auto all = folder_contents(folder / "all/zeus");
  EXPECT_EQ(all.size(), points);
  EXPECT_FALSE(std::filesystem::exists(folder / "none/zeus"));
  // The fastest plan has the largest number, and stands under the same one in both.
  ASSERT_EQ(selected.size(), 1u);
  EXPECT_EQ(selected.begin()->first, all.rbegin()->first);
}

TEST(PlanFiles, OfAnEarlierRunDoNotStayBesideTheNew) {
  const TempFolder folder;
  ASSERT_EQ(plan({"--out", folder / "out", "--zeus-files", "all", "--switch-latency", "10ms"}).status, 0);
  ASSERT_TRUE(std::filesystem::exists(folder / "out/plan-switching.json"));
  ASSERT_GT(folder_contents(folder / "out/zeus").size(), 50u);
  for (const char* name : {"out/notes.txt", "out/zeus/freqs_pipeline_mine.py", "out/zeus/freqs_pipeline_.py",
                           "out/zeus/freqs_pipeline_00001.py.old"}) {
    write_file(folder / name, "kept");
  }
  ASSERT_EQ(plan({"--out", folder / "out", "--straggler", "1.1"}).status, 0);
  ASSERT_EQ(plan({"--out", folder / "fresh", "--straggler", "1.1"}).status, 0);
  auto files = folder_contents(folder / "out");
  for (const char* name :
       {"notes.txt", "zeus/freqs_pipeline_mine.py", "zeus/freqs_pipeline_.py", "zeus/freqs_pipeline_00001.py.old"}) {
    EXPECT_EQ(files[name], "kept") << name;
    files.erase(name);
  }
  const auto fresh = folder_contents(folder / "fresh");
  ASSERT_EQ(files.size(), fresh.size());
  for (const auto& [name, contents] : fresh) {
    ASSERT_TRUE(files.contains(name)) << name;
    if (name != "report.html") EXPECT_EQ(files[name], contents) << name;  // the report names its folder
  }
}

TEST(PlanFiles, AReportIsWrittenLast) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "out/summary.json/taken");  // cannot be replaced by a file
  const Ran ran = plan({"--out", folder / "out"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.err, HasSubstr("summary.json"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out/report.html"));
}

TEST(PlanInterrupt, EndsTheWaitForStandardInput) {
  const TempFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int writer = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC);  // never writes: the program waits
  for (const char* command : {"plan", "emulate"}) {
    const Ran ran = run_interrupted({command, "-", "--microbatches", "4"}, 0.0, pipe);
    EXPECT_EQ(ran.status, 130) << command;
    EXPECT_EQ(ran.out, "");
    EXPECT_THAT(ran.err, HasSubstr("interrupted; nothing was written"));
  }
  EXPECT_EQ(run_interrupted({"profile", "show", "-"}, 0.0, pipe).status, 130);
  ::close(writer);
}

TEST(PlanInterrupt, LeavesNothingBehind) {
  // Without the interrupt this takes minutes.
  const TempFolder folder;
  const Ran ran = run_interrupted(
      {"plan", kBertProfile, "--microbatches", "3000", "--unit-time", "100us", "--out", folder / "out"}, 1.0);
  EXPECT_EQ(ran.status, 130);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr("interrupted; nothing was written"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

TEST(Terminal, ColoursErrorsUnlessToldNotTo) {
  const Ran coloured = run_on_terminal({"plan"});
  EXPECT_EQ(coloured.status, 2);
  EXPECT_THAT(coloured.out, HasSubstr("\x1b[31merror:\x1b[0m"));
  EXPECT_THAT(run_on_terminal({"plan"}, {{"NO_COLOR", "1"}}).out, ::testing::Not(HasSubstr("\x1b")));
  EXPECT_THAT(run_on_terminal({"plan"}, {{"TERM", "dumb"}}).out, ::testing::Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace flyball::testing
