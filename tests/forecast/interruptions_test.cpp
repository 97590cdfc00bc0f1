// Checkpoints, evaluations and failures, by hand and beside runs that really fail.
#include "forecast/interruptions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "base/error.h"
#include "forecast/forecast.h"

namespace flyball {
namespace {

// 100 iterations of 1 s on two nodes.
std::string interrupted_run(const std::string& interruptions) {
  std::string text = "samples = 200\nbatch = 1\n" + interruptions + R"(
[[nodes]]
count = 2
power_w.processor = { active = 100, idle = 20 }
power_w.memory = { active = 30, idle = 10 }
power_w.disk = { active = 8, idle = 5 }
[nodes.stage]
forward.seconds = 0.5
backward.seconds = 0.5
)";
  for (const std::string name :
       {"set_dataset", "load_data", "preprocess", "model_in_out", "communication", "wait", "update"}) {
    text += name + ".seconds = 0\n";
  }
  return text;
}

RunForecast interrupted(const std::string& interruptions) {
  const RunDescription run = read_run("RUN.toml", interrupted_run(interruptions));
  check_complete(run);
  return forecast_run(run);
}

constexpr const char* kPauses = R"(
[checkpoint]
every = 30
seconds = 4
[evaluation]
per = "epoch"
seconds = 10
)";

TEST(Interruptions, CheckpointsAndEvaluations) {
  const RunForecast forecast = interrupted(kPauses);
  ASSERT_EQ(forecast.interruptions.size(), 2u);
  // Three checkpoints in 100 iterations: disk 8, memory 30, processor idle 20, on two nodes.
  EXPECT_EQ(forecast.interruptions[0].times, 3.0);
  EXPECT_NEAR(forecast.interruptions[0].energy().value(), 2 * 12 * 58.0, 1e-9);
  // One evaluation on the processor, since there is no accelerator: 100 + 30 + 5 W.
  EXPECT_NEAR(forecast.interruptions[1].energy().value(), 2 * 10 * 135.0, 1e-9);
  EXPECT_NEAR(forecast.duration.value(), 122.0, 1e-9);
  EXPECT_NEAR(forecast.energy.value(), 2 * 100 * 135.0 + 1392.0 + 2700.0, 1e-6);
  EXPECT_NEAR(forecast.of(Component::kDisk).value(), 2 * (100 * 5.0 + 12 * 8.0 + 10 * 5.0), 1e-6);
  EXPECT_NEAR(forecast.node_types[0].energy.value(), forecast.energy.value(), 1e-6);
  // Stated: a checkpoint that goes over the network alone leaves all else idle.
  const RunForecast idle = interrupted("[checkpoint]\nevery = 50\nseconds = 1\nactive = [\"network\"]\n");
  EXPECT_NEAR(idle.interruptions[0].energy().value(), 2 * 2 * 35.0, 1e-9);
}

TEST(Interruptions, FailuresByDalysModel) {
  // 122 s in 100/30 stretches of 36.6 s. With M = 36.6 s / ln 2 every stretch fails once on average, and with
  // R = M ln 1.5 every restart half a time: 10/3 failures of computing, 5 in all. The time is 5 M = 264.0132 s, of
  // which 10/3 M - 122 s = 54.0088 s are work done again and 10/3 (1.5 - 1) M = 88.0044 s restarts. A node fails every
  // 2 M.
  const double m = 36.6 / std::log(2.0);
  const std::string restarts = "[restarts]\nnode_hours_between_failures = " + std::to_string(2.0 * m / 3600.0 * 1e6) +
                               "e-6\nseconds = " + std::to_string(m * std::log(1.5)) + "\n";
  const RunForecast forecast = interrupted(kPauses + restarts);
  ASSERT_EQ(forecast.interruptions.size(), 4u);
  EXPECT_EQ(forecast.interruptions[2].name, "repeated_work");
  EXPECT_NEAR(forecast.interruptions[2].time.value(), 54.0088, 1e-3);
  EXPECT_NEAR(forecast.interruptions[2].energy().value(), 54.0088 * 270.0, 0.3);  // at the power of iterations
  EXPECT_EQ(forecast.interruptions[3].name, "restart");
  EXPECT_NEAR(forecast.interruptions[3].times, 5.0, 1e-4);
  EXPECT_NEAR(forecast.interruptions[3].energy().value(), 88.0044 * 116.0, 0.2);
  EXPECT_NEAR(forecast.duration.value(), 264.0132, 1e-3);
  const RunForecast without = interrupted(kPauses);
  EXPECT_GT(forecast.interval.high - forecast.energy, without.interval.high - without.energy);
}

