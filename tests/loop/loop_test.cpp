// The closed loop with everything real but the silicon, and what happens to it when parts of it are killed.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <string>

#include "flyball/flyball.h"
#include "loop/node.h"

namespace flyball {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::Node;
using testing::wait_until;

// Generous: the machine may be busy with other tests.
constexpr auto kLong = 120s;

bool train_until(Node& node, const std::string& window, int count) {
  return wait_until([&] { return node.windows(window) >= count || !node.trainer.running(); }, kLong) &&
         node.windows(window) >= count;
}

// Of tests that kill at random moments.
int rounds() {
  const char* asked = std::getenv("FLYBALL_FAULT_ROUNDS");
  return asked != nullptr ? std::atoi(asked) : 3;
}

TEST(Loop, SavesEnergyAsThePlanPromises) {
  Node node;
  node.start_trainer(2);
  ASSERT_TRUE(wait_until([&] { return !node.trainer.running(); }, kLong));
  ASSERT_EQ(node.trainer.status(), 0) << node.trainer.output();
  double base_s = 0.0;
  double base_j = 0.0;
  int planned = 0;
  for (const auto& record : node.records()) {
    if (record.value("window", "") == "maximum clocks") {
      base_s = record.at("iteration_s");
      base_j = record.at("iteration_j");
    }
    if (record.value("window", "") != "planned") continue;
    ++planned;
    EXPECT_LT(record.at("iteration_j"), 0.99 * base_j);
    // Milliseconds of a scaled GPU are a tenth of that here, where other processes run as well, and sanitizers slow
    // all of them down: only the size is right. How exact it is, scripts/demo_loop tells.
    EXPECT_LT(record.at("iteration_s"), 1.3 * base_s);
    EXPECT_NEAR(record.at("iteration_j").get<double>() / record.at("planned_j").get<double>(), 1.0, 0.3);
  }
  EXPECT_EQ(planned, 2);
  EXPECT_TRUE(node.all_at_default());
}

// Whenever a rank is killed, the job ends and every clock is back within a second (and what a busy machine adds).
TEST(Loop, KilledRank) {
  std::mt19937 random(5);
  for (int round = 0; round < rounds(); ++round) {
    Node node;
    node.start_trainer(1000);
    ASSERT_TRUE(train_until(node, "maximum clocks", 1)) << node.trainer.output();
    // Somewhere in the sweep or after it.
    if (round % 3 > 0) ASSERT_TRUE(train_until(node, "planned", round % 3)) << node.trainer.output();
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<>(0, 400)(random)));
    const int stage = round % 2;
    ASSERT_GT(node.stage_process(stage), 0);
    ASSERT_EQ(::kill(node.stage_process(stage), SIGKILL), 0);
    EXPECT_TRUE(wait_until([&] { return node.all_at_default(); }, 5s));
    ASSERT_TRUE(wait_until([&] { return !node.trainer.running(); }, kLong));
    EXPECT_EQ(node.trainer.status(), 1);
    // Its neighbour ends as well and may be missed first.
    EXPECT_THAT(node.trainer.output(), HasSubstr(" has died"));
    EXPECT_TRUE(node.all_at_default());
  }
}

TEST(Loop, KilledLauncher) {
  Node node;
  node.start_trainer(1000);
  ASSERT_TRUE(train_until(node, "planned", 1)) << node.trainer.output();
  node.trainer.end(SIGKILL);
  EXPECT_TRUE(wait_until([&] { return node.all_at_default(); }, 5s));
}

