// The vendors' libraries at their edges: old, foreign, missing, refusing. What the simulated library can play is tested
// with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>

#include "driver/gpu_vendors.h"
#include "driver/patience.h"
#include "support/expect_fault.h"

namespace flyball::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

const std::string kStubs = FLYBALL_STUB_DIR;

// Throws what is wrong with the library.
OpenedGpus open_gpus_of(const GpuVendor& vendor) {
  OpenedGpus opened = open_gpus({vendor});
  if (opened.drivers.empty()) throw DeviceError(opened.unavailable.at(0));
  return opened;
}
OpenedGpus open_nvml(const std::string& library) { return open_gpus_of({"nvml", {library}, load_nvml}); }
OpenedGpus open_amd_smi(const std::string& library) { return open_gpus_of({"amd-smi", {library}, load_amd_smi}); }

TEST(Nvml, IsNotThereWithoutTheLibrary) {
  expect_fault([] { return open_nvml("libnvidia-ml-absent.so.1"); }, DeviceFault::kNoDriver, "nvml",
               "install the NVIDIA driver");
  expect_fault([] { return open_nvml(kStubs + "/libno_nvml_stub.so"); }, DeviceFault::kNoDriver, "nvml",
               "is not NVIDIA's management library");
}

class OldNvml : public ::testing::Test {
 protected:
  OpenedGpus library_ = open_nvml(kStubs + "/libold_nvml_stub.so");
  GpuDevice& gpu_ = *library_.gpus.at(0);
};

TEST_F(OldNvml, OpensWhatOpensAndNamesTheRest) {
  ASSERT_THAT(library_.gpus, SizeIs(2));
  EXPECT_EQ(gpu_.identity().name, "Tesla P100");
  EXPECT_EQ(gpu_.identity().pci_bus_id, "0000:3B:00.0");
  EXPECT_EQ(library_.gpus[1]->identity().uuid, "GPU-old-2");
  EXPECT_EQ(library_.gpus[1]->label(), "GPU:2");
  ASSERT_THAT(library_.refused, SizeIs(1));
  EXPECT_EQ(library_.refused[0].why.fault(), DeviceFault::kLost);
  EXPECT_EQ(library_.refused[0].why.device(), "GPU:1");
  EXPECT_EQ(library_.refused[0].index, 1u);
}

TEST_F(OldNvml, ReadsInSiUnitsThroughOldNames) {
  EXPECT_EQ(gpu_.power(), Watts(31.415));
  EXPECT_EQ(gpu_.sm_clock(), Megahertz(1328));
  EXPECT_EQ(gpu_.memory_clock(), Megahertz(715));
  EXPECT_EQ(gpu_.temperature_celsius(), 44.0);
  EXPECT_THAT(names_of(gpu_.throttle_reasons()), ElementsAre("power_limit", "thermal", "other"));
  EXPECT_THAT(gpu_.memory_clocks(), ElementsAre(Megahertz(715)));
  const std::vector<Megahertz> clocks = gpu_.sm_clocks();
  ASSERT_THAT(clocks, SizeIs(1000));
  EXPECT_EQ(clocks.back(), Megahertz(501));
}

TEST_F(OldNvml, LacksOnlyTheCallsThatItLacks) {
  EXPECT_EQ(gpu_.total_energy(), std::nullopt);
  EXPECT_THAT(library_.gpus[1]->sm_clocks(), SizeIs(0));
  expect_fault(
      [&] {
        gpu_.lock_sm_clocks({Megahertz(1000), Megahertz(1000)});
      },
      DeviceFault::kUnsupported, "GPU:0", "locking the SM clock");
  expect_fault([&] { return gpu_.power_limit(); }, DeviceFault::kUnsupported, "GPU:0", "reading the power limit");
  expect_fault([&] { gpu_.set_persistence(true); }, DeviceFault::kUnsupported, "GPU:0", "persistence");
  expect_fault([&] { return library_.gpus[1]->power(); }, DeviceFault::kDriver, "GPU:2", "NVML error 777");
  const ThrottleAccess access = gpu_.throttle_access();
  EXPECT_FALSE(access.allowed);
  EXPECT_EQ(access.why, DeviceFault::kUnsupported);
}

