// What can go wrong on a node, with the real program on simulated GPUs: all GPUs come to their defaults or their caps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <thread>
#include <nlohmann/json.hpp>

#include "client/agent_client.h"
#include "sim/simulated.h"
#include "support/agent_calls.h"
#include "support/agent_process.h"
#include "support/figures.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using testing::AgentProcess;
using ::testing::HasSubstr;
using testing::kSlow;
using testing::kTimeScale;
using testing::leases_at;
using testing::metrics_at;
using testing::set_power_limit;
using testing::SimulatedMachine;
using testing::stream_power;
using testing::TempFolder;
using testing::wait_until;

constexpr std::size_t kGpus = 4;

// A node: simulated GPUs and the agent that owns them, which lets its user leave caps.
class Node {
 public:
  Node()
      : machine("a100", kGpus, kTimeScale), agent(machine.name(), folder.path(), {"--config", folder / "agent.toml"}) {
    std::ofstream(folder / "agent.toml") << "[access]\nslow_others = true\n";
  }

  [[nodiscard]] bool at_default(std::size_t gpu) const {
    BoardAccess access(*machine, gpu);
    const BoardSettings asked = access.state().requested;
    const Watts limit = access.spec().limit;
    access.commit();
    return asked.lock_maximum.value() == 0 && asked.memory_lock_maximum.value() == 0 &&
           (asked.power_limit.value() == 0 || asked.power_limit == limit);
  }
  [[nodiscard]] std::string uuid(std::size_t gpu) const { return machine->spec(gpu).uuid; }
  [[nodiscard]] bool all_at_default() const {
    for (std::size_t gpu = 0; gpu < kGpus; ++gpu) {
      if (!at_default(gpu)) return false;
    }
    return true;
  }
  [[nodiscard]] bool become_default() const {
    return wait_until([this] { return all_at_default(); });
  }
  // All GPUs come to a limit that change_caps() states, which their caps name, and to their own clocks.
  [[nodiscard]] bool become_capped() const {
    return wait_until([this] {
      const auto gpus = AgentClient(agent.endpoint(), "").devices().gpus;
      return std::all_of(gpus.begin(), gpus.end(), [this](const GpuStatus& gpu) {
        const BoardSettings is = machine.state(gpu.index).requested;
        return gpu.cap && is.power_limit == gpu.cap->power_limit && is.power_limit < Watts(190) &&
               is.lock_maximum.value() == 0;
      });
    });
  }
  void fault(std::size_t gpu, const std::string& words) const {
    ASSERT_TRUE(do_fault(*machine, gpu, *parse_fault(words)));
  }
  void mend(std::size_t gpu) const { take_faults_back(*machine, gpu); }

  TempFolder folder;
  SimulatedMachine machine;
  AgentProcess agent;
};

LeaseRequest all_gpus(bool caps = false) {
  LeaseRequest request;
  if (caps) request.lost_power_limit = Watts(180);
  for (std::size_t gpu = 0; gpu < kGpus; ++gpu) request.gpus.push_back(gpu);
  return request;
}

// For tests in which no holder falls silent: on a machine that stalls, one that is well may seem to.
LeaseRequest patiently(std::vector<std::size_t> gpus) {
  LeaseRequest request;
  request.gpus = std::move(gpus);
  request.heartbeat_timeout = Seconds(30);
  return request;
}

void slow_down(AgentLease& lease) {
  for (std::size_t gpu = 0; gpu < kGpus; ++gpu) {
    lease.lock_sm_clocks(gpu, kSlow);
    set_power_limit(lease, gpu, Watts(200));
  }
}

// A child process that holds all GPUs. Runs `work` with its lease over and over, until that throws.
class HolderProcess {
 public:
  HolderProcess(const Endpoint& endpoint, const std::function<void(AgentLease&)>& work, bool caps = false) {
    int ready[2];
    if (::pipe(ready) != 0) throw std::runtime_error("no pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ready[0]);
      run(endpoint, work, caps, ready[1]);
    }
    ::close(ready[1]);
    char byte = 0;
    holds_ = ::read(ready[0], &byte, 1) == 1;
    ::close(ready[0]);
  }
  ~HolderProcess() {
    if (pid_ > 0) kill();
  }
  HolderProcess(const HolderProcess&) = delete;
  HolderProcess& operator=(const HolderProcess&) = delete;

