// What is the operator's and other users', with the real program on simulated GPUs: leases give it back as it was, pass
// no bounds of it, and are changed by nobody but the process that took them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

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
using testing::leases_at;
using testing::metrics_at;
using testing::Refusal;
using testing::refusal_of;
using testing::reset_power_limit;
using testing::set_power_limit;
using testing::SimulatedMachine;
using testing::TempFolder;
using testing::wait_until;

// A machine of two A100s (default power limit 300 W or more) and an agent with the words of its configuration.
class OperatorTest : public ::testing::Test {
 protected:
  void start(const std::string& config = "") {
    std::ofstream(folder_ / "agent.toml") << config;
    std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
    agent_.emplace(machine_.name(), folder_.path(), std::vector<std::string>{"--config", folder_ / "agent.toml"});
    agent_->start();
  }

  // As `nvidia-smi -pl` and `-lgc` leave a board.
  void operator_sets(Watts power, std::optional<ClockBounds> clocks = {}) {
    BoardAccess access(*machine_, 0);
    BoardSettings& asked = access.state().requested;
    asked.power_limit = power;
    if (clocks) {
      asked.lock_minimum = clocks->minimum;
      asked.lock_maximum = clocks->maximum;
    }
    access.state().applied = asked;
    access.commit_change();
  }
  [[nodiscard]] BoardSettings settings() const { return machine_.state().requested; }
  [[nodiscard]] bool power_becomes(Watts power) const {
    return wait_until([&] { return settings().power_limit == power; });
  }

  [[nodiscard]] AgentLease lease(bool shared = false) const {
    LeaseRequest request;
    request.gpus = {0};
    request.heartbeat_timeout = Seconds(30);
    request.shared = shared;
    return AgentClient(agent_->endpoint(), "").lease(request);
  }

  TempFolder folder_;
  SimulatedMachine machine_{"a100", 2, kTimeScale};
  std::optional<AgentProcess> agent_;
};

TEST_F(OperatorTest, GetsThePowerLimitBackThatALeaseHasLowered) {
  operator_sets(Watts(200));
  start();
  AgentLease held = lease();
  set_power_limit(held, 0, Watts(150));
  EXPECT_EQ(settings().power_limit, Watts(150));
  reset_power_limit(held, 0);
  EXPECT_EQ(settings().power_limit, Watts(200)) << "a reset, too, brings back what held before";
  set_power_limit(held, 0, Watts(160));
  held.release();
  EXPECT_EQ(settings().power_limit, Watts(200));
}

TEST_F(OperatorTest, GetsThePowerLimitBackFromTheStartAfterAKilledAgent) {
  operator_sets(Watts(200));
  start();
  AgentLease held = lease();
  set_power_limit(held, 0, Watts(150));
  agent_->kill(SIGKILL);
  EXPECT_EQ(settings().power_limit, Watts(150));
  agent_->start();
  EXPECT_TRUE(power_becomes(Watts(200)));
}

// The journal of an agent that brought back defaults says nothing of what held before: then it is the board's default.
TEST_F(OperatorTest, AnOlderAgentsJournalBringsBackDefaults) {
  operator_sets(Watts(150), kSlow);
  const std::string uuid = machine_->spec(0).uuid;
  std::filesystem::create_directories(folder_ / "state");
  std::ofstream(folder_ / ("state/" + uuid + ".gpu.json"))
      << R"({"uuid":")" << uuid << R"(","knobs":["sm_clocks","power_limit"],"holder":"alice"})";
  start();
  EXPECT_TRUE(power_becomes(machine_->spec(0).limit));
  EXPECT_TRUE(wait_until([&] { return settings().lock_maximum == Megahertz(0); }));
}

// Locked clocks can be set and not read: the configuration says what holds while nobody has a lease.
TEST_F(OperatorTest, GetsTheClocksBackThatItsConfigurationNames) {
  operator_sets(Watts(300), ClockBounds{Megahertz(210), Megahertz(1200)});
  start("[gpu.0.outside]\nsm_clocks = [210, 1200]\n");
  AgentLease held = lease();
  held.lock_sm_clocks(0, kSlow);
  EXPECT_EQ(settings().lock_maximum, Megahertz(1005));
  held.reset_sm_clocks(0);
  EXPECT_EQ(settings().lock_maximum, Megahertz(1200));
  EXPECT_EQ(settings().lock_minimum, Megahertz(210));
  held.lock_sm_clocks(0, kSlow);
  agent_->kill(SIGKILL);
  agent_->start();
  EXPECT_TRUE(wait_until([&] { return settings().lock_maximum == Megahertz(1200); })) << "from the journal, too";
}

