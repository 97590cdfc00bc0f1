// Leases that others than their process end: at an agent, by its port and token, and by way of a planning server.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/test_server.h"
#include "support/agent_calls.h"
#include "support/agent_host.h"

namespace flyball::testing {
namespace {

using ::testing::HasSubstr;

LeaseRequest lasting(std::vector<std::size_t> gpus) {
  LeaseRequest request;
  request.gpus = std::move(gpus);
  request.heartbeat_timeout = Seconds(60);  // a busy machine is no holder that is silent
  return request;
}

void open_port(AgentConfig& config) {
  config.tcp = HostPort{"127.0.0.1", 0};
  config.token = "agents-agents-agents-agents";
}

void let_operators_in(AgentConfig& config) {
  open_port(config);
  config.access.remote_ends_leases = true;
}

AgentClient at_port(const AgentHost& host) {
  return AgentClient(parse_endpoint(fmt::format("127.0.0.1:{}", host.tcp_port())), host.config.token);
}

// An operator ends a lease that another client holds, and the holder learns why.
TEST(EndingALease, IsForAClientWithTheToken) {
  AgentHost host(2, let_operators_in);
  AgentLease lease = AgentClient(host.endpoint(), "").lease(lasting({0, 1}));
  lease.lock_sm_clocks(1, {Megahertz(1005), Megahertz(1005)});
  AgentClient remote = at_port(host);
  const std::optional<LeaseInfo> seen = remote.devices().gpus.at(1).lease;
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->id, lease.info().id);
  remote.end_lease(seen->id);
  EXPECT_TRUE(host.gpus[1]->at_default()) << "when it is answered";
  try {
    lease.lock_sm_clocks(0, {Megahertz(1005), Megahertz(1005)});
    ADD_FAILURE() << "the lease has not ended";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("its user or an operator took it away"));
  }
  EXPECT_EQ(refusal_of([&] { remote.end_lease(seen->id); }).status, 410u);
}

TEST(EndingALease, IsForNobodyOverTcpUnlessTheConfigurationSaysSo) {
  AgentHost host(1, open_port);
  const AgentLease lease = AgentClient(host.endpoint(), "").lease(lasting({0}));
  AgentClient remote = at_port(host);
  EXPECT_EQ(remote.devices().gpus.at(0).lease.value().id, "");
  EXPECT_EQ(refusal_of([&] { remote.end_lease(lease.info().id); }).status, 403u);
  EXPECT_EQ(lease.lost(), "");
}

// A cap keeps a cluster below its budget: who takes the lease away does not lift it.
TEST(EndingALease, LeavesTheLimitForItsLoss) {
  AgentHost host(1, [](AgentConfig& config) {
    let_operators_in(config);
    config.access.slow_others = true;
  });
  LeaseRequest request = lasting({0});
  request.lost_power_limit = Watts(180);
  const AgentLease lease = AgentClient(host.endpoint(), "").lease(request);
  AgentClient remote = at_port(host);
  remote.end_lease(lease.info().id);
  const GpuStatus gpu = remote.devices().gpus.at(0);
  ASSERT_TRUE(gpu.cap);
  EXPECT_EQ(gpu.cap->power_limit, Watts(180));
  (void)AgentClient(host.endpoint(), "").lease(request);  // its holder may come back at once
}

// A GPU that is divided under a lease: nothing more is set there, and what was set is brought back all the same.
TEST(EndingALease, BringsBackADividedGpu) {
  AgentHost host(2);
  AgentClient client(host.endpoint(), "");
  AgentLease lease = client.lease(lasting({0, 1}));
  lease.lock_sm_clocks(0, {Megahertz(1005), Megahertz(1005)});
  host.gpus[0]->divide();
  const Refusal refusal = refusal_of([&] { lease.lock_sm_clocks(0, {Megahertz(900), Megahertz(900)}); });
  EXPECT_EQ(refusal.status, 422u);
  EXPECT_THAT(refusal.words, HasSubstr("for all of its instances"));
  EXPECT_EQ(host.gpus[0]->knobs().sm.value().maximum, Megahertz(1005));
  lease.lock_sm_clocks(1, {Megahertz(900), Megahertz(900)});
  lease.release();
  EXPECT_TRUE(host.gpus[0]->at_default());
}

// The server comes to the first agent by its port, with the agents' token, as an operator does.
class EndingLeases : public ::testing::Test {
 protected:
  PlanningServerOptions options() {
    PlanningServerOptions made = local_options();
    made.administrator_token = kAdministrator;
    made.fleet.nodes.addresses = {{"n1", fmt::format("127.0.0.1:{}", first_.tcp_port())},
                                  {"n2", second_.config.socket_path}};
    made.fleet.nodes.token = first_.config.token;
    made.fleet.nodes.call_limit = Seconds(30);  // a busy machine is no agent that does not answer
    made.fleet.nodes.period = Seconds(0.05);
    return made;
  }