  [[nodiscard]] bool holds() const { return holds_; }
  void signal(int number) const { ::kill(pid_, number); }
  void kill() {
    signal(SIGKILL);
    wait();
  }
  void wait() {
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  [[noreturn]] static void run(const Endpoint& endpoint, const std::function<void(AgentLease&)>& work, bool caps,
                               int ready) {
    try {
      AgentLease lease = slowed_down(endpoint, caps);
      if (::write(ready, "!", 1) != 1) ::_exit(2);
      while (lease.lost().empty()) work(lease);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "the holder ends: %s\n", error.what());
    }
    ::_exit(0);
  }

  // A machine that stalls can cost a lease before anybody has seen it.
  static AgentLease slowed_down(const Endpoint& endpoint, bool caps) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (true) {
      try {
        AgentLease lease = AgentClient(endpoint, "").lease(all_gpus(caps));
        slow_down(lease);
        return lease;
      } catch (const Error&) {
        if (std::chrono::steady_clock::now() > end) throw;
      }
    }
  }

  pid_t pid_ = -1;
  bool holds_ = false;
};

void only_hold(AgentLease&) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

void change_clocks(AgentLease& lease) {
  static unsigned count = 0;
  const double mhz = 1410.0 - 15.0 * (count++ % 40);
  for (std::size_t gpu = 0; gpu < kGpus; ++gpu) lease.lock_sm_clocks(gpu, {Megahertz(mhz), Megahertz(mhz)});
}

// As a controller whose budget changes does it.
void change_caps(AgentLease& lease) {
  static unsigned count = 0;
  SettingsChange change;
  change.sm_clocks = kSlow;
  change.lost_power_limit = Watts(160 + 10 * (count++ % 3));
  for (std::size_t gpu = 0; gpu < kGpus; ++gpu) lease.change(gpu, change);
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(Faults, AKilledHolderLeavesNoClockBehind) {
  Node node;
  node.agent.start();
  HolderProcess holder(node.agent.endpoint(), only_hold);
  ASSERT_TRUE(holder.holds());
  EXPECT_FALSE(node.at_default(0));
  const auto begin = std::chrono::steady_clock::now();
  holder.kill();
  EXPECT_TRUE(node.become_default());
  RecordProperty("seconds_to_default", std::to_string(seconds_since(begin)));
  EXPECT_TRUE(wait_until([&] { return leases_at(node.agent.endpoint()).empty(); }));
}

TEST(Faults, AStoppedHolderLosesItsLease) {
  Node node;
  node.agent.start();
  HolderProcess holder(node.agent.endpoint(), only_hold);
  ASSERT_TRUE(holder.holds());
  const auto begin = std::chrono::steady_clock::now();
  holder.signal(SIGSTOP);  // alive, connected, silent
  EXPECT_TRUE(node.become_default());
  RecordProperty("seconds_to_default", std::to_string(seconds_since(begin)));
  EXPECT_THAT(node.agent.log(), HasSubstr("why=silent"));
}

TEST(Faults, HolderKilledAtAHundredRandomMoments) {
  Node node;
  node.agent.start();
  std::mt19937 random(20261122);
  std::uniform_int_distribution<int> microseconds(0, 30'000);
  int dirty = 0;
  const int rounds = testing::tries(100, 20);
  for (int i = 0; i < rounds; ++i) {
    const bool caps = i % 2 == 1;  // which the next round's lease ends, since it sets limits
    HolderProcess holder(node.agent.endpoint(), caps ? change_caps : change_clocks, caps);
    ASSERT_TRUE(holder.holds()) << "round " << i << ": " << node.agent.log();
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
    if (!node.all_at_default()) ++dirty;
    holder.kill();
    ASSERT_TRUE(wait_until([&] { return leases_at(node.agent.endpoint()).empty(); })) << "round " << i;
    ASSERT_TRUE(caps ? node.become_capped() : node.become_default()) << "round " << i << ": " << node.agent.log();
  }
  EXPECT_GT(dirty, rounds / 2) << "a kill that leaves nothing to restore tests nothing";
}

// A closed terminal (SIGHUP) is as good an end as any other.
TEST(Faults, TheAgentRestoresBeforeItExits) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    SCOPED_TRACE(signal);
    Node node;
    node.agent.start();
    HolderProcess holder(node.agent.endpoint(), only_hold);
    ASSERT_TRUE(holder.holds());
    EXPECT_EQ(node.agent.kill(signal), 0);
    EXPECT_TRUE(node.all_at_default());
    EXPECT_TRUE(std::filesystem::is_empty(node.agent.state_folder()) ||
                std::distance(std::filesystem::directory_iterator(node.agent.state_folder()), {}) == 1)
        << "nothing but the lock is left of the journal";
  }
}

