// The vendor's interface over simulated boards, called as programs call it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/monotonic_time.h"
#include "base/text.h"
#include "driver/nvml_abi.h"
#include "flyball/sim.h"
#include "sim/simulated.h"
#include "sim/vendor_library.h"

namespace flyball::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

constexpr unsigned kJitter = 41;  // mW, of a reading (data/devices/) and its rounding

// A session on a machine of its own; time stands still unless asked otherwise.
class Nvml : public ::testing::Test {
 protected:
  void up(const std::string& gpu = "a100", std::size_t gpus = 2, double time_scale = 0.0) {
    machine_.reset();  // its name goes with it, so before the next one's comes
    machine_ = std::make_unique<SimulatedMachine>(gpu, gpus, time_scale);
    ASSERT_EQ(NVML(library_, nvmlInit_v2)(), kNvmlSuccess);
    for (unsigned i = 0; i < gpus; ++i) {
      NvmlDevice device = nullptr;
      ASSERT_EQ(NVML(library_, nvmlDeviceGetHandleByIndex_v2)(i, &device), kNvmlSuccess);
      devices_.push_back(device);
    }
  }
  ~Nvml() override { NVML(library_, nvmlShutdown)(); }

  [[nodiscard]] NvmlDevice gpu(std::size_t index = 0) const { return devices_[index]; }
  [[nodiscard]] Machine& machine() const { return **machine_; }
  void pass(double seconds) const { ASSERT_EQ(flyball_sim_add_time(seconds), FLYBALL_SIM_OK); }

  [[nodiscard]] unsigned sm_clock(std::size_t index = 0) const {
    unsigned mhz = 0;
    EXPECT_EQ(NVML(library_, nvmlDeviceGetClockInfo)(gpu(index), kNvmlClockSm, &mhz), kNvmlSuccess);
    return mhz;
  }
  [[nodiscard]] NvmlReturn lock(unsigned least, unsigned most) const {
    return NVML(library_, nvmlDeviceSetGpuLockedClocks)(gpu(), least, most);
  }
  [[nodiscard]] NvmlReturn power(unsigned& milliwatts) const {
    return NVML(library_, nvmlDeviceGetPowerUsage)(gpu(), &milliwatts);
  }
  [[nodiscard]] NvmlReturn energy(unsigned long long& millijoules) const {
    return NVML(library_, nvmlDeviceGetTotalEnergyConsumption)(gpu(), &millijoules);
  }

  VendorLibrary library_;
  std::unique_ptr<SimulatedMachine> machine_;
  std::vector<NvmlDevice> devices_;
};

TEST_F(Nvml, ExportsEveryCallOfTheHeaderAndNothingElse) {
  const std::string header = read_text_file(std::string(FLYBALL_SOURCE_DIR) + "/src/driver/nvml_abi.h");
  const std::regex declaration(R"((?:NvmlReturn|const char\*) (nvml\w+)\()");
  std::set<std::string> names;
  for (std::sregex_iterator match(header.begin(), header.end(), declaration), end; match != end; ++match) {
    names.insert((*match)[1]);
  }
  EXPECT_GT(names.size(), 70u);
  for (const std::string& name : names) EXPECT_NE(library_.find(name), nullptr) << name;
  for (const char* name : {"flyball_sim_work", "flyball_sim_true_energy", "flyball_sim_fault"}) {
    EXPECT_NE(library_.find(name), nullptr) << name;
  }
  FILE* symbols = ::popen(("nm -D --defined-only " + simulated_library() + " 2>/dev/null").c_str(), "r");
  ASSERT_NE(symbols, nullptr);
  std::array<char, 512> line{};
  std::size_t count = 0;
  while (std::fgets(line.data(), line.size(), symbols) != nullptr) {
    const std::string text = line.data();
    const std::string name = text.substr(text.rfind(' ') + 1);
    EXPECT_TRUE(name.starts_with("nvml") || name.starts_with("flyball_sim_")) << name;
    ++count;
  }
  ::pclose(symbols);
  EXPECT_GE(count, names.size());
}

TEST_F(Nvml, WithoutAMachineThereIsNoDriver) {
  ::setenv("FLYBALL_SIM", unique_machine_name().c_str(), 1);
  EXPECT_EQ(NVML(library_, nvmlInit_v2)(), kNvmlErrorDriverNotLoaded);
  EXPECT_EQ(NVML(library_, nvmlInit)(), kNvmlErrorDriverNotLoaded);
  EXPECT_EQ(NVML(library_, nvmlInitWithFlags)(0), kNvmlErrorDriverNotLoaded);
  EXPECT_EQ(NVML(library_, nvmlShutdown)(), kNvmlErrorUninitialized);
  unsigned count = 7;
  EXPECT_EQ(NVML(library_, nvmlDeviceGetCount_v2)(&count), kNvmlErrorUninitialized);
  EXPECT_EQ(count, 7u);
  EXPECT_STREQ(NVML(library_, nvmlErrorString)(kNvmlErrorDriverNotLoaded), "Driver Not Loaded");
  ::unsetenv("FLYBALL_SIM");
}

TEST_F(Nvml, InitialisationsAreCounted) {
  up();
  unsigned count = 0;
  ASSERT_EQ(NVML(library_, nvmlInit)(), kNvmlSuccess);
  ASSERT_EQ(NVML(library_, nvmlShutdown)(), kNvmlSuccess);
  EXPECT_EQ(NVML(library_, nvmlDeviceGetCount)(&count), kNvmlSuccess);
  EXPECT_EQ(count, 2u);
  ASSERT_EQ(NVML(library_, nvmlShutdown)(), kNvmlSuccess);
  unsigned milliwatts = 0;
  EXPECT_EQ(power(milliwatts), kNvmlErrorUninitialized);
  EXPECT_EQ(NVML(library_, nvmlShutdown)(), kNvmlErrorUninitialized);
}