// No lease passes the bounds, root's neither, and the list of clocks that a lease may set ends at them.
TEST_F(OperatorTest, SetsBoundsThatNoLeasePasses) {
  start("[gpu.all]\npower_limit = [150, 250]\nsm_clocks = [600, 1200]\n");
  AgentLease held = lease();
  const Refusal high = refusal_of([&] { set_power_limit(held, 0, Watts(251)); });
  EXPECT_EQ(high.status, 403u);
  EXPECT_THAT(high.words, HasSubstr("from 150 to 250 W, not 251 W"));
  EXPECT_EQ(refusal_of([&] { set_power_limit(held, 0, Watts(149)); }).status, 403u);
  const Refusal fast = refusal_of([&] { held.lock_sm_clocks(0, {Megahertz(210), Megahertz(1215)}); });
  EXPECT_THAT(fast.words, HasSubstr("from 600 to 1200 MHz, not 1215 MHz"));
  EXPECT_EQ(refusal_of([&] { held.lock_sm_clocks(0, {Megahertz(210), Megahertz(585)}); }).status, 403u);
  held.lock_sm_clocks(0, {Megahertz(210), Megahertz(600)});
  set_power_limit(held, 0, Watts(250));
  AgentClient client(agent_->endpoint(), "");
  const auto clocks = client.clocks(0).sm_clocks;
  ASSERT_FALSE(clocks.empty());
  EXPECT_EQ(clocks.front(), Megahertz(1200));
  EXPECT_EQ(clocks.back(), Megahertz(600));
  HttpClient zeus(agent_->endpoint());
  const std::string clock = "min_clock_mhz=1410&max_clock_mhz=4294967295";  // "whatever the power limit allows"
  EXPECT_EQ(zeus.request("POST", "/gpu/set_gpu_locked_clocks?gpu_ids=1&block=true&" + clock).status, 403u);
}

// The board takes 150 to 300 W, the configuration 160 to 280, and the operator's 250 is what no user raises.
TEST_F(OperatorTest, IsToldWhatTheCallerMaySet) {
  if (!is_root()) GTEST_SKIP() << "only root can be another user";
  operator_sets(Watts(250));
  start("[gpu.all]\npower_limit = [160, 280]\n");
  const auto expect_range = [&](int minimum, int maximum) {
    HttpClient http(agent_->endpoint());
    const auto own = nlohmann::json::parse(http.request("GET", "/v1/gpus/0/clocks").body)["power_limit_w"];
    EXPECT_EQ(own["minimum"], minimum);
    EXPECT_EQ(own["maximum"], maximum);
    const std::string zeus = http.request("GET", "/gpu/get_power_limit_constraints?gpu_ids=0").body;
    EXPECT_EQ(zeus,
              fmt::format(R"({{"0":{{"min_power_limit_mw":{}000,"max_power_limit_mw":{}000}}}})", minimum, maximum));
    const auto status_of = [&](const char* limit) {
      return http.request("POST", fmt::format("/gpu/set_power_limit?gpu_ids=0&block=true&power_limit_mw={}", limit))
          .status;
    };
    EXPECT_EQ(status_of(fmt::format("{}002", maximum).c_str()), 403u);
    EXPECT_GE(status_of(fmt::format("{}999", minimum - 1).c_str()), 400u) << "by the configuration, or the board";
    EXPECT_EQ(status_of(fmt::format("{}000", minimum).c_str()), 200u);
    EXPECT_EQ(nlohmann::json::parse(http.request("GET", "/v1/gpus/0/clocks").body)["power_limit_w"]["maximum"], maximum)
        << "what this process has set itself is no cap";
    EXPECT_EQ(status_of(fmt::format("{}000", maximum).c_str()), 200u);
    return ::testing::Test::HasFailure() ? 1 : 0;
  };
  EXPECT_EQ(expect_range(160, 280), 0) << "root";
  agent_->kill(SIGTERM);
  start("[gpu.all]\npower_limit = [160, 280]\n");
  EXPECT_EQ(in_other_process([&] { return expect_range(160, 250); }, kNobody), 0);
  EXPECT_TRUE(power_becomes(Watts(250)));
  agent_->kill(SIGTERM);
  start();
  EXPECT_EQ(in_other_process([&] { return expect_range(150, 250); }, kNobody), 0);
}

