// Eqs. 19-41 on small runs whose energy is worked out by hand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "forecast/forecast.h"
#include "forecast/recording.h"

namespace flyball {
namespace {

constexpr const char* kPowers = R"(
[nodes.power_w]
processor = { active = 100, idle = 20 }
memory = { active = 30, idle = 10 }
disk = { active = 8, idle = 5 }
network = { active = 12, idle = 6 }
)";

std::string stage(const std::string& name, const std::string& seconds, const std::string& more = "") {
  return "[nodes.stage." + name + "]\nseconds = " + seconds + "\n" + more;
}

std::string stages(const std::string& forward) {
  return stage("set_dataset", "4") + stage("load_data", "0.1") + stage("preprocess", "0.2") +
         stage("model_in_out", "3") + stage("forward", forward) + stage("backward", "1") +
         stage("communication", "0.3") + stage("update", "0.1");
}

RunForecast forecast_of(const std::string& text, double confidence = 0.9) {
  const RunDescription run = read_run("RUN.toml", text);
  check_complete(run);
  return forecast_run(run, confidence);
}

TEST(Model, OneTimeStagesOncePerBatchStagesOftenEnough) {
  // Two nodes of batch 5 and 100 samples: 10 iterations an epoch, 30 in three.
  const RunForecast forecast = forecast_of(std::string("samples = 100\nbatch = 5\nepochs = 3\n[[nodes]]\ncount = 2\n") +
                                           kPowers + stages("0.5"));
  EXPECT_DOUBLE_EQ(forecast.iterations, 30.0);
  // eq. 19: disk 8 + memory 30 + processor idle 20 + network idle 6 = 64 W, 4 s, once, two nodes
  EXPECT_NEAR(forecast.of(TrainingStage::kSetDataset).value(), 2 * 4 * 64.0, 1e-9);
  // eq. 20: 64 W, 0.1 s, 30 times, two nodes
  EXPECT_NEAR(forecast.of(TrainingStage::kLoadData).value(), 2 * 30 * 0.1 * 64.0, 1e-9);
  // eq. 21: processor 100 + memory 30 + disk idle 5 + network idle 6 = 141 W
  EXPECT_NEAR(forecast.of(TrainingStage::kPreprocess).value(), 2 * 30 * 0.2 * 141.0, 1e-9);
  // eqs. 25-26: as set_dataset
  EXPECT_NEAR(forecast.of(TrainingStage::kModelInOut).value(), 2 * 3 * 64.0, 1e-9);
  // eqs. 29-32: 141 W
  EXPECT_NEAR(forecast.of(TrainingStage::kForward).value(), 2 * 30 * 0.5 * 141.0, 1e-9);
  EXPECT_NEAR(forecast.of(TrainingStage::kBackward).value(), 2 * 30 * 1.0 * 141.0, 1e-9);
  // eq. 36: network 12 + processor 100 + memory 30 + disk idle 5 = 147 W
  EXPECT_NEAR(forecast.of(TrainingStage::kCommunication).value(), 2 * 30 * 0.3 * 147.0, 1e-9);
  // eq. 37: 141 W
  EXPECT_NEAR(forecast.of(TrainingStage::kUpdate).value(), 2 * 30 * 0.1 * 141.0, 1e-9);
  // eqs. 23, 33, 38 and 41: stages as above, from the data set's to the update's
  EXPECT_NEAR(forecast.of(StageGroup::kPreprocess).value(), 512 + 384 + 1692, 1e-9);
  EXPECT_NEAR(forecast.of(StageGroup::kCompute).value(), 384 + 4230 + 8460, 1e-9);
  EXPECT_NEAR(forecast.of(StageGroup::kCommunicate).value(), 2646 + 846, 1e-9);
  EXPECT_NEAR(forecast.energy.value(), 2588 + 13074 + 3492, 1e-9);
  // Equal nodes do not wait. 7 s of set-up and 30 iterations of 2.2 s.
  EXPECT_NEAR(forecast.of(TrainingStage::kWait).value(), 0.0, 1e-9);
  EXPECT_NEAR(forecast.duration.value(), 7.0 + 30 * 2.2, 1e-9);
}

TEST(Model, FastNodesWaitAtIdlePower) {
  // One node takes 0.5 s forward, three take 0.8 s: eq. 40 charges the one 0.3 s of 20 + 10 + 5 + 6 = 41 W, 10 times.
  const std::string text = std::string("samples = 200\nbatch = 5\n") + "[[nodes]]\nname = \"fast\"\ncount = 1\n" +
                           kPowers + stages("0.5") + "[[nodes]]\nname = \"slow\"\ncount = 3\n" + kPowers +
                           stages("0.8");
  const RunForecast forecast = forecast_of(text);
  EXPECT_DOUBLE_EQ(forecast.iterations, 10.0);
  EXPECT_NEAR(forecast.of(TrainingStage::kWait).value(), 10 * 0.3 * 41.0, 1e-9);
  EXPECT_NEAR(forecast.node_types[0].wait.value(), 0.3, 1e-12);
  EXPECT_NEAR(forecast.node_types[1].wait.value(), 0.0, 1e-12);
  EXPECT_NEAR(forecast.duration.value(), 7.0 + 10 * 2.5, 1e-9);
}

TEST(Model, EqualNodesWaitForWhoeverHappensToBeSlow) {
  // Forward takes 0.4 or 0.6 s, each every other time. Of two nodes the slower takes 0.4 s with chance 1/4, else 0.6 s:
  // 0.55 s on average, 0.05 s above the mean of one.
  const RunForecast forecast = forecast_of(std::string("samples = 100\nbatch = 5\n[[nodes]]\ncount = 2\n") + kPowers +
                                           stages("[0.4, 0.6, 0.4, 0.6]"));
  EXPECT_NEAR(forecast.node_types[0].wait.value(), 0.05, 1e-12);
  EXPECT_NEAR(forecast.of(TrainingStage::kWait).value(), 2 * 10 * 0.05 * 41.0, 1e-9);
}

TEST(Model, MeasuredWaitIsTakenAsItIs) {
  const RunForecast forecast = forecast_of(std::string("samples = 100\nbatch = 5\n[[nodes]]\ncount = 2\n") + kPowers +
                                           stages("[0.4, 0.6, 0.4, 0.6]") + stage("wait", "0.25"));
  EXPECT_NEAR(forecast.of(TrainingStage::kWait).value(), 2 * 10 * 0.25 * 41.0, 1e-9);
}

TEST(Model, NodesIdleUntilTheLongestAllReduceIsOver) {
  // Equal but for the all-reduce, 0.3 s on one node and 0.5 s on three: an iteration takes 2.4 s everywhere, and the
  // one node draws 0.2 s of 41 W in each of 10 that it was not charged for otherwise.
  std::string slow = stages("0.5");
  slow.replace(slow.find("seconds = 0.3"), 13, "seconds = 0.5");
  const RunForecast forecast =
      forecast_of(std::string("samples = 200\nbatch = 5\n[[nodes]]\nname = \"a\"\ncount = 1\n") + kPowers +
                  stages("0.5") + "[[nodes]]\nname = \"b\"\ncount = 3\n" + kPowers + slow);
  EXPECT_NEAR(forecast.of(TrainingStage::kWait).value(), 10 * 0.2 * 41.0, 1e-9);
  EXPECT_NEAR(forecast.of(TrainingStage::kCommunication).value(), 10 * (0.3 + 3 * 0.5) * 147.0, 1e-9);
  EXPECT_NEAR(forecast.node_types[0].wait.value(), 0.2, 1e-12);
  EXPECT_NEAR(forecast.duration.value(), 7.0 + 10 * 2.4, 1e-9);
}

TEST(Model, MeasuredWaitsThatDoNotEvenOutAreFilledUp) {
  // Iterations of 2.2 + 0.25 s and 2.5 + 0.05 s: the first type idles 0.1 s more than its measured wait. Its data set
  // is indexed in 4 s, the other's in 6: 2 s of idling before the first iteration. 41 W each.
  std::string slow = stages("0.8") + stage("wait", "0.05");
  slow.replace(slow.find("seconds = 4"), 11, "seconds = 6");
  const RunForecast forecast =
      forecast_of(std::string("samples = 100\nbatch = 5\n[[nodes]]\nname = \"a\"\n") + kPowers + stages("0.5") +
                  stage("wait", "0.25") + "[[nodes]]\nname = \"b\"\n" + kPowers + slow);
  EXPECT_NEAR(forecast.of(TrainingStage::kWait).value(), 41.0 * (2.0 + 10 * (0.25 + 0.1 + 0.05)), 1e-9);
  EXPECT_NEAR(forecast.duration.value(), 9.0 + 10 * 2.55, 1e-9);
}

// A run of up to four types whose nodes draw the same whatever they do, its stages and how often they occur drawn from
// `seed`. Whatever the times are, such a node takes its power times the duration of the run, no second left out.
std::string run_of_flat_powers(std::uint64_t seed, std::vector<double>& watts) {
  std::mt19937_64 random(seed);
  const auto below = [&random](std::uint64_t end) { return random() % end; };
  std::string text = fmt::format("samples = {}\nbatch = 4\nepochs = {}\n", 100 + below(100), 1 + below(3));
  const bool waits = below(2) == 0;
  const std::size_t measured = 1 + below(4);
  const auto types = 1 + below(4);
  for (std::uint64_t t = 0; t < types; ++t) {
    const auto count = 1 + below(5);
    watts.push_back(static_cast<double>(100 + below(300)));
    text += fmt::format("[[nodes]]\ncount = {}\npower_w.processor = {{ active = {}, idle = {} }}\n", count,
                        watts.back(), watts.back());
    watts.back() *= static_cast<double>(count);
    for (const std::string& name : names_of<TrainingStage>()) {
      if (name == "wait" && !waits) continue;
      const char* const per[] = {"run", "epoch", "iteration"};
      text += fmt::format("[nodes.stage.{}]\nper = \"{}\"\nseconds = [", name, per[below(3)]);
      for (std::size_t k = 0; k < measured; ++k) text += fmt::format("0.{},", 100 + below(900));
      text += "]\n";
    }
  }
  return text;
}

TEST(Model, EveryNodeIsChargedForEverySecondOfTheRun) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::vector<double> watts;
    const RunDescription run = read_run("RUN.toml", run_of_flat_powers(seed, watts));
    const RunForecast forecast = forecast_run(run);
    for (std::size_t t = 0; t < watts.size(); ++t) {
      const NodeTypeForecast& type = forecast.node_types[t];
      EXPECT_NEAR(type.energy.value() / (watts[t] * forecast.duration.value()), 1.0, 1e-9) << "seed " << seed;
      EXPECT_NEAR(type.charged / forecast.duration, 1.0, 1e-9) << "seed " << seed;
      EXPECT_NEAR(type.iteration / forecast.node_types[0].iteration, 1.0, 1e-12) << "seed " << seed;
    }
  }
}

