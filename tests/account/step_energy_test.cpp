// Energy of steps, with powers that a hand can integrate.
#include "account/step_energy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "account/account_options.h"
#include "account/account_run.h"
#include "account/rank_footprint.h"
#include "support/memory_traces.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

constexpr Nanoseconds kHalf = kSecond / 2;

// GPU:0 draws 100 W until 2 s and 200 W until 4 s; CPU:0 10 W until 5 s. The steps last from 0 to 1 s (110 J), from 1
// to 3 s (320 J), and from 3.5 to 4.5 s, for half of which the GPU's power is not known. Mean 215 J, of which the GPU
// takes (100 + 300) / 2; the deviation is |320 - 110| / sqrt(2).
TEST(StepEnergy, IsOfAllDevicesFromBeginToEnd) {
  DeviceTable devices;
  const DeviceId gpu = devices.intern("GPU:0");
  const DeviceId cpu = devices.intern("CPU:0");
  testing::MemoryPower power({{0, 2 * kSecond, gpu, Watts(100)},
                              {0, 5 * kSecond, cpu, Watts(10)},
                              {2 * kSecond, 4 * kSecond, gpu, Watts(200)}});
  const std::vector<StepSpan> steps = {
      {0, kSecond}, {kSecond, 3 * kSecond}, {3 * kSecond + kHalf, 4 * kSecond + kHalf}};
  const StepEnergy energy = energy_of_steps(steps, power, devices);
  EXPECT_EQ(energy.steps, 2u);
  EXPECT_EQ(energy.left_out, 1u);
  EXPECT_NEAR(energy.energy.value(), 215.0, 1e-9);
  EXPECT_NEAR(energy.deviation.value(), 210.0 / std::sqrt(2.0), 1e-9);
  EXPECT_NEAR(energy.time.value(), 1.5, 1e-12);
  ASSERT_EQ(energy.devices.size(), 2u);
  EXPECT_EQ(energy.devices[0].device, "CPU:0");
  EXPECT_NEAR(energy.devices[0].energy.value(), 15.0, 1e-9);
  EXPECT_NEAR(energy.devices[1].energy.value(), 200.0, 1e-9);
}

TEST(StepEnergy, WithoutPowerNoStepIsKnown) {
  DeviceTable devices;
  testing::MemoryPower power({});
  const std::vector<StepSpan> steps = {{0, kSecond}};
  const StepEnergy energy = energy_of_steps(steps, power, devices);
  EXPECT_EQ(energy.steps, 0u);
  EXPECT_EQ(energy.left_out, 1u);
}

// Steps of 10, 12 and 20 J in two runs: the mean is 14 J, the deviation sqrt((16 + 4 + 36) / 2). Of two nodes it is the
// sum of the means, and the root of the sum of squares.
TEST(StepEnergy, OfRunsAndOfNodes) {
  StepEnergy two;
  two.steps = 2;
  two.time = Seconds(1);
  two.energy = Joules(11);
  two.deviation = Joules(std::sqrt(2.0));
  two.devices = {{"GPU:0", Joules(11)}};
  StepEnergy one;
  one.steps = 1;
  one.time = Seconds(4);
  one.energy = Joules(20);
  one.devices = {{"GPU:0", Joules(20)}};
  const StepEnergy mean = mean_of_steps(std::vector{two, one});
  EXPECT_EQ(mean.steps, 3u);
  EXPECT_NEAR(mean.energy.value(), 14.0, 1e-12);
  EXPECT_NEAR(mean.deviation.value(), std::sqrt(28.0), 1e-12);
  EXPECT_NEAR(mean.time.value(), 2.0, 1e-12);
  two.deviation = Joules(3);
  one.deviation = Joules(4);
  const StepEnergy sum = sum_of_steps(std::vector{two, one});
  EXPECT_NEAR(sum.energy.value(), 31.0, 1e-12);
  EXPECT_NEAR(sum.deviation.value(), 5.0, 1e-12);
  EXPECT_EQ(sum.devices.size(), 2u);
}

// The trace's times count from its base of 1 s. A step that two threads tell of counts once.
TEST(StepEnergy, OfATraceWithSteps) {
  testing::TempFolder folder;
  AccountOptions options;
  options.events = {folder.file("e.json", R"({"schemaVersion":1,"baseTimeNanoseconds":1000000000,"traceEvents":[
    {"ph":"X","cat":"user_annotation","name":"ProfilerStep#3","pid":1,"tid":1,"ts":0,"dur":1000000},
    {"ph":"X","cat":"cpu_op","name":"ProfilerStep#3","pid":1,"tid":2,"ts":100,"dur":900000},
    {"ph":"X","cat":"user_annotation","name":"ProfilerStep#4","pid":1,"tid":1,"ts":1000000,"dur":1000000},
    {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":0,"dur":500000}]})")};
  options.power = {folder.file("p.csv", "timestamp,device,power_w\n0,CPU:0,30\n1,CPU:0,50\n2,CPU:0,70\n3,CPU:0,0\n")};
  options.batch = 4;
  const Footprint footprint = account_runs(account_request(options)).footprint;
  EXPECT_EQ(footprint.steps.steps, 2u);
  EXPECT_NEAR(footprint.steps.energy.value(), 60.0, 1e-9);  // 50 and 70 J
  EXPECT_NEAR(footprint.steps.of_sample().value(), 15.0, 1e-9);
}

}  // namespace
}  // namespace flyball
