#include "profile/gpu_model.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace flyball {
namespace {

// 1000 MHz at voltage 1, 500 MHz at voltage 0.5: a dynamic power of 100 W falls to 0.5^2 * 0.5 * 100 W = 12.5 W.
GpuModel toy() {
  GpuModel gpu;
  gpu.name = "toy";
  gpu.minimum = Megahertz(500);
  gpu.maximum = Megahertz(1000);
  gpu.step = Megahertz(100);
  gpu.limit = gpu.phase_limit = Watts(300);
  gpu.busy = Watts(50);
  gpu.voltage = {{Megahertz(500), 0.5}, {Megahertz(1000), 1.0}};
  return gpu;
}

TEST(GpuModel, ClocksFallFromTheHighest) {
  const auto clocks = toy().clocks();
  ASSERT_EQ(clocks.size(), 6u);
  EXPECT_EQ(clocks.front(), Megahertz(1000));
  EXPECT_EQ(clocks.back(), Megahertz(500));
}

TEST(GpuModel, ComputeBoundWorkFollowsTheClockAndMemoryBoundWorkDoesNot) {
  const GpuModel gpu = toy();
  const Activity compute{1.0, Watts(100), Watts(0)};
  EXPECT_DOUBLE_EQ(gpu.run(compute, Seconds(2), Megahertz(500)).time.value(), 4.0);
  EXPECT_DOUBLE_EQ(gpu.run(compute, Seconds(2), Megahertz(500)).energy.value(), 4.0 * 62.5);
  const Activity memory{0.0, Watts(1), Watts(100)};
  EXPECT_DOUBLE_EQ(gpu.run(memory, Seconds(2), Megahertz(500)).time.value(), 2.0);
  EXPECT_DOUBLE_EQ(gpu.run(memory, Seconds(2), Megahertz(500)).energy.value(), 2.0 * 62.5);
}

TEST(GpuModel, TheMaximumClockTakesTheTimeGiven) {
  const GpuModel gpu = toy();
  const ClockOption top = gpu.run({0.4, Watts(100), Watts(80)}, Seconds(3), Megahertz(1000));
  EXPECT_DOUBLE_EQ(top.time.value(), 3.0);
  EXPECT_DOUBLE_EQ(top.energy.value(), 0.4 * 3 * 150 + 0.6 * 3 * 130);
}

TEST(GpuModel, ThePowerLimitHoldsTheClockOfComputeBoundWork) {
  GpuModel gpu = toy();
  gpu.phase_limit = Watts(62.5);  // compute-bound work of 100 W runs at 500 MHz whatever is asked for
  const Activity compute{1.0, Watts(100), Watts(0)};
  for (const double asked : {1000.0, 800.0, 600.0}) {
    const ClockOption option = gpu.run(compute, Seconds(2), Megahertz(asked));
    EXPECT_NEAR(option.time.value(), 2.0, 1e-9) << asked;
    EXPECT_NEAR(option.energy.value(), 2.0 * 62.5, 1e-7) << asked;
  }
  // The memory-bound part still follows: lower clocks save energy at no time, the flat top of real profiles.
  const Activity mixed{0.5, Watts(100), Watts(50)};
  const ClockOption high = gpu.run(mixed, Seconds(2), Megahertz(1000));
  const ClockOption low = gpu.run(mixed, Seconds(2), Megahertz(700));
  EXPECT_NEAR(low.time.value(), high.time.value(), 1e-9);
  EXPECT_LT(low.energy, high.energy);
}

// At x = f / 1000 MHz compute-bound work of 100 W draws 50 + 100 x^3 W: 101.2 W at 800 MHz.
TEST(GpuModel, AboveThePowerLimitsKneeAHigherClockChangesNothing) {
  GpuModel gpu = toy();
  gpu.power_limit = Watts(101.2);
  const Activity compute{1.0, Watts(100), Watts(0)};
  for (const double asked : {1000.0, 900.0, 800.0}) {
    const ClockOption option = gpu.run(compute, Seconds(2), Megahertz(asked));
    EXPECT_EQ(option.frequency, Megahertz(asked));
    EXPECT_NEAR(option.time.value(), 2.0 / 0.8, 1e-9) << asked;
    EXPECT_NEAR(option.energy.value(), 2.0 / 0.8 * 101.2, 1e-7) << asked;
  }
  const ClockOption below = gpu.run(compute, Seconds(2), Megahertz(700));
  EXPECT_NEAR(below.time.value(), 2.0 / 0.7, 1e-9);
  EXPECT_NEAR(below.energy.value(), 2.0 / 0.7 * (50 + 34.3), 1e-7);
  // Half of each kind, 100 and 50 W: 1 s / x of 100 x^3 W and 1 s of 50 x^3 W, beyond 50 W throughout. At 800 MHz they
  // take 2.25 s and 64 + 25.6 J beyond, which is 50 + 89.6 / 2.25 W.
  gpu.power_limit = Watts(50 + 89.6 / 2.25);
  const Activity mixed{0.5, Watts(100), Watts(50)};
  const ClockOption high = gpu.run(mixed, Seconds(2), Megahertz(1000));
  EXPECT_NEAR(high.time.value(), 2.25, 1e-9);
  EXPECT_NEAR(high.energy.value(), 2.25 * 50 + 89.6, 1e-7);
  EXPECT_EQ(gpu.run(mixed, Seconds(2), Megahertz(900)).energy, high.energy) << "memory-bound work is held, too";
  // Compute-bound work that another limit holds at 500 MHz runs twice as fast where there is none.
  gpu.phase_limit = Watts(62.5);
  gpu.power_limit = Watts(1000);
  EXPECT_NEAR(gpu.run(compute, Seconds(2), Megahertz(1000)).time.value(), 1.0, 1e-9);
  // At the minimum it draws 62.5 W, and no clock is lower.
  gpu.power_limit = Watts(55);
  EXPECT_NEAR(gpu.run(compute, Seconds(2), Megahertz(1000)).energy.value(), 2.0 * 62.5, 1e-7);
}

TEST(GpuModel, ClocksOutsideTheRangeAreClamped) {
  const GpuModel gpu = toy();
  EXPECT_EQ(gpu.run({0.5, Watts(1), Watts(1)}, Seconds(1), Megahertz(100)).frequency, Megahertz(500));
  EXPECT_EQ(gpu.run({0.5, Watts(1), Watts(1)}, Seconds(1), Megahertz(9000)).frequency, Megahertz(1000));
}

TEST(GpuModel, ShippedModelsArePlausible) {
  ASSERT_GE(gpu_models().size(), 6u);
  for (const std::string& name : gpu_models()) {
    SCOPED_TRACE(name);
    const GpuModel gpu = load_gpu_model(name);
    EXPECT_EQ(gpu.name, name);
    EXPECT_EQ(gpu.clocks().back(), gpu.minimum);
    EXPECT_EQ(gpu.voltage.front().clock, gpu.minimum);
    EXPECT_EQ(gpu.voltage.back().clock, gpu.maximum);
    EXPECT_EQ(gpu.voltage.back().relative, 1.0);
    EXPECT_LT(gpu.blocking, gpu.busy);
    for (const Activity& activity : {gpu.forward, gpu.backward}) {
      Seconds before(0);
      for (const Megahertz clock : gpu.clocks()) {
        const ClockOption option = gpu.run(activity, Seconds(1), clock);
        EXPECT_GE(option.time, before);
        EXPECT_LT(option.energy / option.time, gpu.limit * 1.02);
        before = option.time;
      }
    }
  }
}

TEST(GpuModel, ShortNamesAndUnknownNames) {
  EXPECT_EQ(load_gpu_model("a100").name, "a100-pcie");
  EXPECT_EQ(load_gpu_model("h100").name, "h100-sxm");
  EXPECT_EQ(load_gpu_model("h200").name, "h200-sxm");
  expect_usage_error([] { (void)load_gpu_model("tpu"); }, "unknown GPU 'tpu'; known are a100-pcie, a100-sxm, a40");
}

}  // namespace
}  // namespace flyball