TEST(Model, AcceleratorsComputeAndTransfer) {
  // Two accelerators of 300/50 W in the node; eq. 22: memory 30, accelerator idle 100, processor idle 20.
  const std::string text = std::string(R"(samples = 10
batch = 10
[[nodes]]
[nodes.power_w]
processor = { active = 100, idle = 20 }
memory = { active = 30, idle = 10 }
accelerator = { active = 300, idle = 50, count = 2 }
)") + stage("set_dataset", "0") +
                           stage("load_data", "0") + stage("preprocess", "0") + stage("model_in_out", "0") +
                           stage("model_transfer", "2") + stage("transfer", "0.5") + stage("forward", "1") +
                           stage("backward", "2", "power_w = { accelerator = 500 }\n") + stage("update", "0");
  const RunForecast forecast = forecast_of(text);
  EXPECT_NEAR(forecast.of(TrainingStage::kTransfer).value(), 0.5 * 150.0, 1e-9);
  EXPECT_NEAR(forecast.of(TrainingStage::kModelTransfer).value(), 2 * 150.0, 1e-9);  // eqs. 27-28, once
  EXPECT_NEAR(forecast.of(TrainingStage::kForward).value(), 600 + 30 + 20, 1e-9);
  EXPECT_NEAR(forecast.of(TrainingStage::kBackward).value(), 2.0 * (500 + 30 + 20), 1e-9);
}