TEST_F(Nvml, DevicesAreFoundByEveryName) {
  up("a100", 3);
  char uuid[kNvmlUuidSize];
  char serial[kNvmlSerialSize];
  NvmlPciInfo pci;
  NvmlDevice found = nullptr;
  ASSERT_EQ(NVML(library_, nvmlDeviceGetUUID)(gpu(1), uuid, sizeof(uuid)), kNvmlSuccess);
  EXPECT_THAT(uuid, StartsWith("GPU-"));
  ASSERT_EQ(NVML(library_, nvmlDeviceGetHandleByUUID)(uuid, &found), kNvmlSuccess);
  EXPECT_EQ(found, gpu(1));
  ASSERT_EQ(NVML(library_, nvmlDeviceGetSerial)(gpu(2), serial, sizeof(serial)), kNvmlSuccess);
  ASSERT_EQ(NVML(library_, nvmlDeviceGetHandleBySerial)(serial, &found), kNvmlSuccess);
  EXPECT_EQ(found, gpu(2));
  ASSERT_EQ(NVML(library_, nvmlDeviceGetPciInfo_v3)(gpu(1), &pci), kNvmlSuccess);
  EXPECT_STREQ(pci.bus_id, "00000000:0F:00.0");
  EXPECT_EQ(pci.pci_device_id, 0x20B510DEu);
  for (const char* id : {"00000000:0F:00.0", "0000:0f:00.0", "0F:00"}) {
    found = nullptr;
    EXPECT_EQ(NVML(library_, nvmlDeviceGetHandleByPciBusId_v2)(id, &found), kNvmlSuccess) << id;
    EXPECT_EQ(found, gpu(1)) << id;
  }
  EXPECT_EQ(NVML(library_, nvmlDeviceGetHandleByPciBusId_v2)("00000000:77:00.0", &found), kNvmlErrorNotFound);
  EXPECT_EQ(NVML(library_, nvmlDeviceGetHandleByPciBusId_v2)("nonsense", &found), kNvmlErrorInvalidArgument);
  EXPECT_EQ(NVML(library_, nvmlDeviceGetHandleByUUID)("GPU-0", &found), kNvmlErrorNotFound);
  EXPECT_EQ(NVML(library_, nvmlDeviceGetHandleByIndex_v2)(3, &found), kNvmlErrorInvalidArgument);
  unsigned index = 9;
  EXPECT_EQ(NVML(library_, nvmlDeviceGetIndex)(gpu(2), &index), kNvmlSuccess);
  EXPECT_EQ(index, 2u);
}