  // GPU 1 of the first node once it is told with a holder.
  static nlohmann::json leased_gpu(Client& client) {
    for (int i = 0; i < 600; ++i) {
      const nlohmann::json node = client.get("/v1/nodes")["nodes"][0];
      if (node["gpus"].size() == 2 && !node["gpus"][1]["holder"].get<std::string>().empty()) return node["gpus"][1];
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    ADD_FAILURE() << "the lease is never told";
    return {};
  }

  AgentHost first_{2, let_operators_in};
  AgentHost second_{1};
  LeaseRequest request_ = lasting({0, 1});
};

TEST_F(EndingLeases, IsTheAdministrators) {
  const ServerThread server(options());
  Client client(server.port(), kAdministrator);
  AgentLease lease = AgentClient(first_.endpoint(), "").lease(request_);
  lease.lock_sm_clocks(1, {Megahertz(1005), Megahertz(1005)});
  const std::string id = leased_gpu(client)["lease"];
  EXPECT_EQ(id, lease.info().id);
  const std::string path = "/v1/nodes/n1/leases/" + id;
  EXPECT_EQ(Client(server.port(), "").ask("DELETE", path).status, 401u);
  EXPECT_EQ(Client(server.port(), "another").ask("DELETE", path).status, 403u);
  EXPECT_EQ(client.ask("DELETE", "/v1/nodes/n3/leases/" + id).status, 404u);
  EXPECT_EQ(client.ask("DELETE", "/v1/nodes/n2/leases/" + id).status, 404u) << "another node's agent knows no such one";
  EXPECT_EQ(client.ask("DELETE", "/v1/nodes/n1/leases/..%2F..%2Fv1%2Fsessions%2Fx").status, 404u);
  EXPECT_EQ(lease.lost(), "");
  const Response ended = client.ask("DELETE", path);
  EXPECT_EQ(ended.status, 204u) << ended.body;
  EXPECT_TRUE(first_.gpus[1]->at_default());
  // The node is told as it is after that.
  const nlohmann::json told = client.get("/v1/nodes");
  for (const nlohmann::json& gpu : told["nodes"][0]["gpus"]) {
    EXPECT_EQ(gpu["holder"], "");
    EXPECT_EQ(gpu["lease"], "");
    EXPECT_TRUE(gpu["asked_clock_mhz"].is_null());
  }
  EXPECT_EQ(client.ask("DELETE", path).status, 410u) << "it has ended already";
  const Refusal again = refusal_of([&] { (void)AgentClient(first_.endpoint(), "").lease(request_); });
  EXPECT_EQ(again.status, 403u) << "its process has the GPUs again at once";
  EXPECT_THAT(again.words, HasSubstr("a lease of GPU 0 was taken away"));
  second_.kill();
  const Response unreachable = client.ask("DELETE", "/v1/nodes/n2/leases/" + id);
  EXPECT_EQ(unreachable.status, 502u) << unreachable.body;
}

// The agents' token is the server's trouble: 401 would say that the administrator's is wrong.
TEST_F(EndingLeases, NeedsTheAgentsToken) {
  PlanningServerOptions wrong = options();
  wrong.fleet.nodes.token = "another-another-another-another";
  const ServerThread server(wrong);
  const AgentLease lease = AgentClient(first_.endpoint(), "").lease(request_);
  const Response refused =
      Client(server.port(), kAdministrator).ask("DELETE", "/v1/nodes/n1/leases/" + lease.info().id);
  EXPECT_EQ(refused.status, 502u);
  EXPECT_THAT(refused.body, HasSubstr("the agent of n1 says"));
  EXPECT_EQ(lease.lost(), "");
}

// What an agent calls an identifier may be the path of something else, to which a page would show its token.
TEST(WatchedGpu, HasNoIdentifierThatIsNone) {
  GpuStatus gpu;
  gpu.lease.emplace();
  for (const char* id : {"../../../jobs/night", "a?b", "", "0123/4567"}) {
    gpu.lease->id = id;
    EXPECT_EQ(watched(gpu).lease, "") << id;
  }
  gpu.lease->id = std::string(65, 'a');
  EXPECT_EQ(watched(gpu).lease, "");
  gpu.lease->id = "0123456789abcdefABCDEF";
  EXPECT_EQ(watched(gpu).lease, "0123456789abcdefABCDEF");
}

// What is longer than agents take is cut, here within an e with an acute accent, whose second byte would be the 201st.
TEST(WatchedGpu, HasWordsOfABoundedLength) {
  GpuStatus gpu;
  gpu.lease.emplace();
  const std::string cut(199, 'x');
  gpu.lease->holder.name = gpu.lease->job = gpu.lease->purpose = cut + "\u00e9 and more";
  for (const std::string& words : {watched(gpu).holder, watched(gpu).job, watched(gpu).purpose}) EXPECT_EQ(words, cut);
}

// Whoever reaches a server without an administrator's token may look, and no more.
TEST_F(EndingLeases, IsNobodysWithoutAnAdministratorsToken) {
  PlanningServerOptions open = options();
  open.administrator_token.reset();
  const ServerThread server(open);
  Client client(server.port(), "");
  const AgentLease lease = AgentClient(first_.endpoint(), "").lease(request_);
  EXPECT_EQ(leased_gpu(client)["lease"], "");
  const Response refused = client.ask("DELETE", "/v1/nodes/n1/leases/" + lease.info().id);
  EXPECT_EQ(refused.status, 403u);
  EXPECT_THAT(refused.body, HasSubstr("--admin-token-file"));
  EXPECT_EQ(lease.lost(), "");
}

}  // namespace
}  // namespace flyball::testing