TEST(Model, MemoryPartsOfForwardAndBackward) {
  // Eqs. 29 and 30 apart: computing at 100 + memory idle 10, then memory 30 + processor idle 20; disk and network idle
  // 11.
  const RunForecast forecast = forecast_of(std::string("samples = 5\nbatch = 5\n[[nodes]]\n") + kPowers +
                                           stages("0.5") + stage("forward_memory", "0.2"));
  EXPECT_NEAR(forecast.of(TrainingStage::kForward).value(), 0.5 * 121.0, 1e-9);
  EXPECT_NEAR(forecast.of(TrainingStage::kForwardMemory).value(), 0.2 * 61.0, 1e-9);
  EXPECT_NEAR(forecast.of(TrainingStage::kBackward).value(), 141.0, 1e-9);
}

TEST(Model, NodesThatAreKnownToDifferWait) {
  // Of two nodes whose local time, 1.9 s, differs by 2 %, normally, the slower takes 2 % / sqrt(pi) above the mean.
  const RunForecast forecast =
      forecast_of(std::string("samples = 100\nbatch = 5\n[[nodes]]\ncount = 2\nspread = 0.02\n") + kPowers +
                  stages("0.5") + stage("transfer", "0"));
  EXPECT_NEAR(forecast.node_types[0].wait.value(), 1.9 * 0.02 / std::sqrt(std::numbers::pi), 2e-5);
}