TEST(Interruptions, RareFailuresLoseHalfAStretchAndARestart) {
  // Young's first order: 112 s and a failure every 1e7 s; half of 28 s and 7 s are lost for each.
  const RunForecast forecast = interrupted(
      "[checkpoint]\nevery = 25\nseconds = 3\n[restarts]\nnode_hours_between_failures = 5555.5555556\nseconds = 7\n");
  const double failures = 112.0 / 1e7;
  EXPECT_NEAR(forecast.interruptions[1].time.value() / (failures * 14.0), 1.0, 1e-4);
  EXPECT_NEAR(forecast.interruptions[2].time.value() / (failures * 7.0), 1.0, 1e-4);
  const RunDescription run = read_run(
      "RUN.toml",
      interrupted_run(
          "[checkpoint]\nevery = 25\nseconds = 3\n[restarts]\nnode_hours_between_failures = 1\nseconds = 7\n"));
  // sqrt(2 x 3 s x 1800 s) = 103.9 s.
  EXPECT_THAT(*sentence_on_failures(run, forecast_run(run)), ::testing::HasSubstr("a checkpoint every 104 iterations"));
}

TEST(Interruptions, RunsThatReallyFail) {
  // Four stretches of 28 s with a failure every 40 s and restarts of 7 s, 20,000 times.
  const RunForecast forecast = interrupted(
      "[checkpoint]\nevery = 25\nseconds = 3\n[restarts]\nnode_hours_between_failures = 0.0222222222\nseconds = 7\n");
  std::mt19937_64 random(1);
  std::exponential_distribution<double> failure(1.0 / 40.0);
  constexpr int kRuns = 20'000;
  double sum = 0.0;
  double squares = 0.0;
  for (int run = 0; run < kRuns; ++run) {
    double time = 0.0;
    for (int stretch = 0; stretch < 4; ++stretch) {
      for (double until = failure(random); until < 28.0; until = failure(random)) {
        time += until;
        for (until = failure(random); until < 7.0; until = failure(random)) time += until;
        time += 7.0;
      }
      time += 28.0;
    }
    sum += time;
    squares += time * time;
  }
  const double mean = sum / kRuns;
  const double error = std::sqrt((squares / kRuns - mean * mean) / kRuns);
  EXPECT_NEAR(forecast.duration.value(), mean, 4.0 * error);
  EXPECT_LT(error, 0.01 * mean);
}

TEST(Interruptions, RunsThatNeverEndAndBadInputAreRefused) {
  const auto problem = [](const std::string& interruptions) {
    try {
      (void)interrupted(interruptions);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  using ::testing::HasSubstr;
  const std::string often = "[restarts]\nnode_hours_between_failures = 0.002\nseconds = 1\n";
  EXPECT_THAT(problem(often), HasSubstr("add [checkpoint]"));
  EXPECT_THAT(problem(often + "[checkpoint]\nevery = 90\nseconds = 1\n"), HasSubstr("make checkpoints more often"));
  EXPECT_EQ(problem(often + "[checkpoint]\nevery = 10\nseconds = 1\n"), "accepted");
  EXPECT_THAT(problem("[checkpoint]\nevery = 0\nseconds = 1\n"), HasSubstr("every of checkpoint"));
  EXPECT_THAT(problem("[checkpoint]\nevery = 10\nseconds = -1\n"), HasSubstr("seconds of checkpoint"));
  EXPECT_THAT(problem("[checkpoint]\nevery = nan\nseconds = 1\n"), HasSubstr("every of checkpoint"));
  EXPECT_THAT(problem("[checkpoint]\nseconds = 1\n"), HasSubstr("every is missing"));
  EXPECT_THAT(problem("[checkpoint]\nevery = 1\nhours = 1\n"), HasSubstr("hours"));
  EXPECT_THAT(problem("[evaluation]\nper = \"iteration\"\nseconds = 1\n"), HasSubstr("once an epoch"));
  EXPECT_THAT(problem("[evaluation]\nper = \"epoch\"\nevery = 5\nseconds = 1\n"), HasSubstr("both every and per"));
  EXPECT_THAT(problem("[restarts]\nseconds = 1\n"), HasSubstr("node_hours_between_failures is missing"));
  EXPECT_THAT(problem("[all_reduce]\nnodes = [1]\nseconds = [1]\n"), HasSubstr("on one node"));
  EXPECT_THAT(problem("[all_reduce]\nnodes = [2, 4]\nseconds = [1]\n"), HasSubstr("2 numbers of nodes and 1 times"));
  EXPECT_THAT(problem("[all_reduce]\nnodes = [2]\nseconds = [0]\n"), HasSubstr("takes no time"));
}

}  // namespace
}  // namespace flyball