TEST_F(Nvml, SaysWhatADeviceIs) {
  up("h100");
  char name[kNvmlNameSize];
  ASSERT_EQ(NVML(library_, nvmlDeviceGetName)(gpu(), name, sizeof(name)), kNvmlSuccess);
  EXPECT_STREQ(name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(NVML(library_, nvmlDeviceGetName)(gpu(), name, 5), kNvmlErrorInsufficientSize);
  int major = 0;
  int minor = 1;
  ASSERT_EQ(NVML(library_, nvmlDeviceGetCudaComputeCapability)(gpu(), &major, &minor), kNvmlSuccess);
  EXPECT_EQ(major, 9);
  EXPECT_EQ(minor, 0);
  unsigned architecture = 0;
  ASSERT_EQ(NVML(library_, nvmlDeviceGetArchitecture)(gpu(), &architecture), kNvmlSuccess);
  EXPECT_EQ(architecture, kNvmlArchHopper);
  NvmlMemory memory{};
  ASSERT_EQ(NVML(library_, nvmlDeviceGetMemoryInfo)(gpu(), &memory), kNvmlSuccess);
  EXPECT_EQ(memory.total, 81559ull << 20);
  EXPECT_EQ(memory.free + memory.used, memory.total);
  NvmlMemory2 memory2{};
  EXPECT_EQ(NVML(library_, nvmlDeviceGetMemoryInfo_v2)(gpu(), &memory2), kNvmlErrorArgumentVersionMismatch);
  memory2.version = kNvmlMemoryVersion2;
  ASSERT_EQ(NVML(library_, nvmlDeviceGetMemoryInfo_v2)(gpu(), &memory2), kNvmlSuccess);
  EXPECT_EQ(memory2.reserved + memory2.used + memory2.free, memory2.total);
  EXPECT_EQ(NVML(library_, nvmlDeviceGetArchitecture)(nullptr, &architecture), kNvmlErrorInvalidArgument);
  EXPECT_EQ(NVML(library_, nvmlDeviceGetArchitecture)(gpu(), nullptr), kNvmlErrorInvalidArgument);
}

// From the data sheets and what nvidia-smi shows on real boards (data/devices/ names each source).
TEST_F(Nvml, BoardsOfTodayAreAsTheyArePublished) {
  struct Published {
    const char* model;
    const char* product;
    unsigned architecture;
    int capability;
    unsigned long long memory_mib;
    unsigned sm_mhz;
    unsigned memory_mhz;
    unsigned limit_mw;
    unsigned pci_device;
  };
  const Published all[] = {
      {"h200", "NVIDIA H200", kNvmlArchHopper, 9, 143771, 1980, 3201, 700'000, 0x233510DE},
      {"b200", "NVIDIA B200", kNvmlArchBlackwell, 10, 183359, 1965, 3996, 1'000'000, 0x290110DE},
      {"gb200", "NVIDIA GB200", kNvmlArchBlackwell, 10, 189471, 2062, 3996, 1'200'000, 0x294110DE},
  };
  for (const Published& board : all) {
    SCOPED_TRACE(board.model);
    devices_.clear();
    up(board.model, 1);
    char name[kNvmlNameSize];
    ASSERT_EQ(NVML(library_, nvmlDeviceGetName)(gpu(), name, sizeof(name)), kNvmlSuccess);
    EXPECT_STREQ(name, board.product);
    unsigned value = 0;
    ASSERT_EQ(NVML(library_, nvmlDeviceGetArchitecture)(gpu(), &value), kNvmlSuccess);
    EXPECT_EQ(value, board.architecture);
    int major = 0;
    int minor = 1;
    ASSERT_EQ(NVML(library_, nvmlDeviceGetCudaComputeCapability)(gpu(), &major, &minor), kNvmlSuccess);
    EXPECT_EQ(major, board.capability);
    EXPECT_EQ(minor, 0);
    NvmlMemory memory{};
    ASSERT_EQ(NVML(library_, nvmlDeviceGetMemoryInfo)(gpu(), &memory), kNvmlSuccess);
    EXPECT_EQ(memory.total, board.memory_mib << 20);
    ASSERT_EQ(NVML(library_, nvmlDeviceGetMaxClockInfo)(gpu(), kNvmlClockSm, &value), kNvmlSuccess);
    EXPECT_EQ(value, board.sm_mhz);
    ASSERT_EQ(NVML(library_, nvmlDeviceGetMaxClockInfo)(gpu(), kNvmlClockMemory, &value), kNvmlSuccess);
    EXPECT_EQ(value, board.memory_mhz);
    ASSERT_EQ(NVML(library_, nvmlDeviceGetPowerManagementDefaultLimit)(gpu(), &value), kNvmlSuccess);
    EXPECT_EQ(value, board.limit_mw);
    NvmlPciInfo pci{};
    ASSERT_EQ(NVML(library_, nvmlDeviceGetPciInfo_v3)(gpu(), &pci), kNvmlSuccess);
    EXPECT_EQ(pci.pci_device_id, board.pci_device);
    EXPECT_EQ(lock(board.sm_mhz, board.sm_mhz), kNvmlSuccess);
    NVML(library_, nvmlShutdown)();
  }
}

// What a real H200 drew without a program and while it waited, docs/manual/devices.md.
TEST_F(Nvml, AnH200DrawsWhatARealOneDrew) {
  up("h200", 1);
  pass(10);
  unsigned milliwatts = 0;
  ASSERT_EQ(power(milliwatts), kNvmlSuccess);
  EXPECT_NEAR(milliwatts, 86'000, kJitter);
  ASSERT_EQ(flyball_sim_block(0), FLYBALL_SIM_OK);
  pass(10);
  ASSERT_EQ(power(milliwatts), kNvmlSuccess);
  EXPECT_NEAR(milliwatts, 122'000, kJitter);
}

// What common monitors ask for besides power and clocks.
TEST_F(Nvml, AnswersWhatMonitorsAsk) {
  up("h100", 1);
  unsigned long long errors = 7;
  const auto ecc = NVML(library_, nvmlDeviceGetTotalEccErrors);
  EXPECT_EQ(ecc(gpu(), 1, 0, &errors), kNvmlSuccess);
  EXPECT_EQ(errors, 0u);
  EXPECT_EQ(ecc(gpu(), 2, 0, &errors), kNvmlErrorInvalidArgument);
  EXPECT_EQ(ecc(gpu(), 1, 0, nullptr), kNvmlErrorInvalidArgument);
  unsigned percent = 7;
  unsigned period = 0;
  EXPECT_EQ(NVML(library_, nvmlDeviceGetEncoderUtilization)(gpu(), &percent, &period), kNvmlSuccess);
  EXPECT_EQ(percent, 0u);
  EXPECT_GT(period, 0u);
  EXPECT_EQ(NVML(library_, nvmlDeviceGetDecoderUtilization)(gpu(), &percent, nullptr), kNvmlErrorInvalidArgument);
  EXPECT_EQ(NVML(library_, nvmlDeviceGetDriverModel_v2)(gpu(), &percent, &period), kNvmlErrorNotSupported);
  unsigned count = 0;
  EXPECT_EQ(NVML(library_, nvmlDeviceGetProcessUtilization)(gpu(), nullptr, &count, 0), kNvmlErrorNotFound);
  devices_.clear();
  NVML(library_, nvmlShutdown)();
  up("rtx3090", 1);
  EXPECT_EQ(ecc(gpu(), 1, 0, &errors), kNvmlErrorNotSupported) << "GeForce boards have no error correction";
}

// Max-Q holds a B200 at 0.85 of 1965 MHz: 1670.25, of which 1665 is the next in steps of 15 from above.
TEST_F(Nvml, APowerProfileHoldsTheClockDown) {
  up("b200", 1);
  auto info = std::make_unique<NvmlPowerProfiles>();
  const auto list = NVML(library_, nvmlDeviceWorkloadPowerProfileGetProfilesInfo);
  EXPECT_EQ(list(gpu(), info.get()), kNvmlErrorArgumentVersionMismatch);
  info->version = kNvmlPowerProfilesVersion1;
  ASSERT_EQ(list(gpu(), info.get()), kNvmlSuccess);
  EXPECT_EQ(info->supported.words[0], 0b11u);
  EXPECT_EQ(info->profiles[1].id, kNvmlPowerProfileMaxQ);
  EXPECT_EQ(info->profiles[1].conflicting.words[0], 0b01u);

  const auto set = NVML(library_, nvmlDeviceWorkloadPowerProfileSetRequestedProfiles);
  const auto clear = NVML(library_, nvmlDeviceWorkloadPowerProfileClearRequestedProfiles);
  NvmlRequestedProfiles max_p{kNvmlRequestedProfilesVersion1, {{0b01}}};
  NvmlRequestedProfiles max_q{kNvmlRequestedProfilesVersion1, {{0b10}}};
  NvmlCurrentProfiles current{};
  current.version = kNvmlCurrentProfilesVersion1;
  const auto enforced = [&] {
    const auto get = NVML(library_, nvmlDeviceWorkloadPowerProfileGetCurrentProfiles);
    EXPECT_EQ(get(gpu(), &current), kNvmlSuccess);
    return current.enforced.words[0];
  };
  ASSERT_EQ(flyball_sim_block(0), FLYBALL_SIM_OK);
  EXPECT_EQ(sm_clock(), 1965u);
  ASSERT_EQ(set(gpu(), &max_q), kNvmlSuccess);
  pass(0.02);
  EXPECT_EQ(enforced(), 0b10u);
  EXPECT_EQ(sm_clock(), 1665u);
  ASSERT_EQ(set(gpu(), &max_p), kNvmlSuccess);
  pass(0.02);
  EXPECT_EQ(enforced(), 0b01u);
  EXPECT_EQ(current.requested.words[0], 0b11u);
  EXPECT_EQ(sm_clock(), 1965u);
  ASSERT_EQ(clear(gpu(), &max_p), kNvmlSuccess);
  pass(0.02);
  EXPECT_EQ(sm_clock(), 1665u);
  NvmlRequestedProfiles unknown{kNvmlRequestedProfilesVersion1, {{0, 0, 1}}};
  EXPECT_EQ(set(gpu(), &unknown), kNvmlErrorInvalidArgument);
  EXPECT_EQ(set(gpu(), nullptr), kNvmlErrorInvalidArgument);
  ::unsetenv("FLYBALL_SIM_PRIVILEGED");
  ASSERT_EQ(flyball_sim_fault(0, "unprivileged"), FLYBALL_SIM_OK);
  EXPECT_EQ(set(gpu(), &max_p), kNvmlErrorNoPermission);
  devices_.clear();
  NVML(library_, nvmlShutdown)();
  up("h100", 1);
  EXPECT_EQ(list(gpu(), info.get()), kNvmlErrorNotSupported);
  EXPECT_EQ(set(gpu(), &max_q), kNvmlErrorNotSupported);
}

TEST_F(Nvml, ListsClocksFromTheHighest) {
  up("rtx3090");
  unsigned count = 0;
  ASSERT_EQ(NVML(library_, nvmlDeviceGetSupportedMemoryClocks)(gpu(), &count, nullptr), kNvmlErrorInsufficientSize);
  std::vector<unsigned> memory(count);
  ASSERT_EQ(NVML(library_, nvmlDeviceGetSupportedMemoryClocks)(gpu(), &count, memory.data()), kNvmlSuccess);
  EXPECT_THAT(memory, ElementsAre(9751, 9501, 5001, 810, 405));
  count = 0;
  const auto graphics = NVML(library_, nvmlDeviceGetSupportedGraphicsClocks);
  ASSERT_EQ(graphics(gpu(), 9751, &count, nullptr), kNvmlErrorInsufficientSize);
  ASSERT_EQ(count, 127u);  // 2100 down to 210 by 15
  std::vector<unsigned> clocks(count);
  ASSERT_EQ(graphics(gpu(), 9751, &count, clocks.data()), kNvmlSuccess);
  EXPECT_EQ(clocks.front(), 2100u);
  EXPECT_EQ(clocks.back(), 210u);
  EXPECT_EQ(graphics(gpu(), 1234, &count, clocks.data()), kNvmlErrorNotFound);
}

TEST_F(Nvml, ALockTakesHoldAfterTheLatencyAndLastsUntilReset) {
  up();
  EXPECT_EQ(sm_clock(), 210u);  // idle
  ASSERT_EQ(lock(1005, 1005), kNvmlSuccess);
  EXPECT_EQ(sm_clock(), 210u);
  pass(0.011);
  EXPECT_EQ(sm_clock(), 1005u);
  EXPECT_EQ(sm_clock(1), 210u);
  ASSERT_EQ(NVML(library_, nvmlDeviceResetGpuLockedClocks)(gpu()), kNvmlSuccess);
  pass(0.011);
  EXPECT_EQ(sm_clock(), 210u);
  // A range lets an idle chip sink to its lower end; odd numbers go to the next clock below.
  ASSERT_EQ(lock(600, 1004), kNvmlSuccess);
  pass(0.011);
  EXPECT_EQ(sm_clock(), 600u);
  EXPECT_EQ(machine_->state().applied.lock_maximum, Megahertz(990));
  for (const auto& [least, most] : {std::pair{1005u, 990u}, {1500u, 2000u}, {0u, 100u}}) {
    EXPECT_EQ(lock(least, most), kNvmlErrorInvalidArgument) << least << "-" << most;
  }
  EXPECT_EQ(machine_->state().applied.lock_maximum, Megahertz(990));
}

TEST_F(Nvml, ACallThatSetsAClockReturnsWhenItHolds) {
  up("a100", 1, 1.0);
  const auto before = std::chrono::steady_clock::now();
  ASSERT_EQ(lock(1200, 1200), kNvmlSuccess);
  EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(10));
  EXPECT_EQ(sm_clock(), 1200u);
  // The driver takes one after another: both take their time, and the last one holds.
  std::thread other([&] { EXPECT_EQ(lock(600, 600), kNvmlSuccess); });
  ASSERT_EQ(lock(600, 600), kNvmlSuccess);
  other.join();
  EXPECT_EQ(sm_clock(), 600u);
}

TEST_F(Nvml, ADriverThatAnswersEarlyDoesNotWaitForItsChange) {
  up("a100", 1, 1.0);
  ASSERT_EQ(flyball_sim_fault(0, "early-answer=10"), FLYBALL_SIM_OK);
  ASSERT_EQ(lock(1200, 1200), kNvmlSuccess);
  EXPECT_EQ(sm_clock(), 210u);  // it holds in 10 s
}

TEST_F(Nvml, AChangeThatWasAnsweredEarlyTakesHoldLater) {
  up();
  ASSERT_EQ(flyball_sim_fault(0, "early-answer=0.5"), FLYBALL_SIM_OK);
  ASSERT_EQ(lock(1005, 1005), kNvmlSuccess);
  pass(0.4);
  EXPECT_EQ(sm_clock(), 210u);
  pass(0.2);
  EXPECT_EQ(sm_clock(), 1005u);
  EXPECT_NE(flyball_sim_fault(0, "early-answer"), FLYBALL_SIM_OK);
  EXPECT_NE(flyball_sim_fault(0, "early-answer=-1"), FLYBALL_SIM_OK);
}

TEST_F(Nvml, OnlyThePrivilegedMaySet) {
  up();
  ::unsetenv("FLYBALL_SIM_PRIVILEGED");
  ASSERT_EQ(flyball_sim_fault(0, "unprivileged"), FLYBALL_SIM_OK);
  EXPECT_EQ(lock(1005, 1005), kNvmlErrorNoPermission);
  EXPECT_EQ(NVML(library_, nvmlDeviceResetGpuLockedClocks)(gpu()), kNvmlErrorNoPermission);
  EXPECT_EQ(NVML(library_, nvmlDeviceSetMemoryLockedClocks)(gpu(), 1512, 1512), kNvmlErrorNoPermission);
  EXPECT_EQ(NVML(library_, nvmlDeviceSetPowerManagementLimit)(gpu(), 200000), kNvmlErrorNoPermission);
  EXPECT_EQ(NVML(library_, nvmlDeviceSetPersistenceMode)(gpu(), 0), kNvmlErrorNoPermission);
  EXPECT_EQ(NVML(library_, nvmlDeviceSetApplicationsClocks)(gpu(), 1512, 1005), kNvmlErrorNoPermission);
  unsigned milliwatts = 0;
  EXPECT_EQ(power(milliwatts), kNvmlSuccess);  // reading is free
  ::setenv("FLYBALL_SIM_PRIVILEGED", "1", 1);
  EXPECT_EQ(lock(1005, 1005), kNvmlSuccess);
  EXPECT_EQ(NVML(library_, nvmlDeviceSetPersistenceMode)(gpu(), 0), kNvmlSuccess);
  unsigned mode = 1;
  EXPECT_EQ(NVML(library_, nvmlDeviceGetPersistenceMode)(gpu(), &mode), kNvmlSuccess);
  EXPECT_EQ(mode, 0u);
}

TEST_F(Nvml, PowerLimits) {
  up();
  unsigned least = 0;
  unsigned most = 0;
  unsigned limit = 0;
  ASSERT_EQ(NVML(library_, nvmlDeviceGetPowerManagementLimitConstraints)(gpu(), &least, &most), kNvmlSuccess);
  EXPECT_EQ(least, 150000u);
  EXPECT_EQ(most, 300000u);
  const auto set = NVML(library_, nvmlDeviceSetPowerManagementLimit);
  EXPECT_EQ(set(gpu(), 149999), kNvmlErrorInvalidArgument);
  EXPECT_EQ(set(gpu(), 300001), kNvmlErrorInvalidArgument);
  ASSERT_EQ(set(gpu(), 200000), kNvmlSuccess);
  pass(0.011);
  ASSERT_EQ(NVML(library_, nvmlDeviceGetPowerManagementLimit)(gpu(), &limit), kNvmlSuccess);
  EXPECT_EQ(limit, 200000u);
  ASSERT_EQ(NVML(library_, nvmlDeviceGetPowerManagementDefaultLimit)(gpu(), &limit), kNvmlSuccess);
  EXPECT_EQ(limit, 300000u);
  std::thread worker([] { EXPECT_EQ(flyball_sim_work(0, "forward", 1, nullptr), FLYBALL_SIM_OK); });
  unsigned long long reasons = 0;
  EXPECT_TRUE(wait_until([&] {
    EXPECT_EQ(NVML(library_, nvmlDeviceGetCurrentClocksEventReasons)(gpu(), &reasons), kNvmlSuccess);
    return reasons == kNvmlReasonSwPowerCap;
  }));
  pass(0.5);
  unsigned milliwatts = 0;
  ASSERT_EQ(power(milliwatts), kNvmlSuccess);
  EXPECT_LE(milliwatts, 200000 + kJitter);
  EXPECT_GT(milliwatts, 190000u);
  pass(10);
  worker.join();
}

TEST_F(Nvml, MemoryClocksAreLockedFromAmpereOn) {
  up("v100");
  EXPECT_EQ(NVML(library_, nvmlDeviceSetMemoryLockedClocks)(gpu(), 877, 877), kNvmlErrorNotSupported);
  EXPECT_EQ(NVML(library_, nvmlShutdown)(), kNvmlSuccess);
  devices_.clear();
  up("a40");
  EXPECT_EQ(NVML(library_, nvmlDeviceSetMemoryLockedClocks)(gpu(), 9000, 9000), kNvmlErrorInvalidArgument);
  ASSERT_EQ(NVML(library_, nvmlDeviceSetMemoryLockedClocks)(gpu(), 405, 810), kNvmlSuccess);
  pass(0.011);
  unsigned mhz = 0;
  ASSERT_EQ(NVML(library_, nvmlDeviceGetClockInfo)(gpu(), kNvmlClockMemory, &mhz), kNvmlSuccess);
  EXPECT_EQ(mhz, 810u);
  ASSERT_EQ(NVML(library_, nvmlDeviceResetMemoryLockedClocks)(gpu()), kNvmlSuccess);
  pass(0.011);
  ASSERT_EQ(NVML(library_, nvmlDeviceGetClockInfo)(gpu(), kNvmlClockMemory, &mhz), kNvmlSuccess);
  EXPECT_EQ(mhz, 7251u);
}

TEST_F(Nvml, ApplicationClocksCapTheClock) {
  up("a100", 1);
  EXPECT_EQ(NVML(library_, nvmlDeviceSetApplicationsClocks)(gpu(), 1512, 1000), kNvmlErrorInvalidArgument);
  EXPECT_EQ(NVML(library_, nvmlDeviceSetApplicationsClocks)(gpu(), 1000, 1005), kNvmlErrorInvalidArgument);
  ASSERT_EQ(NVML(library_, nvmlDeviceSetApplicationsClocks)(gpu(), 1512, 1005), kNvmlSuccess);
  pass(0.011);
  unsigned mhz = 0;
  ASSERT_EQ(NVML(library_, nvmlDeviceGetApplicationsClock)(gpu(), kNvmlClockSm, &mhz), kNvmlSuccess);
  EXPECT_EQ(mhz, 1005u);
  ASSERT_EQ(flyball_sim_block(0), FLYBALL_SIM_OK);
  EXPECT_EQ(sm_clock(), 1005u);
  ASSERT_EQ(NVML(library_, nvmlDeviceResetApplicationsClocks)(gpu()), kNvmlSuccess);
  pass(0.011);
  EXPECT_EQ(sm_clock(), 1410u);
}

NvmlFieldValue field(std::uint32_t id, std::uint32_t scope = kNvmlPowerScopeGpu) {
  NvmlFieldValue value{};
  value.field = id;
  value.scope = scope;
  return value;
}

TEST_F(Nvml, FieldValues) {
  up("h100", 1);
  pass(10);
  ASSERT_EQ(flyball_sim_block(0), FLYBALL_SIM_OK);  // 120 W on 70
  pass(0.1);
  std::vector<NvmlFieldValue> values{field(kNvmlFieldPowerInstant), field(kNvmlFieldPowerAverage),
                                     field(kNvmlFieldTotalEnergy), field(kNvmlFieldPowerInstant, kNvmlPowerScopeModule),
                                     field(12345)};
  ASSERT_EQ(NVML(library_, nvmlDeviceGetFieldValues)(gpu(), static_cast<int>(values.size()), values.data()),
            kNvmlSuccess);
  EXPECT_NEAR(values[0].value.unsigned_int, 120000, kJitter);
  EXPECT_NEAR(values[1].value.unsigned_int, 75000, kJitter);
  EXPECT_EQ(values[2].value_type, kNvmlValueUnsignedLongLong);
  EXPECT_NEAR(static_cast<double>(values[2].value.unsigned_long_long), 12e3 * 70 + 0.1e3 * 120, 1);
  EXPECT_EQ(values[3].status, kNvmlErrorNotSupported);
  EXPECT_EQ(values[4].status, kNvmlErrorNotSupported);
  EXPECT_GT(values[0].timestamp_us, 0);
}

TEST_F(Nvml, AnA100HasNoAverageReading) {
  up();
  std::vector<NvmlFieldValue> values{field(kNvmlFieldPowerAverage), field(kNvmlFieldPowerInstant)};
  ASSERT_EQ(NVML(library_, nvmlDeviceGetFieldValues)(gpu(), 2, values.data()), kNvmlSuccess);
  EXPECT_EQ(values[0].status, kNvmlErrorNotSupported);
  EXPECT_EQ(values[1].status, kNvmlSuccess);
}

TEST_F(Nvml, ReportsProcessesUtilisationAndReasons) {
  up("a100", 1);
  unsigned count = 0;
  const auto list = NVML(library_, nvmlDeviceGetComputeRunningProcesses_v3);
  EXPECT_EQ(list(gpu(), &count, nullptr), kNvmlSuccess);
  EXPECT_EQ(count, 0u);
  unsigned long long reasons = 0;
  ASSERT_EQ(NVML(library_, nvmlDeviceGetCurrentClocksThrottleReasons)(gpu(), &reasons), kNvmlSuccess);
  EXPECT_EQ(reasons, kNvmlReasonGpuIdle);
  ASSERT_EQ(flyball_sim_block(0), FLYBALL_SIM_OK);
  pass(1);
  EXPECT_EQ(list(gpu(), &count, nullptr), kNvmlErrorInsufficientSize);
  ASSERT_EQ(count, 1u);
  NvmlProcess process{};
  ASSERT_EQ(list(gpu(), &count, &process), kNvmlSuccess);
  EXPECT_EQ(process.pid, static_cast<unsigned>(::getpid()));
  NvmlUtilization busy{};
  ASSERT_EQ(NVML(library_, nvmlDeviceGetUtilizationRates)(gpu(), &busy), kNvmlSuccess);
  EXPECT_EQ(busy.gpu, 100u);
  const auto utilization = NVML(library_, nvmlDeviceGetProcessUtilization);
  count = 0;
  EXPECT_EQ(utilization(gpu(), nullptr, &count, 0), kNvmlErrorInsufficientSize);
  ASSERT_EQ(count, 1u);
  NvmlProcessUtilization share{};
  ASSERT_EQ(utilization(gpu(), &share, &count, 0), kNvmlSuccess);
  EXPECT_EQ(share.pid, static_cast<unsigned>(::getpid()));
  EXPECT_EQ(share.sm, 100u);
  EXPECT_EQ(utilization(gpu(), &share, &count, share.timestamp_us + 3'600'000'000), kNvmlErrorNotFound);
  EXPECT_EQ(utilization(gpu(), &share, nullptr, 0), kNvmlErrorInvalidArgument);
  ASSERT_EQ(NVML(library_, nvmlDeviceGetCurrentClocksThrottleReasons)(gpu(), &reasons), kNvmlSuccess);
  EXPECT_EQ(reasons, kNvmlReasonNone);
  ASSERT_EQ(flyball_sim_fault(0, "hot"), FLYBALL_SIM_OK);
  pass(300);
  ASSERT_EQ(NVML(library_, nvmlDeviceGetCurrentClocksThrottleReasons)(gpu(), &reasons), kNvmlSuccess);
  EXPECT_EQ(reasons, kNvmlReasonSwThermalSlowdown);
  EXPECT_EQ(sm_clock(), 900u);
  NvmlTemperature temperature{kNvmlTemperatureVersion1, kNvmlTemperatureGpu, 0};
  ASSERT_EQ(NVML(library_, nvmlDeviceGetTemperatureV)(gpu(), &temperature), kNvmlSuccess);
  EXPECT_EQ(temperature.temperature, 85);
}

TEST_F(Nvml, ALostGpuAnswersNothingElseAndTheOthersGoOn) {
  up();
  ASSERT_EQ(lock(1005, 1005), kNvmlSuccess);
  pass(0.011);
  ASSERT_EQ(flyball_sim_fault(0, "lost"), FLYBALL_SIM_OK);
  unsigned milliwatts = 0;
  EXPECT_EQ(power(milliwatts), kNvmlErrorGpuIsLost);
  EXPECT_EQ(lock(1005, 1005), kNvmlErrorGpuIsLost);
  NvmlDevice device = nullptr;
  EXPECT_EQ(NVML(library_, nvmlDeviceGetHandleByIndex_v2)(0, &device), kNvmlErrorGpuIsLost);
  EXPECT_EQ(NVML(library_, nvmlDeviceGetPowerUsage)(gpu(1), &milliwatts), kNvmlSuccess);
  ASSERT_EQ(flyball_sim_clear_faults(0), FLYBALL_SIM_OK);
  EXPECT_EQ(power(milliwatts), kNvmlSuccess);
  EXPECT_EQ(sm_clock(), 210u);
}

TEST_F(Nvml, AnyCallCanFail) {
  up();
  ASSERT_EQ(flyball_sim_fault(0, "error:nvmlDeviceGetPowerUsage=999"), FLYBALL_SIM_OK);
  unsigned milliwatts = 0;
  unsigned long long millijoules = 0;
  EXPECT_EQ(power(milliwatts), kNvmlErrorUnknown);
  EXPECT_EQ(energy(millijoules), kNvmlSuccess);
  ASSERT_EQ(flyball_sim_fault(0, "error:*=10"), FLYBALL_SIM_OK);
  EXPECT_EQ(energy(millijoules), kNvmlErrorTimeout);
  EXPECT_EQ(lock(1005, 1005), kNvmlErrorTimeout);
  ASSERT_EQ(flyball_sim_clear_faults(0), FLYBALL_SIM_OK);
  EXPECT_EQ(power(milliwatts), kNvmlSuccess);
}

TEST_F(Nvml, AHangEndsInTimeOrWhenItIsTakenBack) {
  up("a100", 1, 1.0);
  unsigned milliwatts = 0;
  ASSERT_EQ(flyball_sim_fault(0, "hang:nvmlDeviceGetPowerUsage=0.05"), FLYBALL_SIM_OK);
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(power(milliwatts), kNvmlSuccess);
  EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(50));
  ASSERT_EQ(flyball_sim_fault(0, "hang:nvmlDeviceGetPowerUsage=1000"), FLYBALL_SIM_OK);
  std::atomic<bool> returned{false};
  std::thread caller([&] {
    unsigned later = 0;
    EXPECT_EQ(power(later), kNvmlSuccess);
    returned = true;
  });
  unsigned long long millijoules = 0;
  EXPECT_EQ(energy(millijoules), kNvmlSuccess);  // the board itself is not stuck
  EXPECT_FALSE(returned);
  ASSERT_EQ(flyball_sim_clear_faults(0), FLYBALL_SIM_OK);
  caller.join();
}

TEST_F(Nvml, TheEnergyCounterCanBeMissingFrozenOrWrap) {
  up();
  pass(10);
  unsigned long long first = 0;
  unsigned long long second = 0;
  ASSERT_EQ(flyball_sim_fault(0, "counter-missing"), FLYBALL_SIM_OK);
  EXPECT_EQ(energy(first), kNvmlErrorNotSupported);
  std::vector<NvmlFieldValue> values{field(kNvmlFieldTotalEnergy)};
  ASSERT_EQ(NVML(library_, nvmlDeviceGetFieldValues)(gpu(), 1, values.data()), kNvmlSuccess);
  EXPECT_EQ(values[0].status, kNvmlErrorNotSupported);
  ASSERT_EQ(flyball_sim_clear_faults(0), FLYBALL_SIM_OK);
  ASSERT_EQ(flyball_sim_fault(0, "counter-frozen"), FLYBALL_SIM_OK);
  ASSERT_EQ(energy(first), kNvmlSuccess);
  pass(10);
  ASSERT_EQ(energy(second), kNvmlSuccess);
  EXPECT_EQ(first, second);
  ASSERT_EQ(flyball_sim_clear_faults(0), FLYBALL_SIM_OK);
  ASSERT_EQ(flyball_sim_fault(0, "counter-wraps=100000"), FLYBALL_SIM_OK);
  ASSERT_EQ(energy(second), kNvmlSuccess);
  EXPECT_LT(second, 100000u);
  ASSERT_EQ(flyball_sim_clear_faults(0), FLYBALL_SIM_OK);
  ASSERT_EQ(flyball_sim_fault(0, "counter-reset"), FLYBALL_SIM_OK);
  ASSERT_EQ(energy(second), kNvmlSuccess);
  EXPECT_EQ(second, 0u);
}

TEST_F(Nvml, KeepsARecordOfPower) {
  up("h100-sxm", 1, 1.0);
  std::vector<NvmlSample> samples(200);
  const auto ask = [&](unsigned long long after_us, unsigned room) {
    unsigned type = 0;
    const NvmlReturn code = NVML(library_, nvmlDeviceGetSamples)(gpu(), kNvmlTotalPowerSamples, after_us, &type, &room,
                                                                 room == 0 ? nullptr : samples.data());
    EXPECT_EQ(type, kNvmlValueUnsignedInt);
    samples.resize(std::max<std::size_t>(room, 1));
    return code;
  };
  const auto now_us = [] { return static_cast<unsigned long long>(read_clock(CLOCK_REALTIME) / 1'000); };
  pass(3.0);
  ASSERT_EQ(ask(0, 0), kNvmlSuccess);
  EXPECT_EQ(samples.size(), 120u) << "the room that is needed at most";
  ASSERT_EQ(ask(0, 120), kNvmlSuccess);
  ASSERT_EQ(samples.size(), 120u);
  for (std::size_t i = 1; i < samples.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(samples[i].timestamp_us - samples[i - 1].timestamp_us), 20'000.0, 2.0);
  }
  EXPECT_LT(now_us() - samples.back().timestamp_us, 5'000'000u);  // however busy the machine is
  const unsigned long long after_us = samples[100].timestamp_us;
  samples.resize(120);
  ASSERT_EQ(ask(after_us, 120), kNvmlSuccess);
  EXPECT_GE(samples.size(), 19u);
  EXPECT_GT(samples.front().timestamp_us, after_us);
  samples.resize(1);
  EXPECT_EQ(ask(now_us() + 60'000'000, 1), kNvmlErrorNotFound);
  unsigned type = 0;
  unsigned room = 1;
  EXPECT_EQ(NVML(library_, nvmlDeviceGetSamples)(gpu(), 1, 0, &type, &room, samples.data()), kNvmlErrorNotSupported);
}

TEST_F(Nvml, TheEnergyCounterCanBeDearToRead) {
  up();
  ASSERT_EQ(flyball_sim_fault(0, "counter-costs=0.0025"), FLYBALL_SIM_OK);
  const auto cost = [&](const std::function<NvmlReturn()>& call) {
    const Nanoseconds begin = read_clock(CLOCK_THREAD_CPUTIME_ID);
    EXPECT_EQ(call(), kNvmlSuccess);
    return read_clock(CLOCK_THREAD_CPUTIME_ID) - begin;
  };
  unsigned long long joules = 0;
  std::vector<NvmlFieldValue> values{field(kNvmlFieldTotalEnergy)};
  EXPECT_GE(cost([&] { return energy(joules); }), 2'500'000);
  EXPECT_GE(cost([&] { return NVML(library_, nvmlDeviceGetFieldValues)(gpu(), 1, values.data()); }), 2'500'000);
}

TEST_F(Nvml, AMachineThatGoesLeavesLostGpusAndANewOneCanBeUsed) {
  up();
  unsigned milliwatts = 0;
  unsigned count = 0;
  ASSERT_TRUE(Machine::remove(machine_->name()));
  EXPECT_EQ(power(milliwatts), kNvmlErrorGpuIsLost);
  EXPECT_EQ(NVML(library_, nvmlDeviceGetCount_v2)(&count), kNvmlErrorDriverNotLoaded);
  EXPECT_EQ(NVML(library_, nvmlShutdown)(), kNvmlSuccess);
  devices_.clear();
  up("a40", 1);
  EXPECT_EQ(power(milliwatts), kNvmlSuccess);
  EXPECT_NEAR(milliwatts, 30000, kJitter);
}

}  // namespace
}  // namespace flyball::testing