TEST(Model, PiecesFollowEachOtherAndAddUp) {
  // Two types, of which the first waits for the second in every respect.
  std::string slow = stages("0.8");
  for (const auto& [from, to] :
       {std::pair{"seconds = 4", "seconds = 6"}, std::pair{"seconds = 0.3", "seconds = 0.4"}}) {
    slow.replace(slow.find(from), std::string(from).size(), to);
  }
  const RunDescription run = read_run("RUN.toml", std::string("samples = 40\nbatch = 5\n[[nodes]]\n") + kPowers +
                                                      stages("0.5") + "[[nodes]]\n" + kPowers + slow);
  const RunForecast forecast = forecast_run(run);
  for (std::size_t t = 0; t < 2; ++t) {
    const auto pieces = power_over_time(run, forecast, t, 1000);
    Joules energy(0);
    Seconds now(0);
    for (const PowerPiece& piece : pieces) {
      EXPECT_NEAR(piece.begin.value(), now.value(), 1e-12);
      now = piece.end;
      energy += piece.power * (piece.end - piece.begin);
    }
    EXPECT_NEAR(energy.value(), forecast.node_types[t].energy.value(), 1e-6);
    EXPECT_NEAR(now.value(), 9.0 + 4 * 2.6, 1e-9);
    EXPECT_EQ(power_over_time(run, forecast, t, 5).size(), 5u);
  }
}

// A recording of one processor: 20 W until 1 s, 100 W until 3 s, 40 W until 5 s; Unix time.
Recording three_powers() {
  Recording recording{"p.csv", 1e9, {}};
  recording.add("CPU:0", Seconds(0), Seconds(1), Watts(20));
  recording.add("CPU:0", Seconds(1), Seconds(3), Watts(100));
  recording.add("CPU:0", Seconds(3), Seconds(5), Watts(40));
  return recording;
}

TEST(Recording, IntegratesPowerOverStages) {
  RunDescription run = read_run("RUN.toml", std::string("samples = 5\nbatch = 5\n[[nodes]]\nrecording = \"p.csv\"\n"
                                                        "spans = \"s.csv\"\n") +
                                                kPowers + stages("9"));
  const auto spans = read_spans("s.csv",
                                "iteration,stage,begin,end\n"
                                "0,forward,1000000000.5,1000000002\n"
                                "1,forward,1000000003,1000000004\n");
  attach_recording(run.node_types[0], three_powers(), spans);
  const StageMeasurement& forward = run.node_types[0].stage(TrainingStage::kForward);
  ASSERT_EQ(forward.times.size(), 2u);
  EXPECT_NEAR(forward.times[0].value(), 1.5, 1e-6);
  // 0.5 s x 20 W + 1 s x 100 W = 110 J; 1 s x 40 W. Memory, disk and network by power times time: 30 + 5 + 6 = 41 W.
  check_complete(run);
  const RunForecast forecast = forecast_run(run);
  EXPECT_NEAR(forecast.of(TrainingStage::kForward).value(), 0.5 * (110 + 40) + 0.5 * (1.5 + 1.0) * 41.0, 1e-4);
}

TEST(Recording, ShortHolesAreBridgedAndOtherDevicesLeftOut) {
  Recording recording;
  recording.add("GPU:0", Seconds(0), Seconds(1), Watts(100));
  recording.add("GPU:0", Seconds(2), Seconds(4), Watts(200));  // 1 s to 2 s: as after it
  recording.add("fan", Seconds(0), Seconds(9), Watts(5));
  EXPECT_NEAR(recording.between(Component::kAccelerator, Seconds(0.5), Seconds(3)).value(), 50 + 2 * 200, 1e-9);
  EXPECT_EQ(recording.common_span().second, Seconds(4));
}

TEST(Recording, CalibratesActiveAndIdle) {
  // 60 W for 2 s, 300 W for 6 s, with a watt of wobble: two levels.
  Recording recording;
  for (int t = 0; t < 8; ++t) {
    recording.add("GPU:0", Seconds(t), Seconds(t + 1), Watts((t < 2 ? 60 : 300) + (t % 2 == 0 ? 1 : -1)));
  }
  const auto powers = calibrate(recording);
  const auto& gpu = powers[index_of(Component::kAccelerator)];
  ASSERT_TRUE(gpu);
  EXPECT_NEAR(gpu->idle.value(), 60.0, 1e-9);
  EXPECT_NEAR(gpu->active.value(), 300.0, 1e-9);
  EXPECT_FALSE(powers[index_of(Component::kProcessor)]);
}

}  // namespace
}  // namespace flyball
