// What the next agent brings back after a killed one, with the real program on simulated GPUs: what its lease has set,
// and nothing that somebody else has set since; and the caps of holders that were lost.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/wall_clock.h"
#include "client/agent_client.h"
#include "net/client.h"
#include "sim/simulated.h"
#include "support/agent_calls.h"
#include "support/agent_process.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using testing::AgentProcess;
using ::testing::HasSubstr;
using testing::in_other_process;
using testing::is_root;
using testing::kNobody;
using testing::kSlow;
using testing::kTimeScale;
using testing::metrics_at;
using ::testing::Not;
using testing::refusal_of;
using testing::reset_power_limit;
using testing::set_power_limit;
using testing::SimulatedMachine;
using testing::TempFolder;
using testing::wait_until;

// A machine of two A100s, which take 150 to 300 W, and an agent that is killed and started again.
class RestartTest : public ::testing::Test {
 protected:
  void start(const std::string& config = "") {
    std::ofstream(folder_ / "agent.toml") << config;
    if (!agent_) {
      agent_.emplace(machine_.name(), folder_.path(), std::vector<std::string>{"--config", folder_ / "agent.toml"});
    }
    agent_->start();
  }

  // As `nvidia-smi -pl` and `-lgc` do, at any time.
  void operator_sets(std::optional<Watts> power, std::optional<ClockBounds> clocks = {}, std::size_t gpu = 0) {
    BoardAccess access(*machine_, gpu);
    BoardSettings& asked = access.state().requested;
    if (power) asked.power_limit = *power;
    if (clocks) {
      asked.lock_minimum = clocks->minimum;
      asked.lock_maximum = clocks->maximum;
    }
    access.state().applied = asked;
    access.commit_change();
  }
  [[nodiscard]] Watts power(std::size_t gpu = 0) const { return machine_.state(gpu).requested.power_limit; }
  [[nodiscard]] Megahertz locked(std::size_t gpu = 0) const { return machine_.state(gpu).requested.lock_maximum; }

  [[nodiscard]] AgentLease lease() const {
    LeaseRequest request;
    request.gpus = {0};
    request.heartbeat_timeout = Seconds(30);
    return AgentClient(agent_->endpoint(), "").lease(request);
  }
  // As a lease sets these one after another, and its agent is killed.
  void killed_after(const std::vector<Watts>& limits, std::optional<ClockBounds> clocks = {}) {
    AgentLease held = lease();
    for (const Watts limit : limits) set_power_limit(held, 0, limit);
    if (clocks) held.lock_sm_clocks(0, *clocks);
    agent_->kill(SIGKILL);
    ASSERT_TRUE(std::filesystem::exists(entry()));
  }

  [[nodiscard]] std::string uuid(std::size_t gpu = 0) const { return machine_->spec(gpu).uuid; }
  [[nodiscard]] std::filesystem::path entry() const { return state_ / (uuid() + ".gpu.json"); }
  void write_entry(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(state_);
    std::ofstream(state_ / name) << text;
  }
  // Everything that was to be restored is.
  [[nodiscard]] bool becomes_done() const {
    return wait_until([&] {
      return std::distance(std::filesystem::directory_iterator(state_), {}) == 1;  // the lock
    });
  }

  // GPU 0 is at 180 W and kSlow. A lease's change waits for what the start has found to restore.
  void expect_untouched() {
    AgentLease held = lease();
    set_power_limit(held, 0, Watts(170));
    EXPECT_EQ(locked(), kSlow.maximum);
    held.release();
    EXPECT_EQ(power(), Watts(180));
  }

  TempFolder folder_;
  std::filesystem::path state_ = folder_ / "state";
  SimulatedMachine machine_{"a100", 2, kTimeScale};
  std::optional<AgentProcess> agent_;
};

TEST_F(RestartTest, LeavesAPowerLimitThatTheOperatorHasLoweredSince) {
  operator_sets(Watts(250));
  start();
  killed_after({Watts(200)});
  operator_sets(Watts(180));
  start();
  ASSERT_TRUE(becomes_done());
  EXPECT_EQ(power(), Watts(180));
  EXPECT_THAT(agent_->log(), HasSubstr("event=power_limit_left gpu=0 power_limit_w=180 set_by=others"));
}

TEST_F(RestartTest, LeavesAPowerLimitThatTheOperatorHasRaisedSince) {
  operator_sets(Watts(250));
  start();
  killed_after({Watts(200)});
  operator_sets(Watts(220));
  start();
  ASSERT_TRUE(becomes_done());
  EXPECT_EQ(power(), Watts(220));
}

