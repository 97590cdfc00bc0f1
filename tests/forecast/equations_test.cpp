// The component models of eqs. 4-18, each against a number worked out by hand.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "forecast/component_power.h"

namespace flyball {
namespace {

TEST(ComponentPower, Cmos) {
  // eq. 5: 0.2 switches x 1e-8 F x (1.1 V)^2 x 2.0e9 Hz = 0.2 x 1e-8 x 1.21 x 2e9 = 4.84 W
  const Watts dynamic = cmos_dynamic_power(0.2, 1e-8, 1.1, Megahertz(2000));
  EXPECT_NEAR(dynamic.value(), 4.84, 1e-12);
  // eq. 6: 3 A x 1.1 V = 3.3 W; half the transistors, half of it
  EXPECT_NEAR(cmos_static_power(3.0, 1.1).value(), 3.3, 1e-12);
  EXPECT_NEAR(cmos_static_power(3.0, 1.1, 0.5).value(), 1.65, 1e-12);
  // eq. 4
  EXPECT_NEAR(total_power(dynamic, Watts(3.3)).value(), 8.14, 1e-12);
}

TEST(ComponentPower, LeakageRisesWithTemperature) {
  // eq. 7 at V = 1, T = 300 with K = (1e-4, 100, 200, 2, 0.5, -0.5):
  // 1e-4 x 90000 x e^((100 + 200) / 300) + 2 e^0 = 9 e + 2
  const std::array<double, 6> k = {1e-4, 100.0, 200.0, 2.0, 0.5, -0.5};
  EXPECT_NEAR(leakage_power(1.0, 300.0, k).value(), 9.0 * std::exp(1.0) + 2.0, 1e-9);
}

TEST(ComponentPower, CountedEvents) {
  // eq. 8: 1e9 x 2 nJ + 5e6 x 40 nJ = 2 + 0.2 J
  const std::vector<EventCost> events = {{1e9, Joules(2e-9)}, {5e6, Joules(40e-9)}};
  EXPECT_NEAR(counted_energy(events).value(), 2.2, 1e-12);
  EXPECT_EQ(counted_energy({}), Joules(0));
}

TEST(ComponentPower, CoresAddUpAndStaticIsPaidOnce) {
  // eq. 9, two cores of two parts (3 W, 1 W): (0.5 x 3 + 1 x 1) + (1 x 3 + 0 x 1) + 10 = 2.5 + 3 + 10
  const std::vector<double> activities = {0.5, 1.0, 1.0, 0.0};
  const std::vector<Watts> parts = {Watts(3), Watts(1)};
  EXPECT_NEAR(multicore_power(activities, parts, Watts(10)).value(), 15.5, 1e-12);
}

TEST(ComponentPower, QueueOfServers) {
  // eq. 10: 8 x (0.75 x 10 + 2) = 76 W. By its other form the same load is lambda R = 8 x 0.75 = 6 cores busy.
  EXPECT_NEAR(queueing_power(8, 0.75, Watts(10), Watts(2)).value(), 76.0, 1e-12);
  EXPECT_NEAR(queueing_power(8, 300.0, Seconds(0.02), Watts(10), Watts(2)).value(), 76.0, 1e-12);
}

TEST(ComponentPower, GpuByActivity) {
  // eq. 11: 0.9 x 120 + 0.5 x 60 + 12 + 25 = 175 W
  const std::vector<GpuComponent> parts = {{0.9, Watts(120)}, {0.5, Watts(60)}};
  EXPECT_NEAR(gpu_power(parts, Watts(12), Watts(25)).value(), 175.0, 1e-12);
}

TEST(ComponentPower, Memory) {
  // eq. 12 and eq. 14 are sums
  EXPECT_NEAR(tensor_accelerator_energy(Joules(4), Joules(3), Joules(2), Joules(1)).value(), 10.0, 1e-12);
  EXPECT_NEAR(memory_system_energy(Joules(1), Joules(2), Joules(3), Joules(4), Joules(5)).value(), 15.0, 1e-12);
  // eq. 13: 2 W + 60 pJ/B x 100 GB/s + 70 pJ/B x 50 GB/s = 2 + 6 + 3.5
  EXPECT_NEAR(dram_power(Watts(2), 60e-12, 100e9, 70e-12, 50e9).value(), 11.5, 1e-9);
  // eq. 15: 1 W x 10 s + 2 W x 1 ms x 1000 + 5 mJ x 1000 + (2e6 + 1e6) x 50 ns x 4 W = 10 + 2 + 5 + 0.6
  const MemoryWork work{Seconds(10), Seconds(1e-3), 1000, 2'000'000, 1'000'000, Seconds(50e-9)};
  EXPECT_NEAR(algorithm_memory_energy(work, Watts(1), Watts(2), Joules(5e-3), Watts(4)).value(), 17.6, 1e-9);
}

TEST(ComponentPower, ServerPhasesLayers) {
  // eq. 16: (2 x 95 + 9 x 8 + 4 x 10) x 1.3 + 100 = 302 x 1.3 + 100 = 492.6 W
  EXPECT_NEAR(server_peak_power(2, Watts(95), 8, 4, Watts(10)).value(), 492.6, 1e-9);
  // eq. 17: 100 x 2 + 200 x 10 + 150 x 4 + 180 x 5 = 3700 J
  const std::vector<PhasePower> phases = {
      {Watts(100), Seconds(2)}, {Watts(200), Seconds(10)}, {Watts(150), Seconds(4)}, {Watts(180), Seconds(5)}};
  EXPECT_NEAR(phase_energy(phases).value(), 3700.0, 1e-9);
  // eq. 18: (1 + 4) + (2 + 8)
  const std::vector<LayerEnergy> layers = {{Joules(1), Joules(4)}, {Joules(2), Joules(8)}};
  EXPECT_NEAR(network_energy(layers).value(), 15.0, 1e-12);
}

}  // namespace
}  // namespace flyball