TEST_F(OperatorTest, LeavesAPowerLimitThatNoUserRaises) {
  if (!is_root()) GTEST_SKIP() << "only root can be another user";
  operator_sets(Watts(200));
  start();
  EXPECT_EQ(in_other_process(
                [&] {
                  AgentLease held = lease();
                  set_power_limit(held, 0, Watts(150));
                  set_power_limit(held, 0, Watts(200));
                  const Refusal refusal = refusal_of([&] { set_power_limit(held, 0, Watts(201)); });
                  EXPECT_THAT(refusal.words, HasSubstr("was 200 W before this lease, and a lease does not raise it"));
                  return static_cast<int>(refusal.status % 256) + (::testing::Test::HasFailure() ? 1 : 0);
                },
                kNobody),
            403 % 256);
  EXPECT_TRUE(power_becomes(Watts(200)));
  AgentLease roots = lease();
  set_power_limit(roots, 0, Watts(250));
  EXPECT_EQ(settings().power_limit, Watts(250)) << "root may";
  roots.release();
  EXPECT_EQ(settings().power_limit, Watts(200));
}

TEST_F(OperatorTest, ALeaseIsTheProcesssThatTookIt) {
  start();
  const auto interfere = [&](const std::string& id) {
    HttpClient http(agent_->endpoint());
    const unsigned beat = http.request("POST", "/v1/leases/" + id + "/heartbeat").status;
    const unsigned change = http.request("PATCH", "/v1/leases/" + id + "/gpus/0", R"({"power_limit_w": 150})").status;
    const unsigned zeus =
        http.request("POST", "/gpu/set_power_limit?gpu_ids=0&power_limit_mw=150000&block=true").status;
    return beat == 403 && change == 403 && zeus == 409 ? 0 : beat == 200 && change == 200 && zeus == 200 ? 1 : 2;
  };
  {
    AgentLease held = lease();
    EXPECT_EQ(in_other_process([&] { return interfere(held.info().id); }), 0);
    EXPECT_EQ(interfere(held.info().id), 1) << "the process itself, on another connection";
  }
  ASSERT_TRUE(wait_until([&] { return leases_at(agent_->endpoint()).empty(); }));
  AgentLease shared = lease(true);
  EXPECT_TRUE(shared.info().shared);
  EXPECT_EQ(in_other_process([&] { return interfere(shared.info().id); }), 1);
}

TEST_F(OperatorTest, ALeasesIdentifierIsNotShownToOthers) {
  if (!is_root()) GTEST_SKIP() << "only root can be another user";
  start();
  AgentLease held = lease();
  EXPECT_EQ(leases_at(agent_->endpoint()).at(0).id, held.info().id);
  EXPECT_EQ(
      in_other_process(
          [&] {
            AgentClient other(agent_->endpoint(), "");
            return leases_at(agent_->endpoint()).at(0).id.empty() && other.devices().gpus[0].lease->id.empty() ? 0 : 1;
          },
          kNobody),
      0);
}

// Root computes on the board (it waits there with a kernel); nobody may not set it, and may set the other one.
TEST_F(OperatorTest, NobodySetsAGpuOnWhichAnotherUsersProcessRuns) {
  if (!is_root()) GTEST_SKIP() << "only root can be another user";
  start();
  ASSERT_TRUE(change_blocking(*machine_, 0, 1));
  const auto try_to_set = [&] {
    return in_other_process(
        [&] {
          AgentLease held = lease();
          const Refusal refusal = refusal_of([&] { held.lock_sm_clocks(0, kSlow); });
          EXPECT_THAT(refusal.words, HasSubstr(fmt::format("(uid 0, pid {}), which is another user's", ::getppid())));
          held.reset_sm_clocks(0);  // slows nobody
          return refusal.status == 403 && !::testing::Test::HasFailure() ? 0 : refusal.status == 0 ? 1 : 2;
        },
        kNobody);
  };
  EXPECT_EQ(try_to_set(), 0);
  EXPECT_EQ(settings().lock_maximum, Megahertz(0));
  lease().lock_sm_clocks(0, kSlow);  // root may
  agent_->kill(SIGTERM);
  start("[access]\nslow_others = true\n");
  EXPECT_EQ(in_other_process(
                [&] {
                  AgentLease held = lease();
                  held.lock_sm_clocks(0, kSlow);
                  return settings().lock_maximum == Megahertz(1005) ? 0 : 1;
                },
                kNobody),
            0);
}