// The board is away when its agent is killed, and back, at its standard limit, before the next one starts: nobody has
// set that.
TEST_F(RestartTest, BringsBackTheLimitOfABoardThatWasLostMeanwhile) {
  operator_sets(Watts(200));
  start();
  {
    AgentLease held = lease();
    set_power_limit(held, 0, Watts(160));
    ASSERT_TRUE(do_fault(*machine_, 0, *parse_fault("lost")));
    AgentClient client(agent_->endpoint(), "");
    ASSERT_TRUE(wait_until([&] { return client.devices().gpus[0].health == GpuHealth::kLost; }));
    ASSERT_TRUE(wait_until([&] {
      return !nlohmann::json::parse(std::ifstream(entry()), nullptr, false).contains("set_power_limits_w");
    })) << "the entry no longer tells whose the limit is";
    agent_->kill(SIGKILL);
  }
  take_faults_back(*machine_, 0);
  EXPECT_NE(power(), Watts(160));
  start();
  ASSERT_TRUE(becomes_done());
  EXPECT_EQ(power(), Watts(200));
}

// The same where no agent saw it: 300 W is what the board has of itself, and above what held before.
TEST_F(RestartTest, BringsBackTheLimitOfABoardThatWasResetWhileNoAgentRan) {
  operator_sets(Watts(200));
  start();
  killed_after({Watts(160)});
  operator_sets(Watts(300));
  start();
  ASSERT_TRUE(becomes_done());
  EXPECT_EQ(power(), Watts(200));
  EXPECT_THAT(agent_->log(), Not(HasSubstr("power_limit_left")));
}

// The operator's limit is one that the lease had set, too, but not last.
TEST_F(RestartTest, TellsTheLastLimitOfALeaseFromThoseBefore) {
  operator_sets(Watts(250));
  start();
  killed_after({Watts(180), Watts(200)});
  operator_sets(Watts(180));
  start();
  ASSERT_TRUE(becomes_done());
  EXPECT_EQ(power(), Watts(180));
}

TEST_F(RestartTest, BringsBackWhatStillIsTheLeases) {
  operator_sets(Watts(250));
  start();
  killed_after({Watts(180), Watts(199.9996)}, kSlow);  // the board rounds to milliwatts: it tells 200
  EXPECT_EQ(power(), Watts(200));
  start();
  ASSERT_TRUE(becomes_done());
  EXPECT_EQ(power(), Watts(250));
  EXPECT_EQ(locked(), Megahertz(0));
  EXPECT_THAT(agent_->log(), Not(HasSubstr("power_limit_left")));
}

// A lock cannot be read, so that a lease's own may still be there: no lock stays, and the limit is another matter.
TEST_F(RestartTest, LeavesNoLockEvenWhereTheLimitIsLeft) {
  operator_sets(Watts(250));
  start();
  killed_after({Watts(200)}, kSlow);
  operator_sets(Watts(180));
  start();
  ASSERT_TRUE(becomes_done());
  EXPECT_EQ(locked(), Megahertz(0));
  EXPECT_EQ(power(), Watts(180));
}

// The configuration is where an operator says what holds: the new agent's words go before those that the journal has of
// the old one's.
TEST_F(RestartTest, FollowsTheConfigurationOfNow) {
  operator_sets(Watts(250));
  start("[gpu.0.outside]\nsm_clocks = [210, 1200]\n");
  killed_after({Watts(200)}, kSlow);
  start("[gpu.0.outside]\nsm_clocks = [210, 900]\npower_limit = 160\n");
  ASSERT_TRUE(becomes_done());
  EXPECT_EQ(locked(), Megahertz(900));
  EXPECT_EQ(power(), Watts(160));
}

