// A controller that keeps a power budget by the clocks of simulated boards, through real agents. Every order of events
// is judged by what the boards drew and had locked, sampled all the time, and by no clock of the wall.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/monotonic_time.h"
#include "budget/working_node.h"
#include "cluster/ground_truth.h"
#include "cluster/simulator.h"
#include "controller/clock_keeper.h"
#include "controller/clock_thread.h"
#include "controller/controller.h"
#include "controller/scripted_engine.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kGpus;
using testing::kStandardLimit;
using testing::Node;
using testing::ScriptedEngine;
using testing::TempFolder;
using testing::wait_until;

constexpr double kNoNoise = 1.001;  // ideal boards draw what they drew before at the same clock

struct Sample {
  double first = 0.0;  // watts of the first node
  double all = 0.0;    // and of both
  double first_locked = 0.0;
  double second_locked = 0.0;
  bool is_free = false;  // some board
};

// Looks at the boards all the time until it is stopped.
class Watch {
 public:
  Watch(const Node& first, const Node& second)
      : thread_([&] {
          while (!stopping_) {
            // Clocks first: what is seen to be raised has been raised before the watts are looked at.
            Sample one;
            one.first_locked = first.locked();
            one.second_locked = second.locked();
            one.is_free = first.is_free() || second.is_free();
            one.first = first.watts();
            one.all = one.first + second.watts();
            samples_.push_back(one);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        }) {}
  ~Watch() { stop(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  const std::vector<Sample>& stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
    return samples_;
  }

 private:
  std::atomic<bool> stopping_ = false;
  std::vector<Sample> samples_;
  std::thread thread_;
};

class ClusterClocks : public ::testing::Test {
 protected:
  [[nodiscard]] NodeAgentsOptions agents_options() const {
    NodeAgentsOptions made;
    made.pattern = folder_ / "{node}/agent.sock";
    made.silent_after = Seconds(1.0);
    made.period = Seconds(0.2);
    return made;
  }

  TempFolder folder_;
  Node first_{folder_, "n1"};
  Node second_{folder_, "n2"};
};

// One job gives watts to another: its clocks go down, and only when its meters have shown that, the other's go up.
TEST_F(ClusterClocks, AreRaisedWhenTheMeterHasShownThatOthersAreLower) {
  const std::vector<Megahertz> clocks = {Megahertz(705), Megahertz(1005), Megahertz(1410)};
  const std::vector<Watts> watts = first_.watts_at(clocks);
  ASSERT_LT(watts[0] * 1.2, watts[2]);
  NodeAgents agents(agents_options());
  agents.add("n1");
  agents.add("n2");
  agents.wait_for_readings(Seconds(60));
  ClockKeeper keeper(agents, clocks, Watts(400));
  const Watts limit = (watts[0] + watts[2]) * kNoNoise;
  const auto pass_until = [&](int first, int second, const std::function<bool()>& holds) {
    return wait_until([&] {
      keeper.pass({{1, {{"n1", kGpus, {}}}, true, watts, first}, {2, {{"n2", kGpus, {}}}, true, watts, second}}, limit,
                  true);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return holds();
    });
  };
  ASSERT_TRUE(pass_until(2, 0, [&] { return first_.is_locked() && second_.locked() == 705; }));
  ASSERT_TRUE(pass_until(2, 0, [&] { return keeper.of(2)->settled && !keeper.is_settling(); }));
  EXPECT_EQ(first_.locked(), 1410);
  Watch watch(first_, second_);
  ASSERT_TRUE(pass_until(0, 2, [&] { return second_.locked() == 1410; }));
  EXPECT_EQ(first_.locked(), 705);
  const std::vector<Sample>& samples = watch.stop();
  for (const Sample& one : samples) {
    ASSERT_LE(one.all, limit.value());
    if (one.second_locked > 705) ASSERT_LE(one.first, watts[0].value() * kNoNoise);
  }
  const ClockedPower& now = *keeper.of(1);
  EXPECT_EQ(now.speed, 0);
  EXPECT_TRUE(now.held);
}

// An engine that can be made to hang, as slurmctld does.
class HangingEngine : public ScriptedEngine {
 public:
  HangingEngine() : ScriptedEngine(2, kGpus) {}
  EngineView observe() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !hanging_; });
    return ScriptedEngine::observe();
  }
  void hang(bool hanging) {
    const std::lock_guard lock(mutex_);
    hanging_ = hanging;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool hanging_ = false;
};