// Who comes to a GPU that is slowed already gets it back at once.
TEST_F(OperatorTest, ALeaseEndsWhenAnotherUsersProcessComesToItsGpu) {
  if (!is_root()) GTEST_SKIP() << "only root can be another user";
  start();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    if (::setuid(kNobody) != 0) ::_exit(98);
    try {
      AgentLease held = lease();
      held.lock_sm_clocks(0, kSlow);
      if (::write(ready[1], "!", 1) != 1) ::_exit(97);
      ::_exit(wait_until([&] { return refusal_of([&] { held.lock_sm_clocks(0, kSlow); }).status == 410; }) ? 0 : 1);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      ::_exit(99);
    }
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(settings().lock_maximum, Megahertz(1005));
  ASSERT_TRUE(change_blocking(*machine_, 0, 1));
  EXPECT_TRUE(wait_until([&] { return settings().lock_maximum == Megahertz(0); }));
  int status = 0;
  ::waitpid(holder, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_THAT(metrics_at(agent_->endpoint()), HasSubstr("flyball_agent_leases_ended_total{why=\"other_user\"} 1\n"));
}

// What is refused, and a reset of what the lease never set, touch nothing; its end brings back only what it touched.
TEST_F(OperatorTest, KeepsALockThatALeaseWasRefusedToChange) {
  if (!is_root()) GTEST_SKIP() << "only root can be another user";
  operator_sets(Watts(200), ClockBounds{Megahertz(900), Megahertz(900)});
  start();
  EXPECT_EQ(in_other_process(
                [&] {
                  AgentLease held = lease();
                  SettingsChange change;
                  change.sm_clocks = kSlow;
                  change.power_limit = Watts(240);
                  const bool refused = refusal_of([&] { held.change(0, change); }).status == 403;
                  held.reset_sm_clocks(0);
                  held.release();
                  return refused ? 0 : 1;
                },
                kNobody),
            0);
  EXPECT_EQ(settings().lock_maximum, Megahertz(900));
  EXPECT_EQ(settings().power_limit, Watts(200));
}

// The board takes 150 W at least: the word of the configuration would be refused at the lease's end, and what then held
// would be the default, 300 W.
TEST_F(OperatorTest, AnOutsideLimitThatTheBoardDoesNotTakeIsItsLowest) {
  operator_sets(Watts(180));
  start("[gpu.0.outside]\npower_limit = 100\n");
  AgentLease held = lease();
  set_power_limit(held, 0, Watts(160));
  held.release();
  EXPECT_EQ(settings().power_limit, Watts(150));
}

TEST_F(OperatorTest, ZeusdsRoutesPassNoChecks) {
  start();
  HttpClient http(agent_->endpoint());
  const Response granted =
      http.request("POST", "/v1/leases", R"({"gpus": [0], "may_set": ["sm_clocks"], "heartbeat_timeout_s": 30})");
  ASSERT_EQ(granted.status, 201u) << granted.body;
  const std::string of_gpu = "?gpu_ids=0&block=true&";
  EXPECT_EQ(http.request("POST", "/gpu/set_power_limit" + of_gpu + "power_limit_mw=160000").status, 403u);
  EXPECT_EQ(http.request("POST", "/gpu/set_power_limit" + of_gpu + "power_limit_mw=0").status, 400u);
  const std::string clocks = "/gpu/set_gpu_locked_clocks" + of_gpu;
  EXPECT_EQ(http.request("POST", clocks + "min_clock_mhz=1200&max_clock_mhz=900").status, 400u);
  EXPECT_EQ(http.request("POST", clocks + "min_clock_mhz=0&max_clock_mhz=900").status, 400u);
  EXPECT_EQ(http.request("POST", clocks + "min_clock_mhz=900&max_clock_mhz=900").status, 200u);
}

TEST_F(OperatorTest, OnlyRootSwitchesPersistenceModeOff) {
  if (!is_root()) GTEST_SKIP() << "only root can be another user";
  start();
  const auto answer = [&](const char* enabled) {
    HttpClient http(agent_->endpoint());
    return static_cast<int>(
        http.request("POST", fmt::format("/gpu/set_persistence_mode?gpu_ids=0&block=true&enabled={}", enabled)).status -
        200);
  };
  EXPECT_EQ(in_other_process([&] { return answer("false"); }, kNobody), 203);
  EXPECT_EQ(in_other_process([&] { return answer("true"); }, kNobody), 0);
  EXPECT_EQ(answer("false"), 0);
}

// Its second write was what lost sight of it, when it ended at the right moment; here at forty moments.
TEST_F(OperatorTest, TheClockOfAProcessThatWritesOnceMoreAndEndsIsGivenBack) {
  start();
  const std::string lock = "/gpu/set_gpu_locked_clocks?gpu_ids=0&min_clock_mhz=210&max_clock_mhz=615&block=";
  for (int round = 0; round < 40; ++round) {
    EXPECT_EQ(in_other_process([&] {
                HttpClient http(agent_->endpoint());
                if (http.request("POST", lock + "true").status != 200) return 1;
                for (int i = 0; i < round; ++i) (void)http.request("POST", lock + "false");
                return 0;
              }),
              0);
    ASSERT_TRUE(wait_until([&] { return settings().lock_maximum == Megahertz(0); })) << round;
  }
}

}  // namespace
}  // namespace flyball