// With the machine's restart the driver has forgotten all locks and limits: what stands is set by who starts it.
TEST_F(RestartTest, WritesNothingAfterTheMachineWasRestarted) {
  operator_sets(Watts(250));
  start();
  killed_after({Watts(200)}, kSlow);
  nlohmann::json json = nlohmann::json::parse(std::ifstream(entry()));
  ASSERT_EQ(json["boot"].get<std::string>().size(), 36u) << "as /proc/sys/kernel/random/boot_id has it";
  EXPECT_EQ(json["set_power_limits_w"], nlohmann::json::parse("[200.0]"));
  EXPECT_GT(json["booted_at_s"].get<std::int64_t>(), 1'600'000'000) << "as /proc/stat has it";
  json["booted_at_s"] = json["booted_at_s"].get<std::int64_t>() - 3600;
  json["boot"] = "00000000-0000-0000-0000-000000000000";
  write_entry(uuid() + ".gpu.json", json.dump());
  start();
  ASSERT_TRUE(becomes_done());
  EXPECT_THAT(agent_->log(), HasSubstr("event=journal_of_another_boot uuid=" + uuid()));
  EXPECT_THAT(metrics_at(agent_->endpoint()), HasSubstr("flyball_agent_restores_total 0\n"));
  EXPECT_EQ(power(), Watts(200));
  EXPECT_EQ(locked(), Megahertz(1005));
}

// Of agents that told neither boot nor limit: what it says held before is brought back, whatever stands.
TEST_F(RestartTest, AnOlderAgentsEntryIsFollowedToTheLetter) {
  operator_sets(Watts(180), kSlow);
  write_entry(
      uuid() + ".gpu.json",
      R"({"uuid":")" + uuid() +
          R"(","knobs":["sm_clocks","power_limit"],"holder":"alice",)"
          R"("before":{"sm_clocks_mhz":{"minimum":210,"maximum":1200},"memory_clocks_mhz":null,"power_limit_w":250}})");
  start();
  ASSERT_TRUE(becomes_done());
  EXPECT_EQ(power(), Watts(250));
  EXPECT_EQ(locked(), Megahertz(1200));
}

// The lease's end, too, leaves what is not the lease's, and a limit that was lowered meanwhile is what a reset brings
// back.
TEST_F(RestartTest, ALeaseLeavesWhatIsSetUnderIt) {
  operator_sets(Watts(250));
  start();
  {
    AgentLease held = lease();
    set_power_limit(held, 0, Watts(200));
    operator_sets(Watts(180));
    held.release();
    EXPECT_EQ(power(), Watts(180));
  }
  AgentLease held = lease();
  set_power_limit(held, 0, Watts(170));
  operator_sets(Watts(160));
  set_power_limit(held, 0, Watts(155));
  reset_power_limit(held, 0);
  EXPECT_EQ(power(), Watts(160));
  held.release();
  EXPECT_EQ(power(), Watts(160));
}

// --- A journal that cannot be read ---------------------------------------------------------------------------------

TEST_F(RestartTest, ADamagedFileRestoresTheGpuInItsName) {
  for (const std::size_t gpu : {0u, 1u}) operator_sets(Watts(180), kSlow, gpu);
  write_entry(uuid(1) + ".gpu.json", R"({"uuid": "GPU-)");
  start();
  ASSERT_TRUE(becomes_done());
  EXPECT_EQ(power(1), Watts(300)) << "the board's default: nothing else is known";
  EXPECT_EQ(locked(1), Megahertz(0));
  expect_untouched();
  EXPECT_THAT(agent_->log(), HasSubstr("event=journal_damaged file=" + uuid(1) + ".gpu.json"));
}

TEST_F(RestartTest, ADamagedFileWhoseNameSaysNothingRestoresEveryGpu) {
  for (const std::size_t gpu : {0u, 1u}) operator_sets(Watts(180), kSlow, gpu);
  write_entry("gpu0.gpu.json", R"({"uuid": "GPU-)");
  start();
  ASSERT_TRUE(becomes_done());
  for (const std::size_t gpu : {0u, 1u}) {
    EXPECT_EQ(power(gpu), Watts(300));
    EXPECT_EQ(locked(gpu), Megahertz(0));
  }
}

// Its GPU may come yet; it is none of those that are there.
TEST_F(RestartTest, ADamagedFileOfAnAbsentGpuIsKept) {
  const std::string name = "GPU-5d0c19e2-0000-4000-8000-000000000000.gpu.json";
  operator_sets(Watts(180), kSlow);
  write_entry(name, "");
  start();
  EXPECT_THAT(agent_->log(), HasSubstr("event=journal_names_absent_gpu file=" + name));
  expect_untouched();
  EXPECT_TRUE(std::filesystem::exists(state_ / name));
}

// --- Caps ----------------------------------------------------------------------------------------------------------

// A lease that states 180 W for the loss of its holder, on a board at the operator's 250 W. Everybody may leave a cap.
class CapTest : public RestartTest {
 protected:
  CapTest() {
    operator_sets(Watts(250));
    start();
  }
  void start() { RestartTest::start("[access]\nslow_others = true\n"); }