// Two jobs with a node each, and a controller of theirs.
class Site {
 public:
  Site(const std::string& database, NodeAgentsOptions how, Watts budget)
      : agents(std::move(how)), store(database), controller(engine, store, options(budget), [](const std::string&) {}) {
    for (const auto& [job, node] : {std::pair{1, "n1"}, std::pair{2, "n2"}}) {
      engine.run(job, ElasticOption{"a", 1e6, kGpus, kGpus}.text(), node, kGpus);
    }
  }
  ControllerOptions options(Watts budget) {
    ControllerOptions made;
    made.spec.gpu = "a100";
    complete_spec(made.spec, load_ground_truth("a100"));
    made.budget = budget;
    made.agents = &agents;
    return made;
  }
  void cycle() {
    now += Seconds(1.0);
    controller.cycle(now);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  bool cycle_until(const std::function<bool()>& holds) {
    return wait_until([&] {
      cycle();
      return holds();
    });
  }

  HangingEngine engine;
  NodeAgents agents;
  ControllerStore store;
  Controller controller;
  Seconds now{1e9};
};

TEST_F(ClusterClocks, FollowAnOrderWhileTheEngineHangs) {
  Site site(folder_ / "controller.db", agents_options(), Watts(1e6));
  ASSERT_TRUE(site.cycle_until([&] { return first_.is_locked() && second_.is_locked(); }));
  const double before = first_.watts() + second_.watts();
  const ClockThread clocks(site.controller, Seconds(1.0), [now = site.now] { return now; });
  site.engine.hang(true);
  std::thread cycle([&] { site.cycle(); });
  const Watts budget(before * 0.8);
  const Nanoseconds begin = monotonic_now();
  site.controller.order_budget({budget, {}});
  EXPECT_TRUE(wait_until([&] { return first_.watts() + second_.watts() <= budget.value(); }));
  std::printf("from the order to the watts: %.3f s\n", to_seconds(monotonic_now() - begin).value());
  EXPECT_THAT(site.engine.acts, IsEmpty());
  site.engine.hang(false);
  cycle.join();
  ASSERT_TRUE(site.cycle_until([&] { return site.controller.status().jobs.at(0).measured.has_value(); }));
  const ClusterRunStatus status = site.controller.status();
  EXPECT_EQ(status.budget, budget);
  for (const ClusterJobStatus& job : status.jobs) {
    EXPECT_GT(job.clock, Megahertz(0));
    EXPECT_LT(job.clock, Megahertz(1410));
    EXPECT_TRUE(job.expected.has_value());
  }
  for (const ClusterNodeStatus& node : status.nodes) {
    EXPECT_THAT(node.agent, HasSubstr("/agent.sock"));
    EXPECT_TRUE(node.power.has_value());
  }
}

// A board of which nobody tells may draw all that it can.
TEST_F(ClusterClocks, OfASilentAgentCountAsNone) {
  Site site(folder_ / "controller.db", agents_options(), Watts(1e6));
  const Watts full = site.options(Watts(1)).spec.limit * static_cast<double>(kGpus);
  ASSERT_TRUE(site.cycle_until([&] { return first_.is_locked() && second_.is_locked(); }));
  first_.agent->kill(SIGKILL);
  const auto job = [&] { return site.controller.status().jobs.at(0); };
  ASSERT_TRUE(site.cycle_until([&] { return job().power == full; }));
  const ClusterNodeStatus node = site.controller.status().nodes.at(0);
  EXPECT_FALSE(node.power.has_value());
  EXPECT_THAT(node.agent_trouble, HasSubstr("agent.sock"));
  EXPECT_FALSE(job().measured.has_value());
  first_.agent->start();
  EXPECT_TRUE(site.cycle_until([&] { return job().power < full && job().measured && first_.is_locked(); }));
  EXPECT_THAT(site.engine.acts, IsEmpty());
}

// Killed by SIGKILL, the controller leaves the boards with power limits that add up to less than the budget. The next
// one finds the jobs as they run, and has their clocks set before it lifts the limits.
TEST_F(ClusterClocks, AreCappedWhenTheControllerIsKilled) {
  const double before = first_.watts() + second_.watts();
  const Watts budget(before * 0.8);
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    Site site(folder_ / "controller.db", agents_options(), budget);
    while (true) site.cycle();
  }
  const auto all = [&] { return first_.watts() + second_.watts(); };
  const auto state_limits = [&] {
    AgentClient first(first_.agent->endpoint(), "");
    AgentClient second(second_.agent->endpoint(), "");
    double limits = 0.0;
    for (AgentClient* const client : {&first, &second}) {
      for (const GpuStatus& gpu : client->devices().gpus) {
        if (!gpu.lease) return 1e9;
        const auto set = gpu.lease->settings.find(gpu.index);
        if (set == gpu.lease->settings.end() || !set->second.lost_power_limit) return 1e9;
        limits += set->second.lost_power_limit->value();
      }
    }
    return limits;
  };
  ASSERT_TRUE(wait_until([&] { return all() <= budget.value() && state_limits() <= budget.value(); }));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const auto limits = [&] {
    double sum = 0.0;
    for (const Node* const node : {&first_, &second_}) {
      for (std::size_t gpu = 0; gpu < kGpus; ++gpu) sum += node->power_limit(gpu);
    }
    return sum;
  };
  ASSERT_TRUE(wait_until([&] { return limits() <= budget.value() && !first_.is_locked() && !second_.is_locked(); }));
  EXPECT_TRUE(wait_until([&] { return all() <= budget.value(); }));

  Watch watch(first_, second_);
  Site site(folder_ / "controller.db", agents_options(), budget);
  const double standard = 2.0 * kGpus * kStandardLimit;
  ASSERT_TRUE(site.cycle_until([&] { return first_.is_locked() && second_.is_locked() && limits() == standard; }));
  for (const Sample& one : watch.stop()) ASSERT_FALSE(one.is_free);
  EXPECT_TRUE(site.cycle_until([&] { return all() <= budget.value(); }));
  EXPECT_THAT(site.engine.acts, IsEmpty());
}

}  // namespace
}  // namespace flyball