TEST_F(OldNvml, RefusesValuesThatAreNoClocks) {
  for (const double value : {-1.0, std::nan(""), 1e12}) {
    expect_fault(
        [&] {
          gpu_.lock_sm_clocks({Megahertz(value), Megahertz(value)});
        },
        DeviceFault::kInvalid, "GPU:0", "is no value for it");
  }
}

TEST_F(OldNvml, StaysLoadedAsLongAsADevice) {
  const std::shared_ptr<GpuDevice> kept = library_.gpus[0];
  library_ = {};
  EXPECT_EQ(kept->power(), Watts(31.415));
}

class AmdSmi : public ::testing::TestWithParam<const char*> {
 protected:
  AmdSmi() { ::setenv("STUB_AMD_YEAR", GetParam(), 1); }
  ~AmdSmi() override {
    for (const char* name : {"STUB_AMD_YEAR", "STUB_AMD_ROOT", "STUB_AMD_NO_KERNEL", "STUB_AMD_HANGS"})
      ::unsetenv(name);
    ::unsetenv("FLYBALL_DRIVER_TIMEOUT");
  }
  static OpenedGpus open() { return open_amd_smi(kStubs + "/libamd_smi_stub.so"); }
};

TEST_P(AmdSmi, ListsTheGpusAmongItsProcessors) {
  const OpenedGpus library = open();
  EXPECT_EQ(library.drivers.at(0).vendor, "amd-smi");
  EXPECT_EQ(library.drivers.at(0).version, std::string(GetParam()) + ".5.1");
  ASSERT_THAT(library.gpus, SizeIs(2));
  EXPECT_EQ(library.gpus[0]->label(), "GPU:0");
  EXPECT_EQ(library.gpus[0]->identity().name, "AMD Instinct MI300X");
  EXPECT_EQ(library.gpus[0]->identity().uuid, "c4ff74a1-0000-1000-80ce-f19c57a2f31c");
  EXPECT_EQ(library.gpus[0]->identity().pci_bus_id, "00000000:C1:00.0");
  EXPECT_EQ(library.gpus[1]->identity().uuid, "PCI-00000001:C6:01.2");
}

TEST_P(AmdSmi, ReadsInSiUnits) {
  const OpenedGpus library = open();
  const GpuDevice& gpu = *library.gpus[0];
  EXPECT_EQ(gpu.power(), Watts(412));
  EXPECT_EQ(library.gpus[1]->power(), Watts(91)) << "a board that tells an average only";
  const double first = gpu.total_energy().value().value();
  EXPECT_NEAR(gpu.total_energy().value().value() - first, 15.3, 1e-5);
  EXPECT_EQ(library.gpus[1]->total_energy(), std::nullopt);
  EXPECT_EQ(gpu.sm_clock(), Megahertz(2100));
  EXPECT_THAT(gpu.sm_clocks(), ElementsAre(Megahertz(2100), Megahertz(500), Megahertz(132)));
  EXPECT_THAT(gpu.memory_clocks(), ElementsAre());
  EXPECT_EQ(gpu.temperature_celsius(), 41.0);
  EXPECT_EQ(gpu.utilisation(), 0.37);
  expect_fault([&] { return library.gpus[1]->utilisation(); }, DeviceFault::kUnsupported, "GPU:1", "utilisation");
  EXPECT_EQ(gpu.power_limit(), Watts(750));
  EXPECT_EQ(gpu.power_limits().standard, Watts(750));
}

TEST_P(AmdSmi, TellsARefusalFromAWrongValue) {
  const OpenedGpus library = open();
  GpuDevice& gpu = *library.gpus[0];
  const ClockRange range{Megahertz(500), Megahertz(799.6)};
  expect_fault([&] { gpu.lock_sm_clocks(range); }, DeviceFault::kPermission, "GPU:0", "sudo flyball agent");
  expect_fault([&] { return gpu.memory_clock(); }, DeviceFault::kUnsupported, "GPU:0", "memory clock");
  expect_fault([&] { return gpu.throttle_reasons(); }, DeviceFault::kUnsupported, "GPU:0", "throttle reasons");
  ::setenv("STUB_AMD_ROOT", "1", 1);
  expect_fault([&] { gpu.set_power_limit(Watts(800)); }, DeviceFault::kInvalid, "GPU:0", "power limit");
  gpu.set_power_limit(Watts(650));
  EXPECT_EQ(gpu.power_limit(), Watts(650));
  gpu.lock_sm_clocks(range);
  EXPECT_EQ(gpu.power_limit(), Watts(0.8));  // where the stub shows the range it was given
  gpu.reset_memory_clocks();
  EXPECT_EQ(gpu.power_limit(), Watts(750));
}