  [[nodiscard]] AgentClient client() const { return AgentClient(agent_->endpoint(), ""); }
  [[nodiscard]] AgentLease lease_that_states(Watts lost_limit) const {
    LeaseRequest request;
    request.gpus = {0};
    request.heartbeat_timeout = Seconds(30);
    request.lost_power_limit = lost_limit;
    return client().lease(request);
  }
  // Its connection ends, and nobody has released it.
  void lose_holder(Watts lost_limit = Watts(180)) {
    { const AgentLease held = lease_that_states(lost_limit); }
    ASSERT_TRUE(becomes_capped(lost_limit));
  }
  [[nodiscard]] GpuStatus gpu() const { return client().devices().gpus[0]; }
  [[nodiscard]] bool becomes_capped(Watts limit) const {
    return wait_until([&] {
      const GpuStatus now = gpu();
      return !now.lease && now.health == GpuHealth::kWell && power() == limit && now.cap &&
             now.cap->power_limit == limit;
    });
  }
  // At this limit, without a cap, and forgotten by the journal.
  [[nodiscard]] bool becomes_free(Watts limit) const {
    return wait_until([&] { return !gpu().cap && power() == limit && !std::filesystem::exists(entry()); });
  }
};

TEST_F(CapTest, StaysWhenTheHolderIsLost) {
  {
    AgentLease held = lease_that_states(Watts(180));
    EXPECT_EQ(held.info().settings.at(0).lost_power_limit, Watts(180));
    held.lock_sm_clocks(0, kSlow);
    set_power_limit(held, 0, Watts(200));
    EXPECT_FALSE(gpu().cap.has_value());
  }
  ASSERT_TRUE(becomes_capped(Watts(180)));
  EXPECT_EQ(locked(), Megahertz(0)) << "clocks are as before the lease";
  EXPECT_EQ(client().devices().gpus[1].power_limit, Watts(300)) << "the lease is not of GPU 1";
  EXPECT_THAT(gpu().cap->holder, HasSubstr("pid " + std::to_string(::getpid())));
  EXPECT_NEAR(gpu().cap->since.value(), now_seconds(), 600) << "Unix time";
  EXPECT_THAT(metrics_at(agent_->endpoint()), HasSubstr("flyball_gpu_cap_watts{gpu=\"0\",uuid=\"" + uuid()));
  EXPECT_THAT(agent_->log(), HasSubstr("event=gpu_capped gpu=0"));
}

TEST_F(CapTest, StaysWhenTheHolderIsSilent) {
  HttpClient http(agent_->endpoint());
  const std::string request = R"({"gpus": [0], "heartbeat_timeout_s": 0.1, "lost_power_limit_w": 180})";
  EXPECT_EQ(http.request("POST", "/v1/leases", request).status, 201u);
  EXPECT_TRUE(becomes_capped(Watts(180)));
}

TEST_F(CapTest, IsNotLeftByAReleasedLease) {
  AgentLease held = lease_that_states(Watts(180));
  set_power_limit(held, 0, Watts(200));
  held.release();
  EXPECT_TRUE(becomes_free(Watts(250)));
}

// A budget changes while its controller holds the lease.
TEST_F(CapTest, IsTheLastThatTheLeaseHasStated) {
  SettingsChange change;
  {
    AgentLease held = lease_that_states(Watts(180));
    change.lost_power_limit = Watts(160);
    held.change(0, change);
    EXPECT_EQ(power(), Watts(250)) << "it holds only afterwards";
  }
  ASSERT_TRUE(becomes_capped(Watts(160)));
  {
    AgentLease held = lease_that_states(Watts(170));
    change.lost_power_limit = std::optional<Watts>();
    held.change(0, change);
  }
  EXPECT_TRUE(becomes_free(Watts(250)));
}

TEST_F(CapTest, IsSetByTheStartAfterAKilledAgentAndKeptByTheNext) {
  {
    AgentLease held = lease_that_states(Watts(180));
    held.lock_sm_clocks(0, kSlow);
    agent_->kill(SIGKILL);
  }
  EXPECT_EQ(power(), Watts(250));
  start();
  ASSERT_TRUE(becomes_capped(Watts(180)));
  EXPECT_EQ(locked(), Megahertz(0));
  const Cap cap = *gpu().cap;
  for (const int signal : {SIGKILL, SIGTERM}) {
    agent_->kill(signal);
    EXPECT_EQ(power(), Watts(180));
    start();
    ASSERT_TRUE(becomes_capped(Watts(180)));
    EXPECT_EQ(*gpu().cap, cap) << "whose it is and since when";
  }
  EXPECT_EQ(client().lift_cap(0), cap);
  EXPECT_TRUE(becomes_free(Watts(250)));
}

