// The agent over its socket, with GPUs in memory.
#include "agent/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <nlohmann/json.hpp>

#include "base/record.h"
#include "base/text.h"
#include "support/agent_calls.h"
#include "support/agent_host.h"
#include "support/certificate.h"
#include "support/raw_socket.h"

namespace flyball {
namespace {

using testing::AgentHost;
using ::testing::HasSubstr;
using testing::leases_at;
using testing::MemoryGpu;
using testing::metrics_at;
using testing::set_power_limit;
using testing::stream_power;

LeaseRequest for_gpus(std::vector<std::size_t> gpus) {
  LeaseRequest request;
  request.gpus = std::move(gpus);
  return request;
}

nlohmann::json json_of(const Response& response) { return nlohmann::json::parse(response.body); }

bool locked_at(const MemoryGpu& gpu, double mhz) {
  const auto sm = gpu.knobs().sm;
  return sm && sm->maximum == Megahertz(mhz);
}

template <class Action>
unsigned refused_status(Action action, const std::string& words) {
  try {
    action();
  } catch (const AgentRefusal& refusal) {
    EXPECT_THAT(refusal.what(), HasSubstr(words));
    return refusal.status();
  }
  ADD_FAILURE() << "not refused";
  return 0;
}

TEST(Agent, ALeaseSetsAndItsReleaseRestores) {
  AgentHost host(2);
  AgentClient client(host.endpoint(), "");
  AgentLease lease = client.lease(for_gpus({0, 1}));
  lease.lock_sm_clocks(0, {Megahertz(1005), Megahertz(1005)});
  set_power_limit(lease, 1, Watts(250));
  EXPECT_TRUE(locked_at(*host.gpus[0], 1005));
  EXPECT_EQ(host.gpus[1]->knobs().power_limit, 250);
  const NodeStatus status = client.devices();
  ASSERT_TRUE(status.gpus[0].lease.has_value());
  EXPECT_EQ(status.gpus[0].lease->holder.pid, ::getpid());
  EXPECT_EQ(status.gpus[0].lease->settings.at(0).sm_clocks, (ClockBounds{Megahertz(1005), Megahertz(1005)}));
  lease.release();
  EXPECT_TRUE(host.gpus[0]->at_default());
  EXPECT_TRUE(host.gpus[1]->at_default());
  EXPECT_FALSE(client.devices().gpus[0].lease.has_value());
}

TEST(Agent, ResettingBringsOneKnobBackAndLeavesTheOther) {
  AgentHost host(1);
  AgentLease lease = AgentClient(host.endpoint(), "").lease(for_gpus({0}));
  lease.lock_sm_clocks(0, {Megahertz(1005), Megahertz(1005)});
  set_power_limit(lease, 0, Watts(250));
  lease.reset_sm_clocks(0);
  EXPECT_FALSE(host.gpus[0]->knobs().sm.has_value());
  EXPECT_EQ(host.gpus[0]->knobs().power_limit, 250);
}

TEST(Agent, WhatNobodyTouchedIsNotRestored) {
  AgentHost host(1);
  host.gpus[0]->set_power_limit(Watts(300));  // the administrator's
  AgentLease lease = AgentClient(host.endpoint(), "").lease(for_gpus({0}));
  lease.lock_sm_clocks(0, {Megahertz(1005), Megahertz(1005)});
  lease.release();
  EXPECT_FALSE(host.gpus[0]->knobs().sm.has_value());
  EXPECT_EQ(host.gpus[0]->knobs().power_limit, 300);
}

TEST(Agent, ALeaseEndsWithItsConnection) {
  AgentHost host(1);
  {
    AgentLease lease = AgentClient(host.endpoint(), "").lease(for_gpus({0}));
    lease.lock_sm_clocks(0, {Megahertz(1005), Megahertz(1005)});
  }  // closed, not released
  EXPECT_TRUE(host.gpus[0]->wait_default());
}

TEST(Agent, ALeaseEndsWhenItsHeartbeatsStop) {
  AgentHost host(1);
  HttpClient http(host.endpoint());
  LeaseRequest request = for_gpus({0});
  request.heartbeat_timeout = Seconds(0.2);
  const auto lease = json_of(http.request("POST", "/v1/leases", to_json(request).dump()));
  const std::string id = lease["id"];
  ASSERT_EQ(
      http.request("PATCH", "/v1/leases/" + id + "/gpus/0", R"({"sm_clocks_mhz": {"minimum": 1005, "maximum": 1005}})")
          .status,
      200u);
  EXPECT_TRUE(host.gpus[0]->wait_default());
  const Response late = http.request("POST", "/v1/leases/" + id + "/heartbeat");
  EXPECT_EQ(late.status, 410u);
  EXPECT_THAT(late.body, HasSubstr("its heartbeats stopped"));
}

TEST(Agent, TheClientKeepsALeaseAliveByItself) {
  AgentHost host(1);
  LeaseRequest request = for_gpus({0});
  request.heartbeat_timeout = Seconds(0.4);
  AgentClient client(host.endpoint(), "");
  AgentLease lease = client.lease(request);
  lease.lock_sm_clocks(0, {Megahertz(1005), Megahertz(1005)});
  ASSERT_TRUE(host.eventually([&](AgentClient&) {
    const auto leases = leases_at(host.endpoint());
    return leases.size() == 1 && leases[0].age > Seconds(1.0);
  }));
  EXPECT_TRUE(locked_at(*host.gpus[0], 1005));
  EXPECT_EQ(lease.lost(), "");
}

TEST(Agent, AnothersGpuIsRefusedWithWhoHoldsIt) {
  AgentHost host(2);
  AgentClient client(host.endpoint(), "");
  AgentLease lease = client.lease(for_gpus({1}));
  EXPECT_EQ(refused_status([&] { static_cast<void>(client.lease(for_gpus({0, 1}))); }, "GPU 1 is leased to"), 409u);
  HttpClient http(host.endpoint());
  const auto problem = json_of(http.request("POST", "/v1/leases", R"({"gpus": [1]})"));
  EXPECT_EQ(problem["status"], 409);
  EXPECT_EQ(problem["holder"]["pid"], ::getpid());
}

TEST(Agent, AUserWhoMayNotIsRefused) {
  AgentHost host(2, [](AgentConfig& config) {
    config.access.of_gpu[1] = {4242};
    // Root always may, so that only the rule for others can be seen from here; the table's own tests know the rest.
    config.access.remote = false;
    config.tcp = HostPort{"127.0.0.1", 0};
  });
  HttpClient remote(parse_endpoint("127.0.0.1:" + std::to_string(host.tcp_port())));
  EXPECT_EQ(remote.request("POST", "/v1/leases", R"({"gpus": [0]})").status, 403u);
}

TEST(Agent, OverTcpWithoutATokenItSaysWhatIsMissing) {
  AgentHost host(1, [](AgentConfig& config) { config.tcp = HostPort{"127.0.0.1", 0}; });
  HttpClient remote(parse_endpoint("127.0.0.1:" + std::to_string(host.tcp_port())));
  const Response refused = remote.request("POST", "/v1/leases", R"({"gpus": [0]})");
  EXPECT_EQ(refused.status, 403u);
  EXPECT_THAT(refused.body, HasSubstr("this agent has no token: start it with --token-file"));
}

TEST(Agent, AClockThatTheDeviceDoesNotHaveIsRefusedAndTheLeaseGoesOn) {
  AgentHost host(1);
  AgentLease lease = AgentClient(host.endpoint(), "").lease(for_gpus({0}));
  EXPECT_EQ(refused_status(
                [&] {
                  lease.lock_sm_clocks(0, {Megahertz(9999), Megahertz(9999)});
                },
                "no such clock"),
            422u);
  lease.lock_sm_clocks(0, {Megahertz(1005), Megahertz(1005)});
  EXPECT_TRUE(locked_at(*host.gpus[0], 1005));
}

TEST(Agent, ADriverThatRefusesIsToldToTheCaller) {
  AgentHost host(1);
  AgentLease lease = AgentClient(host.endpoint(), "").lease(for_gpus({0}));
  host.gpus[0]->fail_writes(1, DeviceFault::kPermission);
  EXPECT_EQ(refused_status(
                [&] {
                  lease.lock_sm_clocks(0, {Megahertz(1005), Megahertz(1005)});
                },
                "the driver says no"),
            403u);
  EXPECT_TRUE(host.gpus[0]->at_default());
}

TEST(Agent, ARestoreThatFailsIsTriedAgain) {
  AgentHost host(1);
  AgentLease lease = AgentClient(host.endpoint(), "").lease(for_gpus({0}));
  lease.lock_sm_clocks(0, {Megahertz(1005), Megahertz(1005)});
  host.gpus[0]->fail_writes(3);
  lease.release();
  EXPECT_TRUE(host.gpus[0]->wait_default());
  EXPECT_THAT(metrics_at(host.endpoint()), HasSubstr("flyball_agent_failed_restores_total 3\n"));
}

TEST(Agent, ACallThatHangsBlocksItsGpuOnlyAndIsUndoneWhenItReturns) {
  AgentHost host(2, [](AgentConfig& config) { config.control.call_timeout = Seconds(1); });
  AgentClient client(host.endpoint(), "");
  AgentLease other = client.lease(for_gpus({1}));
  std::optional<AgentLease> lease(client.lease(for_gpus({0})));
  host.gpus[0]->hang(true);
  EXPECT_EQ(refused_status(
                [&] {
                  lease->lock_sm_clocks(0, {Megahertz(1005), Megahertz(1005)});
                },
                "has not answered"),
            504u);
  other.lock_sm_clocks(1, {Megahertz(1005), Megahertz(1005)});
  EXPECT_TRUE(locked_at(*host.gpus[1], 1005));
  EXPECT_TRUE(host.eventually([](AgentClient& asked) {
    const NodeStatus status = asked.devices();
    return status.gpus[0].health == GpuHealth::kUnwell && status.gpus[1].health == GpuHealth::kWell;
  }));
  EXPECT_EQ(refused_status([&] { static_cast<void>(client.lease(for_gpus({0}))); }, "leased"), 409u);
  lease.reset();
  host.gpus[0]->hang(false);
  EXPECT_TRUE(host.eventually([](AgentClient& asked) { return asked.devices().gpus[0].health == GpuHealth::kWell; }));
  EXPECT_TRUE(host.gpus[0]->wait_default());
}

TEST(Agent, ALostGpuEndsItsLeaseAndNoOther) {
  AgentHost host(3);
  AgentClient client(host.endpoint(), "");
  AgentLease pair = client.lease(for_gpus({0, 1}));
  AgentLease other = client.lease(for_gpus({2}));
  pair.lock_sm_clocks(0, {Megahertz(1005), Megahertz(1005)});
  pair.lock_sm_clocks(1, {Megahertz(1005), Megahertz(1005)});
  other.lock_sm_clocks(2, {Megahertz(1005), Megahertz(1005)});
  host.gpus[0]->lose();
  ASSERT_TRUE(host.eventually([](AgentClient& asked) { return asked.devices().gpus[0].health == GpuHealth::kLost; }));
  EXPECT_TRUE(host.gpus[1]->wait_default());
  EXPECT_TRUE(locked_at(*host.gpus[2], 1005));
  EXPECT_EQ(refused_status([&] { static_cast<void>(client.lease(for_gpus({0}))); }, "lost"), 503u);
  EXPECT_EQ(json_of(HttpClient(host.endpoint()).request("POST", "/v1/leases", R"({"gpus": [0]})"))["fault"], "lost");
  ASSERT_TRUE(host.eventually([&](AgentClient&) { return !pair.lost().empty(); }));
  EXPECT_THAT(pair.lost(), HasSubstr("a GPU of it was lost"));
  host.gpus[0]->lose(false);
  EXPECT_TRUE(host.eventually([](AgentClient& asked) { return asked.devices().gpus[0].health == GpuHealth::kWell; }));
  EXPECT_TRUE(host.gpus[0]->wait_default()) << "restored when it came back";
}

TEST(Agent, StoppingRestores) {
  AgentHost host(2);
  AgentLease lease = AgentClient(host.endpoint(), "").lease(for_gpus({0, 1}));
  lease.lock_sm_clocks(0, {Megahertz(1005), Megahertz(1005)});
  set_power_limit(lease, 1, Watts(200));
  EXPECT_TRUE(host.stop());
  EXPECT_TRUE(host.gpus[0]->at_default());
  EXPECT_TRUE(host.gpus[1]->at_default());
  host.start();
}

TEST(Agent, StoppingSaysWhatItLeaves) {
  AgentHost host(1);
  AgentLease lease = AgentClient(host.endpoint(), "").lease(for_gpus({0}));
  lease.lock_sm_clocks(0, {Megahertz(1005), Megahertz(1005)});
  host.gpus[0]->fail_writes(1'000'000);
  EXPECT_FALSE(host.stop());
  EXPECT_TRUE(locked_at(*host.gpus[0], 1005));
  host.gpus[0]->fail_writes(0);
  host.start();
  EXPECT_TRUE(host.gpus[0]->wait_default()) << "the next start restores";
}

TEST(Agent, AKilledAgentsNextStartRestores) {
  AgentHost host(2);
  AgentLease lease = AgentClient(host.endpoint(), "").lease(for_gpus({0, 1}));
  lease.lock_sm_clocks(0, {Megahertz(1005), Megahertz(1005)});
  set_power_limit(lease, 1, Watts(200));
  host.kill();
  EXPECT_TRUE(locked_at(*host.gpus[0], 1005));
  host.start();
  EXPECT_TRUE(host.gpus[0]->wait_default());
  EXPECT_TRUE(host.gpus[1]->wait_default());
}

// What it had set went with the machine's restart: the GPU's settings are the new boot's.
TEST(Agent, AKilledAgentsStartAfterTheMachinesRestoresNothing) {
  AgentHost host(1, [](AgentConfig& config) { config.boot = {"boot 1"}; });
  AgentLease lease = AgentClient(host.endpoint(), "").lease(for_gpus({0}));
  lease.lock_sm_clocks(0, {Megahertz(1005), Megahertz(1005)});
  set_power_limit(lease, 0, Watts(200));
  host.kill();
  const int writes = host.gpus[0]->knobs().writes;
  host.config.boot = {"boot 2"};
  host.start();
  EXPECT_TRUE(host.eventually([](AgentClient& asked) { return asked.devices().gpus[0].health == GpuHealth::kWell; }));
  EXPECT_FALSE(std::filesystem::exists(host.folder / "state/GPU-memory-0.gpu.json"));
  EXPECT_EQ(host.gpus[0]->knobs().writes, writes);
  EXPECT_TRUE(locked_at(*host.gpus[0], 1005));
}

// Its container was started anew and has another boot_id; the machine, and with it the GPU, was not.
TEST(Agent, AKilledAgentsStartAfterItsContainersRestores) {
  AgentHost host(1, [](AgentConfig& config) { config.boot = {"boot 1", 1'700'000'000}; });
  AgentLease lease = AgentClient(host.endpoint(), "").lease(for_gpus({0}));
  lease.lock_sm_clocks(0, {Megahertz(1005), Megahertz(1005)});
  host.kill();
  host.config.boot = {"boot 2", 1'700'000'001};
  host.start();
  EXPECT_TRUE(host.gpus[0]->wait_default());
}

// Of a GPU that was away meanwhile the driver has forgotten the operator's limit, too: it is brought back.
TEST(Agent, AGpuThatWasLostGetsItsLimitBack) {
  AgentHost host(1);
  host.gpus[0]->set_power_limit(Watts(300));
  AgentLease lease = AgentClient(host.endpoint(), "").lease(for_gpus({0}));
  set_power_limit(lease, 0, Watts(200));
  host.gpus[0]->lose();
  EXPECT_TRUE(host.eventually([](AgentClient& asked) { return asked.devices().gpus[0].health == GpuHealth::kLost; }));
  host.gpus[0]->come_back_with(Watts(testing::MemoryGpu::kStandardLimit));
  EXPECT_TRUE(host.gpus[0]->wait_until([](const auto& now) { return now.power_limit == 300.0; }));
}

// As absent_gpu.h's, whose driver opens it when the test says so.
class LateGpu : public MemoryGpu {
 public:
  using MemoryGpu::MemoryGpu;
  void open() {
    opened_ = true;
    hang(false);
    hang_reads(false);
  }
  [[nodiscard]] const GpuIdentity& identity() const override { return opened_ ? MemoryGpu::identity() : nobody_; }

 private:
  const GpuIdentity nobody_ = {0, "", "not opened", ""};
  std::atomic<bool> opened_{false};
};

// The host's agent is killed with GPU 0 at 200 W, 300 W before. Its next one starts before the driver has opened the
// GPU, which it does as soon as that has looked for it in its journal.
void open_late_after_kill(AgentHost& host, const std::string& damaged_file = "") {
  host.gpus[0]->set_power_limit(Watts(300));
  AgentLease lease = AgentClient(host.endpoint(), "").lease(for_gpus({0}));
  set_power_limit(lease, 0, Watts(200));
  host.kill();
  if (!damaged_file.empty()) std::ofstream(host.folder / damaged_file) << "{\"uuid\": \"GPU-mem";
  const auto late = std::make_shared<LateGpu>(0);
  late->set_power_limit(Watts(200));
  late->hang(true);
  late->hang_reads(true);
  host.gpus[0] = late;
  host.start();
  late->open();
}

// Its first lease sets nothing until what the one before has left is undone: 200 W is not what held before.
TEST(Agent, AGpuThatIsOpenedJustAfterTheStartIsRestoredBeforeItsFirstLease) {
  AgentHost host(1);
  open_late_after_kill(host);
  EXPECT_TRUE(host.eventually([](AgentClient& client) {
    try {
      AgentLease lease = client.lease(for_gpus({0}));
      set_power_limit(lease, 0, Watts(150));
      lease.release();
      return true;
    } catch (const AgentRefusal& refusal) {
      EXPECT_EQ(refusal.status(), 503u) << refusal.what();
      return false;
    }
  }));
  EXPECT_EQ(host.gpus[0]->knobs().power_limit, 300.0);
}

// A damaged file stands for every GPU of which there is no better word: its own entry is found once it has a name.
TEST(Agent, ADamagedFileDoesNotGoBeforeTheEntryOfAGpuThatComesLater) {
  AgentHost host(2);
  host.gpus[1]->set_power_limit(Watts(250));
  open_late_after_kill(host, "state/gpu0.gpu.json");
  EXPECT_TRUE(host.eventually([&](AgentClient&) {
    return std::distance(std::filesystem::directory_iterator(host.folder / "state"), {}) == 1;  // the lock
  }));
  EXPECT_EQ(host.gpus[0]->knobs().power_limit, 300.0);
  EXPECT_EQ(host.gpus[1]->knobs().power_limit, MemoryGpu::kStandardLimit);
}

TEST(Agent, ADamagedJournalWithoutAGpusNameRestoresEveryGpu) {
  AgentHost host(2);
  host.stop();
  host.gpus[1]->lock_sm_clocks({Megahertz(1005), Megahertz(1005)});
  host.gpus[1]->set_power_limit(Watts(200));
  const std::string entry = host.folder / "state/GPU-memory-2.gpu.json";
  std::ofstream(entry) << "{\"uuid\": \"GPU-mem";
  host.start();
  EXPECT_TRUE(host.gpus[1]->wait_default());
  EXPECT_TRUE(host.eventually([&](AgentClient&) { return !std::filesystem::exists(entry); }));
}

TEST(Agent, TwoAgentsDoNotShareAStateFolder) {
  AgentHost host(1);
  EventLoop loop;
  AgentConfig config = host.config;
  config.socket_path = host.folder / "other.sock";
  EXPECT_THROW(Agent(loop, config, {}), SystemError);
}

TEST(Agent, TheNetworkNeedsAToken) {
  EventLoop loop;
  const testing::TempFolder folder;
  AgentConfig config;
  config.socket_path = folder / "agent.sock";
  config.state_dir = folder / "state";
  config.tcp = HostPort{"0.0.0.0", 0};
  EXPECT_THROW(Agent(loop, config, {}), UsageError);
}

// Its page is for everybody who reaches it, and asks for everything else with the token that its reader has.
TEST(Agent, ThePageNeedsNoToken) {
  AgentHost host(1, [](AgentConfig& config) {
    config.tcp = HostPort{"127.0.0.1", 0};
    config.token = "0123456789abcdef0123";
  });
  HttpClient stranger(parse_endpoint("127.0.0.1:" + std::to_string(host.tcp_port())));
  const Response page = stranger.request("GET", "/");
  EXPECT_EQ(page.status, 200u);
  EXPECT_THAT(page.body, HasSubstr("page/page.js"));
  EXPECT_EQ(page.body.find("<script>"), std::string::npos) << "scripts come from files";
  const Response script = stranger.request("GET", "/page/page.js");
  EXPECT_EQ(script.status, 200u);
  EXPECT_THAT(script.body, HasSubstr("class AgentSource"));
  EXPECT_EQ(stranger.request("GET", "/page/page.css").status, 200u);
  EXPECT_EQ(stranger.request("GET", "/page/charts.js").status, 200u);
  EXPECT_EQ(stranger.request("GET", "/page/other.js").status, 404u);
}

TEST(Agent, OverTcpTheTokenOpens) {
  AgentHost host(1, [](AgentConfig& config) {
    config.tcp = HostPort{"127.0.0.1", 0};
    config.token = "0123456789abcdef0123";
  });
  const Endpoint endpoint = parse_endpoint("127.0.0.1:" + std::to_string(host.tcp_port()));
  HttpClient without(endpoint);
  EXPECT_EQ(without.request("GET", "/v1/devices").status, 401u);
  EXPECT_EQ(without.request("GET", "/metrics").status, 401u);
  EXPECT_EQ(without.request("GET", "/discover").status, 200u);
  EXPECT_EQ(without.request("GET", "/healthz").body, "ok\n");
  EXPECT_THROW(static_cast<void>(AgentClient(endpoint, "0123456789abcdef0124").devices()), AgentRefusal);
  AgentClient client(endpoint, host.config.token);
  EXPECT_EQ(client.devices().gpus.size(), 1u);
  {
    AgentLease lease = client.lease(for_gpus({0}));
    lease.lock_sm_clocks(0, {Megahertz(1005), Megahertz(1005)});
    EXPECT_TRUE(locked_at(*host.gpus[0], 1005));
  }
  EXPECT_TRUE(host.gpus[0]->wait_default());
}

TEST(Agent, PowerIsStreamed) {
  AgentHost host(2);
  std::vector<PowerPoint> points;
  stream_power(host.endpoint(), "&devices=GPU:1", [&](const std::vector<PowerPoint>& samples) {
    points.insert(points.end(), samples.begin(), samples.end());
    return points.size() < 5;
  });
  ASSERT_GE(points.size(), 5u);
  for (std::size_t i = 1; i < points.size(); ++i) {
    EXPECT_EQ(points[i].device, "GPU:1");
    EXPECT_GT(points[i].time, points[i - 1].time);
  }
  EXPECT_EQ(points.back().power, Watts(101));
  EXPECT_TRUE(host.eventually([&](AgentClient&) {
    return metrics_at(host.endpoint()).find("flyball_agent_power_listeners 0\n") != std::string::npos;
  })) << "the sampler stops with its last listener";
}

TEST(Agent, UnknownDevicesOfAStreamAreRefused) {
  AgentHost host(1);
  const Response refusal = HttpClient(host.endpoint()).request("GET", "/v1/power?devices=GPU:7");
  EXPECT_EQ(refusal.status, 400u);
  EXPECT_THAT(refusal.body, HasSubstr("there is no device 'GPU:7'"));
}

TEST(Agent, TheDocumentOfItsInterfaceListsWhatItAnswers) {
  AgentHost host(1);
  HttpClient http(host.endpoint());
  const std::string document = http.request("GET", "/openapi.yaml").body;
  EXPECT_EQ(document, read_text_file(FLYBALL_SOURCE_DIR "/docs/openapi-agent.yaml"));
  std::istringstream lines(document);
  std::string line;
  int paths = 0;
  while (std::getline(lines, line)) {
    if (!line.starts_with("  /")) continue;
    ++paths;
    std::string path = line.substr(2, line.find(':') - 2);
    for (const auto& [parameter, value] : {std::pair("{gpu}", "0"), std::pair("{lease}", "0"),
                                           std::pair("{session}", "0"), std::pair("{file}", "page.js")}) {
      if (const auto at = path.find(parameter); at != std::string::npos)
        path.replace(at, std::strlen(parameter), value);
    }
    // Known to the router: this method is refused by it, not the path.
    EXPECT_EQ(http.request("TRACE", path).status, 405u) << path;
  }
  EXPECT_EQ(paths, 35);
}

struct WrongRequest {
  const char* name;
  const char* method;
  const char* target;
  const char* body;
  unsigned status;
  const char* words;
};

class WrongRequests : public ::testing::TestWithParam<WrongRequest> {};

TEST_P(WrongRequests, AreRefusedAsProblems) {
  AgentHost host(1);
  HttpClient http(host.endpoint());
  const WrongRequest& wrong = GetParam();
  const Response response = http.request(wrong.method, wrong.target, wrong.body);
  EXPECT_EQ(response.status, wrong.status);
  EXPECT_EQ(response.content_type, "application/problem+json");
  EXPECT_EQ(json_of(response)["status"], wrong.status);
  EXPECT_THAT(json_of(response)["detail"].get<std::string>(), HasSubstr(wrong.words));
  EXPECT_EQ(http.request("GET", "/healthz").status, 200u);
}

INSTANTIATE_TEST_SUITE_P(
    Agent, WrongRequests,
    ::testing::Values(
        WrongRequest{"no_resource", "GET", "/v1/nothing", "", 404, "there is no resource"},
        WrongRequest{"wrong_method", "PUT", "/v1/leases", "{}", 405, "it takes GET, POST"},
        WrongRequest{"no_json", "POST", "/v1/leases", "{gpus", 400, "the request:1:2: this is no JSON"},
        WrongRequest{"no_object", "POST", "/v1/leases", "[0]", 400, "is [0], not an object"},
        WrongRequest{"no_gpus", "POST", "/v1/leases", "{}", 400, "gpus: is missing"},
        WrongRequest{"gpu_text", "POST", "/v1/leases", R"({"gpus": [0, "1"]})", 400, "gpus[1]: is \"1\""},
        WrongRequest{"gpu_negative", "POST", "/v1/leases", R"({"gpus": [-1]})", 400, "gpus[0]: is -1, out of range"},
        WrongRequest{"gpu_absent", "POST", "/v1/leases", R"({"gpus": [5]})", 404, "there is no GPU 5"},
        WrongRequest{"misspelt", "POST", "/v1/leases", R"({"gpus": [0], "bindng": "process"})", 400,
                     "did you mean binding"},
        WrongRequest{"timeout_long", "POST", "/v1/leases", R"({"gpus": [0], "heartbeat_timeout_s": 1e9})", 400,
                     "heartbeat_timeout_s: is 1000000000.0, out of range"},
        WrongRequest{"knob", "POST", "/v1/leases", R"({"gpus": [0], "may_set": ["fan"]})", 400, "may_set[0]: is 'fan'"},
        WrongRequest{"deep", "POST", "/v1/leases", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", 400, "this is no JSON"},
        WrongRequest{"huge", "PATCH", "/v1/leases/1/gpus/0", R"({"power_limit_w": 1e999})", 400, "too large"},
        WrongRequest{"no_lease", "POST", "/v1/leases/99/heartbeat", "", 404, "there is no lease 99"},
        WrongRequest{"bounds", "PATCH", "/v1/leases/1/gpus/0",
                     R"({"sm_clocks_mhz": {"minimum": 1005, "maximum": 900}})", 400, "minimum: is above the maximum"},
        WrongRequest{"nothing_changed", "PATCH", "/v1/leases/1/gpus/0", "{}", 400, "it changes nothing"},
        WrongRequest{"interval", "GET", "/v1/power?interval=0", "", 400, "interval is '0'"},
        WrongRequest{"query", "GET", "/v1/power?period=1ms", "", 400, "no query parameter 'period'"},
        WrongRequest{"escape", "GET", "/v1/power?interval=%zz", "", 400, "well-formed escapes"}),
    [](const auto& test) { return test.param.name; });

// Where the configuration has a certificate, the port answers nobody in the clear; the socket stays plain.
TEST(Agent, ItsPortSpeaksNoPlainHttpBesideTls) {
  const testing::TempFolder folder;
  const TlsFiles files = testing::make_certificate(folder.path().string(), "agent", "IP:127.0.0.1");
  AgentHost host(1, [&](AgentConfig& config) {
    config.tcp = HostPort{"127.0.0.1", 0};
    config.tls_cert = files.certificate;
    config.tls_key = files.key;
  });
  const testing::RawSocket plain(host.tcp_port());
  plain.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(plain.read_all(), ::testing::Not(HasSubstr("HTTP/1.1 200")));
  EXPECT_EQ(HttpClient(host.endpoint()).request("GET", "/healthz").status, 200u);
}

}  // namespace
}  // namespace flyball
