// A node with boards of NVIDIA (simulated) and of AMD (a stand-in): the board that a session measures is the one that
// the agent leases to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "client/agent_client.h"
#include "client/clock_sinks.h"
#include "sim/simulated.h"
#include "support/agent_process.h"
#include "support/expect_fault.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using testing::AgentProcess;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SimulatedMachine;
using testing::TempFolder;

constexpr std::size_t kNvidiaBoards = 2;

class TwoVendors : public ::testing::Test {
 protected:
  TwoVendors() { std::filesystem::create_symlink(FLYBALL_STUB_DIR "/libamd_smi_stub.so", folder_ / "libamd_smi.so"); }

  // The agent finds AMD's library below its usual name; the stand-in lets those set clocks that STUB_AMD_ROOT lets.
  void start_agent(bool with_nvidia) {
    const std::string simulated = std::filesystem::path(FLYBALL_SIM_LIBRARY).parent_path();
    const std::string libraries = folder_.path().string() + (with_nvidia ? ":" + simulated : "");
    agent_.start([&] {
      ::setenv("LD_LIBRARY_PATH", libraries.c_str(), 1);
      ::setenv("STUB_AMD_ROOT", "1", 1);
    });
  }

  // As a session opens it that sees both vendors.
  SessionGpu open(std::size_t gpu) {
    SessionGpuRequest request;
    request.gpu = gpu;
    request.clocks = folder_ / "agent.sock";
    request.purpose = {"two vendors"};
    request.vendors = {{"nvml", {FLYBALL_SIM_LIBRARY}, load_nvml},
                       {"amd-smi", {FLYBALL_STUB_DIR "/libamd_smi_stub.so"}, load_amd_smi}};
    return open_session_gpu(request);
  }

  GpuStatus status(std::size_t gpu) { return AgentClient(agent_.endpoint(), "").devices().gpus.at(gpu); }

  // By measuring and setting it that `session` is the stand-in's first board, which the agent calls `gpu`: each reading
  // of its counter finds 15.3 J more, and a range of clocks up to 500 MHz shows as a power limit of 0.5 W.
  void expect_amd_board(const SessionGpu& session, std::size_t gpu) {
    EXPECT_THAT(session.clocks, ElementsAre(Megahertz(2100), Megahertz(500), Megahertz(132)));
    const double before = session.meter.read().total.value().value();
    EXPECT_NEAR(session.meter.read().total.value().value() - before, 15.3, 1e-5);
    session.sink->hold(Megahertz(500));
    ASSERT_TRUE(status(gpu).lease.has_value());
    EXPECT_EQ(status(gpu).lease->purpose, "two vendors");
    EXPECT_TRUE(testing::wait_until([&] { return status(gpu).power_limit == Watts(0.5); }));
    session.sink->release();
    EXPECT_TRUE(testing::wait_until([&] { return status(gpu).power_limit == Watts(750); }));
  }

  TempFolder folder_;
  SimulatedMachine machine_{"a100", kNvidiaBoards};
  AgentProcess agent_{machine_.name(), folder_.path()};
};

TEST_F(TwoVendors, ASessionFindsTheAmdBoardThatTheAgentLeases) {
  start_agent(true);
  ASSERT_EQ(AgentClient(agent_.endpoint(), "").devices().gpus.size(), kNvidiaBoards + 2);
  const SessionGpu session = open(kNvidiaBoards);
  EXPECT_EQ(session.meter.label, "GPU:2");
  expect_amd_board(session, kNvidiaBoards);
  EXPECT_EQ(open(1).clocks.front(), Megahertz(1410)) << "and NVIDIA's as before";
}

TEST_F(TwoVendors, ASessionFollowsTheAgentsNumbersWhereTheyDiffer) {
  start_agent(false);  // NVIDIA's driver was installed after it
  ASSERT_THAT(status(0).name, HasSubstr("MI300X"));
  expect_amd_board(open(0), 0);
}

TEST_F(TwoVendors, ASessionSetsNoBoardThatItCannotMeasure) {
  start_agent(true);
  SessionGpuRequest request;
  request.gpu = kNvidiaBoards;
  request.clocks = folder_ / "agent.sock";
  request.vendors = {{"nvml", {FLYBALL_SIM_LIBRARY}, load_nvml}};
  testing::expect_fault([&] { return open_session_gpu(request); }, DeviceFault::kLost, "GPU:2",
                        "none of the 2 GPUs here is c4ff74a1-0000-1000-80ce-f19c57a2f31c");
}

}  // namespace
}  // namespace flyball