// Its holder is not lost, but may be before there is an agent again.
TEST_F(CapTest, IsLeftByAnAgentThatIsStopped) {
  const AgentLease held = lease_that_states(Watts(180));
  EXPECT_EQ(agent_->kill(SIGTERM), 0);
  EXPECT_EQ(power(), Watts(180));
}

TEST_F(CapTest, OutlastsALeaseThatSetsClocksAlone) {
  lose_holder();
  AgentLease held = lease();
  held.lock_sm_clocks(0, kSlow);
  EXPECT_TRUE(gpu().cap && gpu().lease);
  held.release();
  EXPECT_EQ(locked(), Megahertz(0));
  EXPECT_TRUE(becomes_capped(Watts(180)));
  {
    AgentLease lost = lease();
    lost.lock_sm_clocks(0, kSlow);
    agent_->kill(SIGKILL);
  }
  start();
  EXPECT_TRUE(becomes_capped(Watts(180)));
  EXPECT_EQ(locked(), Megahertz(0));
}

TEST_F(CapTest, EndsWithALimitOfTheNextLease) {
  lose_holder();
  AgentLease held = lease();
  set_power_limit(held, 0, Watts(200));
  EXPECT_FALSE(gpu().cap.has_value());
  held.release();
  EXPECT_TRUE(becomes_free(Watts(250)));
  lose_holder();
  AgentLease other = lease();
  reset_power_limit(other, 0);
  EXPECT_EQ(power(), Watts(250));
  EXPECT_FALSE(gpu().cap.has_value());
}

// A controller that comes again takes its GPUs over, without a moment at their full power.
TEST_F(CapTest, HoldsUntilALeaseThatStatesAnotherSetsALimitOrEnds) {
  lose_holder();
  {
    const AgentLease held = lease_that_states(Watts(160));
    EXPECT_EQ(power(), Watts(180));
  }
  ASSERT_TRUE(becomes_capped(Watts(160)));
  {
    AgentLease held = lease_that_states(Watts(170));
    set_power_limit(held, 0, Watts(200));
    agent_->kill(SIGKILL);
  }
  start();
  ASSERT_TRUE(becomes_capped(Watts(170)));
  lease_that_states(Watts(170)).release();
  EXPECT_TRUE(becomes_free(Watts(250)));
}

TEST_F(CapTest, IsLiftedByAWord) {
  lose_holder();
  EXPECT_EQ(client().lift_cap(0).power_limit, Watts(180));
  EXPECT_TRUE(becomes_free(Watts(250)));
  try {
    client().lift_cap(0);
    ADD_FAILURE() << "there was a cap";
  } catch (const AgentRefusal& refusal) {
    EXPECT_EQ(refusal.status(), 404u);
  }
  lose_holder();
  AgentLease held = lease();
  held.lock_sm_clocks(0, kSlow);
  client().lift_cap(0);
  EXPECT_EQ(power(), Watts(250)) << "under a lease, too";
  EXPECT_EQ(locked(), kSlow.maximum);
  held.release();
  EXPECT_TRUE(becomes_free(Watts(250)));
}

// The board takes 150 to 300 W.
TEST_F(CapTest, ThatTheBoardDoesNotTakeIsRefusedAndChangesNothing) {
  lose_holder();
  for (const Watts limit : {Watts(149), Watts(301)}) {
    try {
      (void)lease_that_states(limit);
      ADD_FAILURE() << "it was granted";
    } catch (const AgentRefusal& refusal) {
      EXPECT_EQ(refusal.status(), 422u);
      EXPECT_THAT(refusal.what(), HasSubstr("takes power limits from 150 to 300 W, and lost_power_limit_w is"));
    }
    EXPECT_TRUE(becomes_capped(Watts(180))) << "the earlier cap";
  }
}

TEST_F(CapTest, RaisesNoLimit) {
  operator_sets(Watts(170));
  { const AgentLease held = lease_that_states(Watts(180)); }
  EXPECT_TRUE(becomes_free(Watts(170)));
}