// The training goes on without its agent; the next agent brings the clocks back, and the sessions lease anew.
TEST(Loop, KilledAgent) {
  Node node;
  node.start_trainer(1000);
  ASSERT_TRUE(train_until(node, "planned", 1)) << node.trainer.output();
  node.agent.end(SIGKILL);
  ASSERT_TRUE(train_until(node, "planned", node.windows("planned") + 3)) << node.trainer.output();
  EXPECT_THAT(node.trainer.output(), HasSubstr("clocks are at their default, training goes on"));
  node.start_agent();
  ASSERT_TRUE(
      wait_until([&] { return node.trainer.output().find("clocks are set again") != std::string::npos; }, kLong))
      << node.trainer.output();
  ASSERT_TRUE(train_until(node, "planned", node.windows("planned") + 2)) << node.trainer.output();
  EXPECT_EQ(node.trainer.end(SIGTERM), 1);
  EXPECT_TRUE(node.all_at_default());
}

// Killed in the middle of the sweep: the sweep goes on; the next server, on the same database, gets the rest and plans.
TEST(Loop, KilledServerDuringTheSweep) {
  Node node;
  node.start_trainer(2);
  ASSERT_TRUE(train_until(node, "maximum clocks", 1)) << node.trainer.output();
  std::this_thread::sleep_for(300ms);
  node.server.end(SIGKILL);
  ASSERT_TRUE(wait_until(
      [&] { return node.trainer.output().find("the planning server cannot be used") != std::string::npos; }, kLong));
  EXPECT_TRUE(node.trainer.running());
  node.start_server();
  ASSERT_TRUE(wait_until([&] { return !node.trainer.running(); }, kLong));
  EXPECT_EQ(node.trainer.status(), 0) << node.trainer.output();
  EXPECT_EQ(node.windows("planned"), 2);
  EXPECT_TRUE(node.all_at_default());
}

// Killed while the plan runs: the plan stays in force.
TEST(Loop, KilledServerWhileThePlanRuns) {
  Node node;
  node.start_trainer(1000);
  ASSERT_TRUE(train_until(node, "planned", 1)) << node.trainer.output();
  node.server.end(SIGKILL);
  const int before = node.windows("planned");
  ASSERT_TRUE(train_until(node, "planned", before + 3)) << node.trainer.output();
  EXPECT_GT(node.records().back().at("schedule_version"), 0);
  EXPECT_EQ(node.trainer.end(SIGTERM), 1);
  EXPECT_TRUE(node.all_at_default());
}

// Agent or server, at a moment that nobody chose, and back after another: the job trains to its end by plan.
TEST(Loop, AgentOrServerKilledAtAnyMoment) {
  std::mt19937 random(11);
  for (int round = 0; round < rounds(); ++round) {
    Node node;
    node.start_trainer(4);
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<>(0, 1800)(random)));
    const bool agent = round % 2 == 0;
    (agent ? node.agent : node.server).end(SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<>(0, 600)(random)));
    agent ? node.start_agent() : node.start_server();
    ASSERT_TRUE(wait_until([&] { return !node.trainer.running(); }, kLong)) << node.trainer.output();
    EXPECT_EQ(node.trainer.status(), 0) << node.trainer.output();
    EXPECT_EQ(node.windows("planned"), 4);
    EXPECT_TRUE(wait_until([&] { return node.all_at_default(); }, 5s)) << round;
  }
}

// The driver refuses clocks in the middle of an iteration: that GPU goes to its default and the training goes on; when
// the driver allows them again, so does the plan.
TEST(Loop, ClocksRefusedHalfWay) {
  Node node;
  node.start_trainer(1000);
  ASSERT_TRUE(train_until(node, "planned", 1)) << node.trainer.output();
  (void)node.flyball({"sim", "fault", "--gpu", "0", "error:nvmlDeviceSetGpuLockedClocks=4"});
  ASSERT_TRUE(wait_until(
      [&] { return node.trainer.output().find("stage 0: clocks are at their default") != std::string::npos; }, kLong))
      << node.trainer.output();
  EXPECT_TRUE(wait_until([&] { return node.at_default(0); }, 5s));
  ASSERT_TRUE(train_until(node, "planned", node.windows("planned") + 2)) << node.trainer.output();
  EXPECT_TRUE(node.at_default(0));
  EXPECT_THAT(node.trainer.output(), ::testing::Not(HasSubstr("stage 1: clocks are at their default")));
  (void)node.flyball({"sim", "fault", "--gpu", "0", "--clear"});
  ASSERT_TRUE(wait_until(
      [&] { return node.trainer.output().find("stage 0: clocks are set again") != std::string::npos; }, kLong));
  EXPECT_EQ(node.trainer.end(SIGTERM), 1);
  EXPECT_TRUE(node.all_at_default());
}