TEST(Faults, AgentKilledAtAHundredRandomMoments) {
  Node node;
  std::mt19937 random(20261120);
  std::uniform_int_distribution<int> microseconds(0, 30'000);
  int dirty = 0;
  node.agent.start();
  const int rounds = testing::tries(100, 20);
  for (int i = 0; i < rounds; ++i) {
    const bool caps = i % 2 == 1;  // which the next round's lease ends, since it sets limits
    HolderProcess holder(node.agent.endpoint(), caps ? change_caps : change_clocks, caps);
    ASSERT_TRUE(holder.holds()) << "round " << i << ": " << node.agent.log();
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
    node.agent.kill(SIGKILL);
    holder.wait();
    if (!node.all_at_default()) ++dirty;
    node.agent.start();
    ASSERT_TRUE(caps ? node.become_capped() : node.become_default()) << "round " << i << ": " << node.agent.log();
  }
  EXPECT_GT(dirty, 0.9 * rounds) << "a kill that leaves nothing to restore tests nothing";
}

TEST(Faults, AnAgentKilledWhileItRestoresIsFollowedByOneThatDoes) {
  Node node;
  std::mt19937 random(7);
  std::uniform_int_distribution<int> microseconds(0, 4'000);
  node.agent.start();
  for (int i = 0; i < 20; ++i) {
    const bool caps = i % 2 == 1;
    HolderProcess holder(node.agent.endpoint(), only_hold, caps);
    ASSERT_TRUE(holder.holds());
    holder.kill();
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
    node.agent.kill(SIGKILL);
    node.agent.start();
    ASSERT_TRUE(caps ? node.become_capped() : node.become_default()) << "round " << i << ": " << node.agent.log();
  }
}

TEST(Faults, AFullDiskGrantsNothing) {
  Node node;
  node.agent.start([] { ::dup2(::open("/dev/null", O_WRONLY), STDERR_FILENO); });
  const rlimit nothing{0, 0};
  ASSERT_EQ(::prlimit(node.agent.pid(), RLIMIT_FSIZE, &nothing, nullptr), 0);
  AgentClient client(node.agent.endpoint(), "");
  try {
    static_cast<void>(client.lease(all_gpus()));
    FAIL() << "a lease was granted without a journal";
  } catch (const AgentRefusal& refusal) {
    EXPECT_EQ(refusal.status(), 507u);
    EXPECT_THAT(refusal.what(), HasSubstr("cannot write the journal"));
  }
  EXPECT_TRUE(leases_at(node.agent.endpoint()).empty());
  HttpClient http(node.agent.endpoint());
  EXPECT_EQ(
      http.request("POST", "/gpu/set_gpu_locked_clocks?gpu_ids=0&min_clock_mhz=1005&max_clock_mhz=1005&block=true")
          .status,
      507u);
  EXPECT_TRUE(node.all_at_default());
}

TEST(Faults, ADiskThatFillsUpUnderALeaseStopsNewSettingsAndNoRestoring) {
  Node node;
  node.agent.start([] { ::dup2(::open("/dev/null", O_WRONLY), STDERR_FILENO); });
  AgentLease lease = AgentClient(node.agent.endpoint(), "").lease(patiently({0}));
  lease.lock_sm_clocks(0, kSlow);
  const rlimit nothing{0, 0};
  ASSERT_EQ(::prlimit(node.agent.pid(), RLIMIT_FSIZE, &nothing, nullptr), 0);
  try {
    set_power_limit(lease, 0, Watts(200));
    ADD_FAILURE() << "a knob was set that no journal names";
  } catch (const AgentRefusal& refusal) {
    EXPECT_EQ(refusal.status(), 507u);
  }
  EXPECT_EQ(lease.lost(), "");
  EXPECT_FALSE(node.at_default(0));
  lease.release();
  EXPECT_TRUE(node.all_at_default());
}

// Zeusd's interface tells the wall clock; nothing else of the agent looks at it.
TEST(Faults, AWallClockThatLeapsEndsNoLeaseAndKeepsNone) {
  Node node;
  node.agent.start([] { ::setenv("LD_PRELOAD", FLYBALL_STUB_DIR "/libwall_clock_stub.so", 1); });
  HttpClient http(node.agent.endpoint());
  const auto wall_clock_ms = [&] {
    return nlohmann::json::parse(http.request("GET", "/time").body)["timestamp_ms"].get<double>();
  };
  EXPECT_GT(std::abs(wall_clock_ms() - wall_clock_ms()), 1e10) << "the clock does leap";
  AgentClient client(node.agent.endpoint(), "");
  AgentLease lease = client.lease(patiently({0, 1, 2, 3}));
  slow_down(lease);
  Seconds last(0);
  std::size_t samples = 0;
  stream_power(node.agent.endpoint(), "&devices=GPU:0", [&](const std::vector<PowerPoint>& points) {
    for (const PowerPoint& point : points) EXPECT_GT(point.time, std::exchange(last, point.time));
    return (samples += points.size()) < 20;
  });
  EXPECT_EQ(lease.lost(), "");
  EXPECT_FALSE(node.at_default(0));
  lease.release();
  EXPECT_TRUE(node.all_at_default());
  HolderProcess holder(node.agent.endpoint(), only_hold);
  ASSERT_TRUE(holder.holds());
  holder.signal(SIGSTOP);
  EXPECT_TRUE(node.become_default()) << "silence still ends a lease";
}

TEST(Faults, CountersThatBreakEndNoLease) {
  Node node;
  node.agent.start();
  AgentClient client(node.agent.endpoint(), "");
  AgentLease lease = client.lease(patiently({0, 1, 2, 3}));
  slow_down(lease);
  node.fault(0, "counter-wraps=1000");
  node.fault(1, "counter-frozen");
  node.fault(2, "counter-reset");
  node.fault(3, "counter-missing");
  std::map<std::string, int> samples;
  stream_power(node.agent.endpoint(), "", [&](const std::vector<PowerPoint>& points) {
    for (const PowerPoint& point : points) ++samples[point.device];
    return samples.size() < kGpus ||
           std::any_of(samples.begin(), samples.end(), [](auto& one) { return one.second < 9; });
  });
  const NodeStatus status = client.devices();
  for (const GpuStatus& gpu : status.gpus) EXPECT_EQ(gpu.health, GpuHealth::kWell) << gpu.trouble;
  EXPECT_TRUE(status.gpus[2].energy.has_value());
  EXPECT_FALSE(status.gpus[3].energy.has_value());
  EXPECT_EQ(lease.lost(), "");
  lease.release();
  EXPECT_TRUE(node.all_at_default());
}

TEST(Faults, ADriverThatRefusesLeavesTheRestAlone) {
  Node node;
  node.agent.start();
  AgentLease lease = AgentClient(node.agent.endpoint(), "").lease(all_gpus());
  node.fault(0, "error:nvmlDeviceSetGpuLockedClocks=4");  // no permission
  node.fault(1, "error:nvmlDeviceSetGpuLockedClocks=999");
  node.fault(3, "error:nvmlDeviceSetGpuLockedClocks=3");  // not supported
  for (const auto& [gpu, status] : {std::pair<std::size_t, unsigned>{0, 403}, {1, 500}, {3, 422}}) {
    try {
      lease.lock_sm_clocks(gpu, kSlow);
      ADD_FAILURE() << "GPU " << gpu << " took a clock";
    } catch (const AgentRefusal& refusal) {
      EXPECT_EQ(refusal.status(), status) << refusal.what();
    }
  }
  lease.lock_sm_clocks(2, kSlow);
  EXPECT_FALSE(node.at_default(2));
  lease.release();
  EXPECT_TRUE(node.all_at_default());
}

TEST(Faults, AResetThatFailsIsRepeatedUntilItWorks) {
  Node node;
  node.agent.start();
  AgentLease lease = AgentClient(node.agent.endpoint(), "").lease(all_gpus());
  slow_down(lease);
  node.fault(3, "error:nvmlDeviceResetGpuLockedClocks=999");
  EXPECT_THROW(lease.release(), AgentRefusal);
  EXPECT_TRUE(wait_until([&] { return node.at_default(0) && node.at_default(1) && node.at_default(2); }));
  EXPECT_FALSE(node.at_default(3));
  node.mend(3);
  EXPECT_TRUE(node.become_default());
}

TEST(Faults, ADriverThatHangsHoldsUpItsGpuOnly) {
  Node node;
  node.agent.start();
  AgentClient client(node.agent.endpoint(), "");
  AgentLease lease = client.lease(all_gpus());
  slow_down(lease);
  node.fault(0, "hang:nvmlDeviceSetGpuLockedClocks=600");
  try {
    lease.lock_sm_clocks(0, {Megahertz(900), Megahertz(900)});
    ADD_FAILURE() << "the call came back";
  } catch (const AgentRefusal& refusal) {
    EXPECT_EQ(refusal.status(), 504u) << refusal.what();
  }
  lease.lock_sm_clocks(1, {Megahertz(900), Megahertz(900)});
  EXPECT_TRUE(wait_until([&] {
    const NodeStatus status = client.devices();
    return status.gpus[0].health == GpuHealth::kUnwell && status.gpus[1].health == GpuHealth::kWell;
  }));
  EXPECT_THROW(lease.release(), AgentRefusal);
  EXPECT_TRUE(wait_until([&] { return node.at_default(1) && node.at_default(2) && node.at_default(3); }));
  node.mend(0);
  EXPECT_TRUE(node.become_default());
  EXPECT_TRUE(wait_until([&] { return client.devices().gpus[0].health == GpuHealth::kWell; }));
}

void give_up_soon() { ::setenv("FLYBALL_DRIVER_TIMEOUT", "200ms", 1); }

// Asks a client of its own each time: an agent that looks for its devices anew closes its connections.
bool comes_to_say(const Node& node, const std::function<bool(AgentClient&)>& wanted) {
  return wait_until([&] {
    try {
      AgentClient client(node.agent.endpoint(), "");
      return wanted(client);
    } catch (const SystemError&) {
      return false;
    }
  });
}

// What a GPU that its driver opened late owes everyone: its number, its UUID, its power, leases.
void expect_there(const Node& node, std::size_t gpu) {
  AgentClient client(node.agent.endpoint(), "");
  const NodeStatus status = client.devices();
  ASSERT_EQ(status.gpus.size(), kGpus);
  EXPECT_EQ(status.gpus[gpu].index, gpu);
  EXPECT_EQ(status.gpus[gpu].health, GpuHealth::kWell);
  EXPECT_THAT(status.gpus[gpu].name, HasSubstr("A100"));
  const std::string uuid = node.uuid(gpu);
  EXPECT_EQ(status.gpus[gpu].uuid, uuid);
  EXPECT_THAT(metrics_at(node.agent.endpoint()),
              HasSubstr("flyball_gpu_power_watts{gpu=\"" + std::to_string(gpu) + "\",uuid=\"" + uuid));
  EXPECT_THAT(HttpClient(node.agent.endpoint()).request("GET", "/gpu/get_power").body,
              HasSubstr("\"" + std::to_string(gpu) + "\":"));
  std::size_t samples = 0;
  stream_power(node.agent.endpoint(), "&devices=GPU:" + std::to_string(gpu),
               [&](const std::vector<PowerPoint>& points) {
                 samples += points.size();
                 return samples < 2;
               });
  AgentLease lease = client.lease(patiently({gpu}));
  lease.lock_sm_clocks(gpu, kSlow);
  EXPECT_FALSE(node.at_default(gpu));
  lease.release();
  EXPECT_TRUE(node.all_at_default());
}

TEST(Faults, AnAgentStartsThoughADriverHangsAndWorksWithTheRest) {
  Node node;
  node.fault(1, "hang:nvmlDeviceGetUUID=600");
  node.agent.start(give_up_soon);
  EXPECT_THAT(node.agent.log(), HasSubstr("event=not_available device=GPU:1"));
  EXPECT_THAT(node.agent.log(), HasSubstr("has not answered in 0.2 s"));
  EXPECT_THAT(node.agent.log(), ::testing::Not(HasSubstr("amd-smi"))) << "nobody misses another vendor's driver here";
  AgentClient client(node.agent.endpoint(), "");
  AgentLease lease = client.lease(patiently({0, 2, 3}));
  lease.lock_sm_clocks(2, kSlow);
  EXPECT_FALSE(node.at_default(2)) << "GPUs keep their numbers";
  const NodeStatus status = client.devices();
  ASSERT_EQ(status.gpus.size(), 4u);
  EXPECT_EQ(status.gpus[1].health, GpuHealth::kLost);
  EXPECT_EQ(status.gpus[1].uuid, "");
  EXPECT_THAT(status.gpus[1].trouble, HasSubstr("not opened since the agent started"));
  EXPECT_THROW(static_cast<void>(client.lease(patiently({1}))), AgentRefusal);
  EXPECT_EQ(node.agent.kill(SIGTERM), 0);
  EXPECT_TRUE(node.become_default());
}

TEST(Faults, AGpuWhoseDriverHangsAtTheStartComesByItself) {
  Node node;
  node.fault(1, "hang:nvmlDeviceGetUUID=600");
  node.agent.start(give_up_soon);
  AgentClient client(node.agent.endpoint(), "");
  AgentLease other = client.lease(patiently({2}));
  other.lock_sm_clocks(2, kSlow);
  node.mend(1);
  EXPECT_TRUE(wait_until([&] { return client.devices().gpus[1].health == GpuHealth::kWell; })) << node.agent.log();
  EXPECT_EQ(other.lost(), "");
  EXPECT_FALSE(node.at_default(2)) << "nobody else notices";
  other.release();
  expect_there(node, 1);
}

TEST(Faults, AGpuThatIsLostAtTheStartComesByItself) {
  Node node;
  node.fault(0, "lost");
  node.agent.start();
  EXPECT_THROW(static_cast<void>(AgentClient(node.agent.endpoint(), "").lease(patiently({0}))), AgentRefusal);
  node.mend(0);
  EXPECT_TRUE(comes_to_say(node, [](auto& client) { return client.devices().gpus[0].health == GpuHealth::kWell; }));
  expect_there(node, 0);
}

TEST(Faults, ALibraryThatHangsAtTheStartIsAskedUntilItAnswers) {
  Node node;
  node.fault(0, "hang:nvmlInit_v2=600");
  node.agent.start(give_up_soon);
  EXPECT_THAT(node.agent.log(), HasSubstr("event=not_available device=nvml"));
  EXPECT_TRUE(AgentClient(node.agent.endpoint(), "").devices().gpus.empty());
  node.mend(0);
  EXPECT_TRUE(comes_to_say(node, [](auto& client) { return client.devices().gpus.size() == kGpus; }))
      << node.agent.log();
  expect_there(node, 3);
  EXPECT_EQ(node.agent.kill(SIGTERM), 0);
}

// Killed with locked clocks; the next agent cannot reach the GPU at first.
TEST(Faults, WhatAKilledAgentLeftIsRestoredWhenItsDriverAnswersAtLast) {
  for (const char* fault : {"hang:nvmlDeviceGetUUID=600", "lost", "hang:nvmlInit_v2=600"}) {
    SCOPED_TRACE(fault);
    Node node;
    node.agent.start();
    HolderProcess holder(node.agent.endpoint(), only_hold);
    ASSERT_TRUE(holder.holds());
    node.agent.kill(SIGKILL);
    holder.kill();
    node.fault(1, fault);
    node.agent.start(give_up_soon);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // restoring the others needs no more
    EXPECT_FALSE(node.at_default(1));
    node.mend(1);
    EXPECT_TRUE(node.become_default()) << node.agent.log();
    EXPECT_TRUE(wait_until([&] {
      return std::distance(std::filesystem::directory_iterator(node.agent.state_folder()), {}) == 1;
    })) << "nothing but the lock is left of the journal";
    EXPECT_TRUE(comes_to_say(node, [](auto& client) {
      const NodeStatus status = client.devices();
      return status.gpus.size() == kGpus && status.gpus[1].health == GpuHealth::kWell;
    }));
    expect_there(node, 1);
  }
}

// Which GPUs to restore is not known: all of them, those included that answer later.
TEST(Faults, ADamagedJournalIsKeptUntilTheLastGpuIsRestored) {
  Node node;
  node.agent.start();
  HolderProcess holder(node.agent.endpoint(), only_hold);
  ASSERT_TRUE(holder.holds());
  node.agent.kill(SIGKILL);
  holder.kill();
  const std::filesystem::path state = node.agent.state_folder();
  for (const auto& file : std::filesystem::directory_iterator(state)) {
    if (file.path().extension() == ".json") std::filesystem::resize_file(file, 5);
  }
  node.fault(1, "lost");
  node.agent.start();
  EXPECT_TRUE(wait_until([&] { return node.at_default(0) && node.at_default(2) && node.at_default(3); }));
  EXPECT_EQ(node.agent.kill(SIGTERM), 0);
  EXPECT_GT(std::distance(std::filesystem::directory_iterator(state), {}), 1) << "GPU 1 is still to be restored";
  node.agent.start();
  node.mend(1);
  EXPECT_TRUE(node.become_default());
  EXPECT_TRUE(wait_until([&] { return std::distance(std::filesystem::directory_iterator(state), {}) == 1; }));
}

// The next line of a program's output that says `words`; empty at its end.
std::string line_with(FILE* program, const std::string& words) {
  std::string line;
  for (int c = std::fgetc(program); c != EOF; c = std::fgetc(program)) {
    if (c != '\n') {
      line += static_cast<char>(c);
      continue;
    }
    if (line.find(words) != std::string::npos) return line;
    line.clear();
  }
  return {};
}

TEST(Faults, TopOutlivesARestartOfItsAgent) {
  Node node;
  node.agent.start();
  const std::string socket = (node.folder.path() / "agent.sock").string();
  FILE* top = ::popen((FLYBALL_PROGRAM " top --interval 50ms --format json --agent " + socket + " 2>&1").c_str(), "re");
  ASSERT_NE(top, nullptr);
  EXPECT_NE(line_with(top, "\"away\":null"), "");
  node.agent.kill(SIGKILL);
  EXPECT_THAT(line_with(top, "flyball: warning:"), HasSubstr("trying again"));
  EXPECT_THAT(line_with(top, "\"away\":\""), HasSubstr("\"gpus\":[{")) << "the last look stays";
  node.agent.start();
  EXPECT_NE(line_with(top, "the agent is back"), "");
  EXPECT_NE(line_with(top, "\"away\":null"), "");
  ::pclose(top);  // which ends it: nobody reads its lines any more
}

TEST(Faults, AnAgentThatEndsWhileADriverHangsLeavesItToTheNext) {
  Node node;
  node.agent.start();
  AgentLease lease = AgentClient(node.agent.endpoint(), "").lease(all_gpus());
  slow_down(lease);
  node.fault(0, "hang:nvmlDeviceResetGpuLockedClocks=600");
  EXPECT_EQ(node.agent.kill(SIGTERM), 1);
  EXPECT_TRUE(node.at_default(1) && node.at_default(2) && node.at_default(3));
  EXPECT_FALSE(node.at_default(0));
  EXPECT_THAT(node.agent.log(), HasSubstr("event=left_unrestored gpu=0"));
  node.mend(0);
  node.agent.start();
  EXPECT_TRUE(node.become_default());
}

TEST(Faults, ALostGpuTakesItsLeaseWithIt) {
  Node node;
  node.agent.start();
  AgentClient client(node.agent.endpoint(), "");
  LeaseRequest pair;
  pair.gpus = {0, 1};
  LeaseRequest single;
  single.gpus = {2};
  AgentLease both = client.lease(pair);
  AgentLease other = client.lease(single);
  both.lock_sm_clocks(0, kSlow);
  both.lock_sm_clocks(1, kSlow);
  other.lock_sm_clocks(2, kSlow);
  node.fault(0, "lost");
  EXPECT_TRUE(wait_until([&] { return node.at_default(1); }));
  EXPECT_TRUE(wait_until([&] { return client.devices().gpus[0].health == GpuHealth::kLost; }));
  EXPECT_FALSE(node.at_default(2));
  EXPECT_EQ(other.lost(), "");
  node.mend(0);
  EXPECT_TRUE(wait_until([&] { return client.devices().gpus[0].health == GpuHealth::kWell; }));
  other.release();
  EXPECT_TRUE(node.become_default());
}

// --- Clients that do not behave ------------------------------------------------------------------------------------

class RawConnection {
 public:
  explicit RawConnection(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawConnection() {
    if (socket_ >= 0) ::close(socket_);
  }
  RawConnection(RawConnection&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), connected_(other.connected_) {}
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }
  void send(std::string_view bytes) const {
    ASSERT_EQ(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // All until the other end closes.
  [[nodiscard]] std::string read_all() const {
    std::string all;
    char block[4096];
    ssize_t count = 0;
    while ((count = ::read(socket_, block, sizeof block)) > 0) all.append(block, static_cast<std::size_t>(count));
    return all;
  }

 private:
  int socket_;
  bool connected_ = false;
};

TEST(Faults, TenThousandIdleConnectionsDoNotKeepTheAgentFromAnswering) {
  constexpr rlim_t kWanted = 10'000;
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < kWanted + 500) {
    GTEST_SKIP() << "this process may open " << limit.rlim_max << " files; the test needs " << kWanted + 500;
  }
  const rlimit raised{limit.rlim_max, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &raised), 0);
  Node node;
  node.agent.start();
  HolderProcess holder(node.agent.endpoint(), only_hold);
  ASSERT_TRUE(holder.holds());
  std::vector<RawConnection> idle;
  for (rlim_t i = 0; i < kWanted; ++i) {
    idle.emplace_back(node.agent.endpoint().socket_path);
    ASSERT_TRUE(idle.back().connected()) << "connection " << i;
  }
  const auto begin = std::chrono::steady_clock::now();
  HttpClient http(node.agent.endpoint());
  EXPECT_EQ(nlohmann::json::parse(http.request("GET", "/v1/leases").body)["leases"].size(), 1u)
      << "the holder's heartbeats got through";
  RecordProperty("seconds_to_answer", std::to_string(seconds_since(begin)));
  EXPECT_LT(seconds_since(begin), 10.0) << "milliseconds, and what else the machine does";
  EXPECT_TRUE(wait_until([&] {
    return http.request("GET", "/metrics").body.find("flyball_agent_connections_total 100") != std::string::npos;
  })) << http.request("GET", "/metrics").body;
  idle.clear();
  holder.kill();
  EXPECT_TRUE(node.become_default());
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

TEST(Faults, SlowAndBrokenClientsAreClosedAndOthersServed) {
  Node node;
  node.agent.start();
  const std::string path = node.agent.endpoint().socket_path;
  const RawConnection half(path);
  half.send("POST /v1/leases HTTP/1.1\r\nHost: x\r\nContent-Le");  // never ends
  for (const std::string_view bad :
       {"\r\n\r\n\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS"}) {
    const RawConnection connection(path);
    connection.send(bad);
    EXPECT_THAT(connection.read_all(), ::testing::StartsWith("HTTP/1.1 400 Bad Request\r\n")) << bad;
  }
  const RawConnection large(path);
  large.send("POST /v1/leases HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n");
  EXPECT_THAT(large.read_all(), HasSubstr("413 Content Too Large"));
  const RawConnection long_header(path);
  long_header.send("GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(20'000, 'a'));
  EXPECT_THAT(long_header.read_all(), HasSubstr("431 "));
  HolderProcess holder(node.agent.endpoint(), only_hold);
  EXPECT_TRUE(holder.holds());
  holder.kill();
  EXPECT_TRUE(node.become_default());
}

// --- zeusd's interface ---------------------------------------------------------------------------------------------

TEST(Faults, AProcessThatSetsClocksThroughZeusdsInterfaceLeavesNoneBehind) {
  Node node;
  node.agent.start();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    HttpClient http(node.agent.endpoint());
    const Response set =
        http.request("POST", "/gpu/set_gpu_locked_clocks?gpu_ids=0,2&min_clock_mhz=210&max_clock_mhz=1005&block=true");
    http.disconnect();  // unlike a lease of /v1, this one needs no connection
    char status = set.status == 200 ? '+' : '-';
    if (::write(ready[1], &status, 1) != 1) ::_exit(2);
    ::pause();
  }
  char status = 0;
  ASSERT_EQ(::read(ready[0], &status, 1), 1);
  EXPECT_EQ(status, '+');
  EXPECT_FALSE(node.at_default(0));
  EXPECT_TRUE(node.at_default(1));
  EXPECT_FALSE(node.at_default(2));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  EXPECT_TRUE(node.become_default());
}

}  // namespace
}  // namespace flyball
