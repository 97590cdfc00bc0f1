#include "client/measured_runs.h"

#include <gtest/gtest.h>

#include <cmath>

namespace flyball {
namespace {

MeasuredRun run_of(double seconds, double gpu_joules, double gpu_peak, double cpu_joules) {
  MeasuredRun run;
  run.energy.time = Seconds(seconds);
  DeviceEnergy gpu;
  gpu.device = "GPU:0";
  gpu.energy = Joules(gpu_joules);
  gpu.peak = Watts(gpu_peak);
  DeviceEnergy cpu;
  cpu.device = "CPU:0";
  cpu.energy = Joules(cpu_joules);
  run.energy.devices = {gpu, cpu};
  return run;
}

TEST(MeasuredRuns, OneRunHasNoSpread) {
  MeasuredRuns measured;
  measured.runs = {run_of(2.0, 100.0, 60.0, 20.0)};
  EXPECT_EQ(measured.time().mean, 2.0);
  EXPECT_EQ(measured.time().deviation, 0.0);
  EXPECT_EQ(measured.total().mean, 120.0);
  EXPECT_TRUE(measured.complete());
  EXPECT_FALSE(measured.ended_early());
}

// Times 2, 4, 9 s: mean 5, squares 9 + 1 + 16 = 26, over two: 13. GPU 100, 100, 130 J: mean 110, squares 100 + 100 +
// 400 = 600, over two: 300. With the processor's 20, 50, 20 J: 120, 150, 150: mean 140, squares 400 + 100 + 100 = 600.
TEST(MeasuredRuns, SpreadIsThatOfASample) {
  MeasuredRuns measured;
  measured.asked_for = 4;
  measured.runs = {run_of(2.0, 100.0, 60.0, 20.0), run_of(4.0, 100.0, 90.0, 50.0), run_of(9.0, 130.0, 70.0, 20.0)};
  EXPECT_NEAR(measured.time().mean, 5.0, 1e-12);
  EXPECT_NEAR(measured.time().deviation, std::sqrt(13.0), 1e-12);
  EXPECT_NEAR(measured.energy_of(0).mean, 110.0, 1e-12);
  EXPECT_NEAR(measured.energy_of(0).deviation, std::sqrt(300.0), 1e-12);
  EXPECT_NEAR(measured.total().mean, 140.0, 1e-12);
  EXPECT_NEAR(measured.total().deviation, std::sqrt(300.0), 1e-12);
  EXPECT_EQ(measured.peak_of(0), Watts(90.0));
  EXPECT_TRUE(measured.ended_early());
}

TEST(MeasuredRuns, OneFigureThatIsNotCompleteIsTold) {
  MeasuredRuns measured;
  measured.asked_for = 2;
  measured.runs = {run_of(2.0, 100.0, 60.0, 20.0), run_of(2.0, 100.0, 60.0, 20.0)};
  measured.runs[1].energy.devices[1].complete = false;
  EXPECT_TRUE(measured.complete(0));
  EXPECT_FALSE(measured.complete(1));
  EXPECT_FALSE(measured.complete());
  EXPECT_FALSE(measured.lacks_readings(1));
  measured.runs[0].energy.devices[0].problem = "the driver said no";
  EXPECT_TRUE(measured.lacks_readings(0));
}

TEST(MeasuredRuns, ADeviceThatCouldNotBeMeasuredLeavesThemIncomplete) {
  MeasuredRuns measured;
  measured.runs = {run_of(2.0, 100.0, 60.0, 20.0)};
  measured.unavailable.emplace_back(DeviceFault::kLost, "GPU:1", "it is lost");
  EXPECT_TRUE(measured.complete(0));
  EXPECT_FALSE(measured.complete());
}

}  // namespace
}  // namespace flyball