// The C interface as a program sees it that loads it at run time.
class CInterface : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = (testing::kBuildFolder / "lib/libflyball.so").string();
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  // Stays loaded: a library with threads and thread-local data is not for unloading.

  template <class Function>
  Function* function(const char* name) {
    void* found = dlsym(library_, name);
    EXPECT_NE(found, nullptr) << name;
    return reinterpret_cast<Function*>(found);
  }

  void* library_ = nullptr;
};

TEST_F(CInterface, ANullSessionDoesNothing) {
  EXPECT_EQ(function<decltype(flyball_step_begin)>("flyball_step_begin")(nullptr), FLYBALL_OK);
  EXPECT_EQ(function<decltype(flyball_set_speed)>("flyball_set_speed")(nullptr, "forward"), FLYBALL_OK);
  EXPECT_EQ(function<decltype(flyball_begin)>("flyball_begin")(nullptr, "forward"), FLYBALL_OK);
  EXPECT_EQ(function<decltype(flyball_end)>("flyball_end")(nullptr, "forward"), FLYBALL_OK);
  EXPECT_EQ(function<decltype(flyball_step_end)>("flyball_step_end")(nullptr), FLYBALL_OK);
  EXPECT_EQ(function<decltype(flyball_set_straggler)>("flyball_set_straggler")(nullptr, 0, 0.0, 1.0), FLYBALL_OK);
  flyball_session_state state{};
  state.size = sizeof state;
  EXPECT_EQ(function<decltype(flyball_session_get_state)>("flyball_session_get_state")(nullptr, &state), FLYBALL_OK);
  EXPECT_EQ(state.phase, FLYBALL_IDLE);
  double joules = 1.0;
  EXPECT_EQ(function<decltype(flyball_window_end)>("flyball_window_end")(nullptr, nullptr, &joules), FLYBALL_OK);
  EXPECT_EQ(joules, 0.0);
  function<decltype(flyball_session_close)>("flyball_session_close")(nullptr);
}

TEST_F(CInterface, WhatCannotBeOpenedSaysWhy) {
  auto* const open = function<decltype(flyball_session_open)>("flyball_session_open");
  auto* const words = function<decltype(flyball_last_error)>("flyball_last_error");
  EXPECT_EQ(open(nullptr), nullptr);
  EXPECT_THAT(words(), HasSubstr("null"));
  flyball_session_options options{};
  EXPECT_EQ(open(&options), nullptr);
  EXPECT_THAT(words(), HasSubstr("size"));
  function<decltype(flyball_session_options_init)>("flyball_session_options_init")(&options);
  options.steps_per_clock = 0;
  EXPECT_EQ(open(&options), nullptr);
  EXPECT_THAT(words(), HasSubstr("steps_per_clock"));
  flyball_session_state state{};
  EXPECT_EQ(function<decltype(flyball_session_get_state)>("flyball_session_get_state")(nullptr, &state), FLYBALL_USAGE);
  EXPECT_STREQ(function<decltype(flyball_version)>("flyball_version")(), FLYBALL_VERSION);
}

// Only flyball_*: the library is loaded into programs that have a JSON reader and a formatter of their own.
TEST_F(CInterface, ShowsNoOtherNames) {
  EXPECT_EQ(dlsym(library_, "_ZN7flyball7SessionC1ENS_14SessionOptionsENS_10SessionGpuE"), nullptr);
  EXPECT_NE(dlsym(library_, "flyball_profile_csv"), nullptr);
}

}  // namespace
}  // namespace flyball