TEST_P(AmdSmi, IsNotThereWithoutLibraryOrKernelDriver) {
  ::setenv("STUB_AMD_NO_KERNEL", "1", 1);
  expect_fault([] { return open(); }, DeviceFault::kNoDriver, "amd-smi", "install AMD's ROCm, version 6.0 or later");
  expect_fault([] { return open_amd_smi("libamd_absent.so"); }, DeviceFault::kNoDriver, "amd-smi", "cannot load");
  expect_fault([] { return open_amd_smi(kStubs + "/libold_nvml_stub.so"); }, DeviceFault::kNoDriver, "amd-smi",
               "is not AMD SMI");
}

TEST_P(AmdSmi, ThatHangsIsGivenUp) {
  ::setenv("STUB_AMD_HANGS", "1", 1);
  ::setenv("FLYBALL_DRIVER_TIMEOUT", "50ms", 1);
  expect_fault([] { return open(); }, DeviceFault::kTimeout, "amd-smi", "has not answered in 0.05 s");
}

INSTANTIATE_TEST_SUITE_P(Years, AmdSmi, ::testing::Values("24", "25"));

// A driver that answers once it is let go.
struct Gate {
  std::promise<void> promise;
  std::shared_future<void> open = promise.get_future().share();
};

TEST(Patience, RefusesTheNextQuestionsAtOnceWhileOneHangs) {
  Gate gate;
  PatientQuestions questions("GPU:5", Seconds(0.05));
  EXPECT_EQ(questions.ask([] { return 7; }), 7);
  expect_fault([&] { questions.ask([open = gate.open] { open.wait(); }); }, DeviceFault::kTimeout, "GPU:5",
               "has not answered in 0.05 s");
  bool asked = false;
  expect_fault([&] { questions.ask([&asked] { asked = true; }); }, DeviceFault::kTimeout, "GPU:5", "not answered");
  EXPECT_FALSE(asked);
  gate.promise.set_value();
  while (questions.hangs()) std::this_thread::yield();
  EXPECT_EQ(questions.ask([] { return 8; }), 8) << "a driver that answers again is asked again";
}

TEST(Patience, PassesOnWhatTheDriverSays) {
  PatientQuestions questions("GPU:0", Seconds(60));
  const auto lost = [] { throw DeviceError(DeviceFault::kLost, "GPU:0", "fell off the bus"); };
  expect_fault([&] { questions.ask(lost); }, DeviceFault::kLost, "GPU:0", "fell off the bus");
  EXPECT_FALSE(questions.hangs());
}

TEST(Patience, ForOpeningComesFromTheEnvironment) {
  EXPECT_EQ(opening_patience(), Seconds(30));
  ::setenv("FLYBALL_DRIVER_TIMEOUT", "1.5s", 1);
  EXPECT_EQ(opening_patience(), Seconds(1.5));
  for (const char* bad : {"soon", "0s", "-1s", "2h"}) {
    ::setenv("FLYBALL_DRIVER_TIMEOUT", bad, 1);
    EXPECT_THROW(static_cast<void>(opening_patience()), UsageError) << bad;
  }
  ::unsetenv("FLYBALL_DRIVER_TIMEOUT");
}

TEST(DeviceError, SaysDeviceFaultProblemAndMend) {
  const DeviceError error(DeviceFault::kPermission, "GPU:3", "locking the SM clock", "ask the agent");
  EXPECT_STREQ(error.what(), "GPU:3: permission denied: locking the SM clock\n  to mend: ask the agent");
  EXPECT_EQ(key_of(error.fault()), "permission");
}

}  // namespace
}  // namespace flyball::testing
