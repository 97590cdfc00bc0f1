#include "cluster/ground_truth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "cluster/measurements.h"
#include "profile/embedded_data.h"
#include "support/expect_error.h"
#include "support/shared_data.h"

namespace flyball {
namespace {

constexpr Megahertz kClock(1530.0);

// PowerFlow 3.1: one iteration of VGG16 on A100, global batch 64.
TEST(GroundTruth, MeetsThePublishedPointsOfVgg16) {
  const GroundTruth truth = load_ground_truth("a100");
  const int vgg = truth.find_model("vgg16");
  const IterationCost one = truth.at(vgg, {1, 1, 64.0, Megahertz(1410)});
  EXPECT_NEAR(one.time.value(), 0.114, 0.002);
  EXPECT_NEAR(one.energy.value(), 27.0, 0.5);
  const IterationCost two = truth.at(vgg, {2, 1, 64.0, Megahertz(1410)});
  EXPECT_NEAR(two.time.value(), 0.112, 0.002);
  EXPECT_NEAR(two.energy.value(), 39.0, 0.8);
}

// EnvPipe: the V100's least-energy clock is about 1020 MHz, some 20-25 % slower than the highest.
TEST(GroundTruth, TheV100HasItsValleyNear1020) {
  const GroundTruth truth = load_ground_truth("v100");
  ASSERT_EQ(truth.models().size(), 5u);
  for (int model = 0; model < 5; ++model) {
    const double batch = truth.batch_sizes(model).back();
    double least = 1e300;
    double at = 0.0;
    for (double clock = 510.0; clock <= 1530.0; clock += 15.0) {
      const double energy = truth.at(model, {1, 1, batch, Megahertz(clock)}).energy.value();
      if (energy < least) {
        least = energy;
        at = clock;
      }
    }
    EXPECT_NEAR(at, 1020.0, 90.0) << truth.models()[static_cast<std::size_t>(model)];
    const Seconds slow = truth.at(model, {1, 1, batch, Megahertz(1020)}).time;
    const Seconds fast = truth.at(model, {1, 1, batch, Megahertz(1530)}).time;
    EXPECT_GT(slow / fast, 1.15);
    EXPECT_LT(slow / fast, 1.40);
  }
}

// Power-of-two steps in the logarithm: half way between 100 and 400 is 200.
TEST(GroundTruth, InterpolatesLogarithms) {
  MeasurementSet set;
  for (const double clock : {1000.0, 4000.0}) {
    for (const double batch : {10.0, 40.0}) {
      const Seconds time(batch * 1000.0 / clock);
      set["m"].push_back({{1, 1, batch, Megahertz(clock)}, {time, Watts(clock / 10.0) * time}});
    }
  }
  const GroundTruth truth("test", set);
  const IterationCost middle = truth.at(0, {1, 1, 20.0, Megahertz(2000.0)});
  EXPECT_NEAR(middle.time.value(), 10.0, 1e-9);
  EXPECT_NEAR(middle.power().value(), 200.0, 1e-9);
  // Measured points are met.
  EXPECT_NEAR(truth.at(0, {1, 1, 40.0, Megahertz(1000.0)}).time.value(), 40.0, 1e-9);
  // Beyond the batches the nearest holds; beyond the clocks, too, but time goes as 1/f.
  EXPECT_NEAR(truth.at(0, {1, 1, 80.0, Megahertz(1000.0)}).time.value(), 40.0, 1e-9);
  EXPECT_NEAR(truth.at(0, {1, 1, 40.0, Megahertz(500.0)}).time.value(), 80.0, 1e-9);
  EXPECT_NEAR(truth.at(0, {1, 1, 40.0, Megahertz(500.0)}).power().value(), 100.0, 1e-9);
  // More GPUs than were measured cost as many times one GPU's power.
  EXPECT_NEAR(truth.at(0, {2, 1, 20.0, Megahertz(1000.0)}).power().value(), 200.0, 1e-9);
  EXPECT_EQ(truth.find_model("other"), -1);
}

// Half way in the logarithm of the batch the use is half way, too.
TEST(GroundTruth, SaysWhatJobsTakeOfAGpu) {
  const MeasurementSet set = read_measurements("m.csv",
                                               "gpus,batch_size,step_time_s,step_energy_j,gpu_utilisation,memory_gib\n"
                                               "1,10,0.5,100,0.4,2\n1,40,1,200,0.8,6\n",
                                               kClock);
  const GroundTruth truth("m.csv", set);
  const GpuUse use = truth.use(0, {1, 1, 20.0, kClock});
  EXPECT_NEAR(use.utilisation, 0.6, 1e-12);
  EXPECT_NEAR(use.memory_gib, 4.0, 1e-12);
  EXPECT_NEAR(truth.use(0, {1, 1, 80.0, kClock}).memory_gib, 6.0, 1e-12);
}

// On the shipped tables: shares and memories of a board, no less memory for larger local batches.
TEST(GroundTruth, ShippedTablesSayWhatJobsTake) {
  for (const auto& [gpu, board_gib] : {std::pair("v100", 16.0), {"a100", 80.0}}) {
    const GroundTruth truth = load_ground_truth(gpu);
    for (int model = 0; model < static_cast<int>(truth.models().size()); ++model) {
      double before = 0.0;
      for (const int batch : truth.batch_sizes(model)) {
        const GpuUse use = truth.use(model, {1, 1, static_cast<double>(batch), Megahertz(1410.0)});
        EXPECT_GE(use.utilisation, 0.5);
        EXPECT_LE(use.utilisation, 1.0);
        EXPECT_GE(use.memory_gib, before);
        EXPECT_LT(use.memory_gib, board_gib);
        before = use.memory_gib;
      }
    }
  }
}

TEST(GroundTruth, NeedsEnergies) {
  const MeasurementSet set = read_measurements("times.csv", "gpus,batch_size,step_time_s\n1,8,0.5\n", kClock);
  expect_input_error([&] { GroundTruth("times.csv", set); }, 0, 0, "no energies");
  expect_usage_error([] { (void)load_ground_truth("z80"); }, "a100-pcie, v100");
}

TEST(Measurements, ReadsItsOwnColumns) {
  const MeasurementSet set = read_measurements("m.csv",
                                               "model,gpus,nodes,batch_size,clock_mhz,step_time_s,step_energy_j\n"
                                               "vgg,4,2,64,1200,0.5,100\nbert,1,1,8,900,0.1,20\n",
                                               kClock);
  ASSERT_EQ(set.size(), 2u);
  const JobMeasurement& row = set.at("vgg").front();
  EXPECT_EQ(row.configuration.gpus, 4);
  EXPECT_EQ(row.configuration.nodes, 2);
  EXPECT_DOUBLE_EQ(row.configuration.local_batch(), 16.0);
  EXPECT_DOUBLE_EQ(row.configuration.gpus_per_node(), 2.0);
  EXPECT_DOUBLE_EQ(row.cost.power().value(), 200.0);
}

TEST(Measurements, ReadsPlacementsAndReplicas) {
  const MeasurementSet placed =
      read_measurements("dir/bert-aws.csv", "placement,local_bsz,step_time,sync_time\n21,8,0.5,0.1\n", kClock);
  const JobMeasurement& row = placed.at("bert-aws").front();
  EXPECT_EQ(row.configuration.gpus, 3);
  EXPECT_EQ(row.configuration.nodes, 2);
  EXPECT_DOUBLE_EQ(row.configuration.batch_size, 24.0);
  EXPECT_DOUBLE_EQ(row.configuration.clock.value(), 1530.0);
  EXPECT_DOUBLE_EQ(row.cost.energy.value(), 0.0);
  const MeasurementSet scaled =
      read_measurements("x.csv", "num_nodes,num_replicas,local_bsz,step_time\n6,12,4,1.5\n", kClock);
  EXPECT_EQ(scaled.at("x").front().configuration.gpus, 12);
}

TEST(Measurements, ComplainsWithLineAndColumn) {
  const auto read = [](const std::string& text) { (void)read_measurements("m.csv", text, kClock); };
  const std::string header = "gpus,nodes,batch_size,step_time_s\n";
  expect_input_error([&] { read("gpus,batch_size\n1,2\n"); }, 1, 1, "no column 'step_time_s'");
  expect_input_error([&] { read(header); }, 1, 1, "no rows");
  expect_input_error([&] { read(header + "0,1,8,0.5\n"); }, 2, 1, "gpus is 0");
  expect_input_error([&] { read(header + "2,3,8,0.5\n"); }, 2, 3, "3 nodes for 2 GPUs");
  expect_input_error([&] { read(header + "2,1,8,0\n"); }, 2, 7, "step_time_s is 0");
  expect_input_error([&] { read(header + "2,1,-8,1\n"); }, 2, 5, "batch_size is -8");
  expect_input_error([&] { read("model,gpus,batch_size,step_time_s\n,1,1,1\n"); }, 2, 1, "no name");
  const std::string use = "gpus,batch_size,step_time_s,gpu_utilisation";
  expect_input_error([&] { read(use + "\n1,8,1,0.5\n"); }, 1, 1, "not both");
  expect_input_error([&] { read(use + ",memory_gib\n1,8,1,1.5,4\n"); }, 2, 7, "gpu_utilisation is 1.5");
  expect_input_error([&] { read(use + ",memory_gib\n1,8,1,0.5,0\n"); }, 2, 11, "memory_gib is 0");
  expect_input_error([&] { read("placement,local_bsz,step_time\n1x,8,0.5\n"); }, 2, 1, "placement is '1x'");
}

// The real step times, where they lie at hand.
TEST(Measurements, ReadsRealStepTimes) {
  const std::optional<std::filesystem::path> data = testing::shared_data();
  if (!data) GTEST_SKIP() << testing::kNoSharedData;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*data / "throughput")) {
    const MeasurementSet set = read_measurements_file(entry.path(), kClock);
    EXPECT_EQ(set.size(), 1u);
    EXPECT_GT(set.begin()->second.size(), 50u);
    ++files;
  }
  EXPECT_EQ(files, 20);
}

}  // namespace
}  // namespace flyball
