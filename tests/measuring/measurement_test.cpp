// Windows over all devices of a machine, in the own process.
#include "client/measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "cli/program.h"
#include "flyball/sim.h"
#include "sim/simulated.h"
#include "support/expect_error.h"
#include "support/figures.h"

namespace flyball::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> labels_of(const std::vector<Meter>& meters) {
  std::vector<std::string> labels;
  for (const Meter& meter : meters) labels.push_back(meter.label);
  return labels;
}

// Two boards, a package with memory, and two AMD boards that are only there when asked for.
class WholeMachine : public ::testing::Test {
 protected:
  WholeMachine() {
    for (const auto& [domain, name] : {std::pair("intel-rapl:0", "package-0"), std::pair("intel-rapl:0:0", "dram")}) {
      std::filesystem::create_directories(folder_.path() / domain);
      write_file(folder_.path() / domain / "name", name);
      write_file(folder_.path() / domain / "max_energy_range_uj", "262143328850");
      write_file(folder_.path() / domain / "energy_uj", "1000");
    }
    options_.vendors = {{"nvml", {FLYBALL_SIM_LIBRARY}, load_nvml}, {"amd-smi", {"libamd_absent.so"}, load_amd_smi}};
    options_.powercap = folder_.path().string();
  }

  static void pass(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

  TempFolder folder_;
  SimulatedMachine machine_{"v100", 2, 1.0};
  MachineOptions options_;
};

TEST_F(WholeMachine, OpensAllKindsAndNamesWhatIsMissing) {
  const MachineDevices devices = open_machine(options_);
  EXPECT_THAT(labels_of(devices.meters), ElementsAre("GPU:0", "GPU:1", "CPU:0", "DRAM:0"));
  EXPECT_THAT(devices.drivers, SizeIs(1));
  ASSERT_THAT(devices.unavailable, SizeIs(1));
  EXPECT_EQ(devices.unavailable[0].device(), "amd-smi");
  EXPECT_EQ(devices.unavailable[0].fault(), DeviceFault::kNoDriver);
}

TEST_F(WholeMachine, NumbersAnotherVendorsBoardsAfterTheFirst) {
  options_.vendors[1].libraries = {FLYBALL_STUB_DIR "/libamd_smi_stub.so"};
  options_.cpus = false;
  EXPECT_THAT(labels_of(open_machine(options_).meters), ElementsAre("GPU:0", "GPU:1", "GPU:2", "GPU:3"));
  options_.gpus = {{3, 1, 3}};
  EXPECT_THAT(labels_of(open_machine(options_).meters), ElementsAre("GPU:3", "GPU:1"));
  options_.gpus = {{4}};
  expect_usage_error([&] { return open_machine(options_); }, "this machine has GPU:0, GPU:1, GPU:2, GPU:3");
}

TEST_F(WholeMachine, LeavesOutACounterThatCannotBeRead) {
  write_file(folder_.path() / "intel-rapl:0" / "energy_uj", "none");
  const MachineDevices devices = open_machine(options_);
  EXPECT_THAT(labels_of(devices.meters), ElementsAre("GPU:0", "GPU:1"));
  EXPECT_THAT(devices.cpus, SizeIs(1));
  EXPECT_EQ(devices.unavailable.back().device(), "CPU:0");
}

TEST_F(WholeMachine, MeasuresWindowsThatOverlap) {
  options_.cpus = false;
  Measurement measurement(open_machine(options_));
  measurement.warm_up(Seconds(60));
  const std::uint64_t whole = measurement.begin();
  ASSERT_EQ(flyball_sim_work(0, "forward", 0.2, nullptr), FLYBALL_SIM_OK);
  const std::uint64_t second = measurement.begin();
  flyball_sim_run run{};
  ASSERT_EQ(flyball_sim_work(0, "forward", 0.3, &run), FLYBALL_SIM_OK);
  const WindowEnergy inner = measurement.end(second, Seconds(60));
  const WindowEnergy outer = measurement.end(whole, Seconds(60));
  ASSERT_THAT(inner.devices, SizeIs(2));
  // The window is longer than the work by what waking up takes on this machine, at no more than the work's power.
  const double slack = (inner.time.value() - (run.end_s - run.begin_s)) * run.energy_j / (run.end_s - run.begin_s);
  EXPECT_GE(inner.devices[0].energy.value(), 0.98 * run.energy_j);
  EXPECT_LE(inner.devices[0].energy.value(), 1.02 * run.energy_j + slack);
  EXPECT_GT(outer.devices[0].energy, inner.devices[0].energy);
  EXPECT_GT(outer.time, inner.time);
  EXPECT_GT(inner.devices[0].mean.value(), 3.0 * inner.devices[1].mean.value());  // the other board idles
  EXPECT_GE(inner.devices[0].peak, inner.devices[0].mean);
  EXPECT_DOUBLE_EQ(inner.total().value(), (inner.devices[0].energy + inner.devices[1].energy).value());
  for (const DeviceEnergy& device : inner.devices) {
    EXPECT_TRUE(device.complete);
    EXPECT_EQ(device.problem, "");
  }
  expect_usage_error([&] { return measurement.end(whole); }, "has ended before");
}

TEST_F(WholeMachine, TellsAtOnceWhatItKnowsWithoutSettling) {
  options_.cpus = false;
  Measurement measurement(open_machine(options_));
  measurement.warm_up(Seconds(60));
  const std::uint64_t window = measurement.begin();
  pass(0.3);
  const WindowEnergy energy = measurement.end(window);
  const double idle = energy.devices[0].mean.value();
  EXPECT_NEAR(energy.devices[0].energy.value(), idle * energy.time.value(), 1e-9);
  double joules = 0.0;
  ASSERT_EQ(flyball_sim_true_energy(0, &joules, nullptr), FLYBALL_SIM_OK);
  EXPECT_NEAR(idle, machine_->spec(0).idle.value(), tolerance(0.05) * idle);
}

TEST_F(WholeMachine, SaysWhichDeviceFailedWithinTheWindow) {
  Measurement measurement(open_machine(options_));
  measurement.warm_up(Seconds(0.3));
  const std::uint64_t window = measurement.begin();
  ASSERT_EQ(flyball_sim_fault(1, "lost"), FLYBALL_SIM_OK);
  ASSERT_TRUE(wait_until([&] { return measurement.sampler().state(1).failed > 0; }));
  const WindowEnergy energy = measurement.end(window);
  EXPECT_THAT(energy.devices[1].problem, HasSubstr("device lost"));
  EXPECT_FALSE(energy.devices[1].complete);
  EXPECT_THAT(energy.devices[0].problem, IsEmpty());
}

}  // namespace
}  // namespace flyball::testing
