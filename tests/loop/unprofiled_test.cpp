// A rank that cannot profile itself, in a training on simulated GPUs: agent, server and people are told why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>

#include "loop/node.h"

namespace flyball {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::Node;
using ::testing::Not;
using testing::wait_until;

constexpr std::chrono::seconds kLong{120};

std::string jobs(Node& node) {
  const std::string token = node.path("job.token");
  std::ofstream(token) << std::string(40, 't') << "\n";
  std::filesystem::permissions(token, std::filesystem::perms::owner_read);
  std::string text = node.flyball({"jobs", "job", "--server", node.path("server.sock"), "--token-file", token});
  std::filesystem::remove(token);
  return text;
}

// The driver lets nobody set the clocks of one of two GPUs (4 is NVML's "no permission") from the start. When it does,
// the job is profiled, planned and no longer in trouble.
TEST(Loop, ARankThatCannotSetClocksSaysWhyItDoesNotProfile) {
  Node node;
  (void)node.flyball({"sim", "fault", "--gpu", "1", "error:nvmlDeviceSetGpuLockedClocks=4"});
  node.start_trainer({"--windows", "1000", "--steps", "4"});
  const auto log_has = [&](const char* words) { return node.server.output().find(words) != std::string::npos; };
  ASSERT_TRUE(wait_until([&] { return log_has("rank 1 (pipeline 0, stage 1) does not profile itself"); }, kLong))
      << node.server.output() << node.trainer.output();
  EXPECT_THAT(node.server.output(), ContainsRegex("since 20[^\n]*Z: its clocks are not set: [^\n]*permission denied"));
  const std::string told = jobs(node);
  EXPECT_THAT(told, ContainsRegex("state +profiling ./2, 1 cannot"));
  EXPECT_THAT(told, ContainsRegex("unprofiled +rank 1 .*permission denied[^\n]*; to mend: do it through the agent"));
  EXPECT_THAT(told, ContainsRegex("trouble +rank 1 "));
  EXPECT_THAT(told, Not(HasSubstr("rank 0 ")));
  (void)node.flyball({"sim", "fault", "--gpu", "1", "--clear"});
  ASSERT_TRUE(wait_until([&] { return log_has("rank 1 profiles itself now"); }, kLong)) << node.server.output();
  ASSERT_TRUE(wait_until([&] { return node.windows("planned") > 0; }, kLong)) << node.trainer.output();
  EXPECT_THAT(jobs(node), Not(HasSubstr("does not profile itself")));
  EXPECT_EQ(node.trainer.end(SIGTERM), 1);
}

}  // namespace
}  // namespace flyball