// During the lease an operator says what is to hold without it, which is no reason to leave a GPU above its cap; what
// the operator says later ends the cap.
TEST_F(CapTest, ComesBeforeALimitOfTheOperatorsButNotBeforeALaterOne) {
  {
    AgentLease held = lease_that_states(Watts(180));
    set_power_limit(held, 0, Watts(200));
    operator_sets(Watts(220));
  }
  ASSERT_TRUE(becomes_capped(Watts(180)));
  client().lift_cap(0);
  EXPECT_TRUE(becomes_free(Watts(220)));
  for (const Watts later : {Watts(160), Watts(210)}) {
    operator_sets(Watts(250));
    lose_holder();
    agent_->kill(SIGKILL);
    operator_sets(later);
    start();
    ASSERT_TRUE(becomes_free(later)) << agent_->log();
  }
}

TEST_F(CapTest, IsSetOnABoardThatComesBack) {
  {
    const AgentLease held = lease_that_states(Watts(180));
    ASSERT_TRUE(do_fault(*machine_, 0, *parse_fault("lost")));
    ASSERT_TRUE(wait_until([&] { return gpu().health == GpuHealth::kLost; }));
  }
  take_faults_back(*machine_, 0);
  EXPECT_NE(power(), Watts(180));
  ASSERT_TRUE(becomes_capped(Watts(180)));
  ASSERT_TRUE(do_fault(*machine_, 0, *parse_fault("lost")));
  agent_->kill(SIGKILL);
  start();
  EXPECT_EQ(gpu().health, GpuHealth::kLost);
  take_faults_back(*machine_, 0);
  EXPECT_TRUE(becomes_capped(Watts(180))) << agent_->log();
}

// Power comes back to the nodes, and perhaps not to their controller. What the start-up has set is what held before.
TEST_F(CapTest, IsSetAgainAfterTheMachineWasRestarted) {
  lose_holder();
  agent_->kill(SIGKILL);
  for (const bool was_leased : {false, true}) {
    nlohmann::json json = nlohmann::json::parse(std::ifstream(entry()));
    json["boot"] = "00000000-0000-0000-0000-000000000000";
    json["booted_at_s"] = json["booted_at_s"].get<std::int64_t>() - 3600;
    if (was_leased) {
      json.erase("cap");
      json["lost_power_limit_w"] = 180;
      json["knobs"] = {"sm_clocks", "power_limit"};
    }
    write_entry(uuid() + ".gpu.json", json.dump());
    operator_sets(Watts(290), kSlow);
    start();
    ASSERT_TRUE(becomes_capped(Watts(180)));
    EXPECT_EQ(locked(), kSlow.maximum) << "no lock of before the restart is left to undo";
    if (!was_leased) agent_->kill(SIGKILL);
  }
  client().lift_cap(0);
  EXPECT_TRUE(becomes_free(Watts(290)));
}

TEST_F(CapTest, IsSetThoughTheDiskIsFull) {
  agent_->kill(SIGTERM);
  agent_->start([] { ::dup2(::open("/dev/null", O_WRONLY), STDERR_FILENO); });
  {
    const AgentLease held = lease_that_states(Watts(180));
    const rlimit nothing{0, 0};
    ASSERT_EQ(::prlimit(agent_->pid(), RLIMIT_FSIZE, &nothing, nullptr), 0);
  }
  EXPECT_TRUE(wait_until([&] { return power() == Watts(180); }));
  agent_->kill(SIGKILL);
  start();
  EXPECT_TRUE(becomes_capped(Watts(180))) << agent_->log();
}

// Whoever may not leave a cap may not pass one: for others it is what held before.
TEST_F(CapTest, IsNotForOrdinaryUsers) {
  if (!is_root()) GTEST_SKIP() << "only root can be another user";
  agent_->kill(SIGTERM);
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  RestartTest::start();
  lose_holder();
  const auto as_nobody = [&] {
    const auto refused = [](const auto& action) { return refusal_of(action).status == 403; };
    if (!refused([&] { (void)lease_that_states(Watts(170)); })) return 2;
    if (!refused([&] { client().lift_cap(0); })) return 3;
    AgentLease held = lease();
    SettingsChange change;
    change.lost_power_limit = Watts(170);
    if (!refused([&] { held.change(0, change); })) return 4;
    if (!refused([&] { set_power_limit(held, 0, Watts(200)); })) return 5;
    set_power_limit(held, 0, Watts(160));
    reset_power_limit(held, 0);
    if (power() != Watts(180)) return 6;
    change.lost_power_limit = std::optional<Watts>();
    held.change(0, change);
    set_power_limit(held, 0, Watts(160));
    ::_exit(0);  // without a release, as a lost holder
  };
  EXPECT_EQ(in_other_process(as_nobody, kNobody), 0);
  EXPECT_TRUE(becomes_capped(Watts(180)));
}

}  // namespace
}  // namespace flyball
