// What a controller does at an agent over TCP: with its token, its certificate, and its own lease only.
#include "controller/node_agents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/agent_client.h"
#include "sim/simulated.h"
#include "support/agent_host.h"
#include "support/certificate.h"
#include "support/memory_gpu.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using testing::AgentHost;
using ::testing::HasSubstr;
using testing::make_certificate;
using testing::MemoryGpu;
using testing::TempFolder;
using testing::wait_until;

constexpr const char* kToken = "0123456789abcdef0123";

bool is_bound(const MemoryGpu::Knobs& now, double mhz) {
  return now.sm && now.sm->minimum == Megahertz(210) && now.sm->maximum == Megahertz(mhz);
}

class NodeAgentsOverTcp : public ::testing::Test {
 protected:
  [[nodiscard]] NodeAgentsOptions options(const std::string& token = kToken) const {
    NodeAgentsOptions made;
    made.addresses = {{"n1", "https://127.0.0.1:" + std::to_string(host_.tcp_port())}};
    made.token = token;
    made.ca_file = files_.certificate;
    made.period = Seconds(0.05);
    return made;
  }

  TempFolder folder_;
  TlsFiles files_ = make_certificate(folder_.path().string(), "agent", "IP:127.0.0.1");
  AgentHost host_{2, [&](AgentConfig& config) {
                    config.tcp = HostPort{"127.0.0.1", 0};
                    config.token = kToken;
                    config.tls_cert = files_.certificate;
                    config.tls_key = files_.key;
                  }};

  // The agent has a lease of the GPU that states this limit for the loss of its holder.
  [[nodiscard]] bool states_lost_limit(std::size_t gpu, Watts limit) {
    return host_.eventually([&](AgentClient& client) {
      const auto lease = client.devices().gpus.at(gpu).lease;
      return lease && lease->settings.count(gpu) != 0 && lease->settings.at(gpu).lost_power_limit == limit;
    });
  }
  [[nodiscard]] bool becomes_capped(std::size_t gpu, Watts limit) const {
    return host_.gpus[gpu]->wait_until(
        [&](const MemoryGpu::Knobs& now) { return !now.sm && now.power_limit == limit.value(); });
  }
};

// A memory GPU has 1410, 1005 and 210 MHz, and takes 100 to 400 W.
TEST_F(NodeAgentsOverTcp, SetTheClockBelowAndTheLimitForLater) {
  {
    NodeAgents agents(options());
    agents.add("n1");
    agents.want("n1", {{Megahertz(1200), Watts(150)}, {Megahertz(1410), Watts(20)}});
    ASSERT_TRUE(host_.gpus[0]->wait_until([](const MemoryGpu::Knobs& now) { return is_bound(now, 1005); }));
    ASSERT_TRUE(host_.gpus[1]->wait_until([](const MemoryGpu::Knobs& now) { return is_bound(now, 1410); }));
    ASSERT_TRUE(wait_until([&] { return agents.reading("n1").gpus.at(0).bound == Megahertz(1200); }));
    EXPECT_EQ(agents.reading("n1").gpus.at(1).power, Watts(101));
    EXPECT_EQ(host_.gpus[0]->knobs().power_limit, MemoryGpu::kStandardLimit);
    ASSERT_TRUE(states_lost_limit(1, Watts(100)));
  }
  // The controller has ended: the clocks are gone, the limits are there. The next one lifts them.
  ASSERT_TRUE(becomes_capped(0, Watts(150)));
  ASSERT_TRUE(becomes_capped(1, Watts(100)));
  NodeAgents agents(options());
  agents.add("n1");
  agents.want("n1", {{Megahertz(1005), Watts(150)}, {Megahertz(1005), Watts(150)}});
  for (const auto& gpu : host_.gpus) {
    EXPECT_TRUE(gpu->wait_until([](const MemoryGpu::Knobs& now) {
      return is_bound(now, 1005) && now.power_limit == MemoryGpu::kStandardLimit;
    }));
  }
  agents.want("n1", {});
  for (const auto& gpu : host_.gpus) EXPECT_TRUE(gpu->wait_default());
}

// Once it is told that no clocks are wanted, and not before: what the caps are for may still run.
TEST_F(NodeAgentsOverTcp, LiftCapsWhereNoClocksAreWanted) {
  {
    NodeAgents agents(options());
    agents.add("n1");
    agents.want("n1", {{Megahertz(1005), Watts(150)}, {Megahertz(1005), Watts(150)}});
    ASSERT_TRUE(states_lost_limit(1, Watts(150)));
  }
  for (const std::size_t gpu : {0U, 1U}) ASSERT_TRUE(becomes_capped(gpu, Watts(150)));
  NodeAgents agents(options());
  agents.add("n1");
  agents.wait_for_readings(Seconds(60));
  ASSERT_TRUE(agents.reading("n1").age.has_value());
  EXPECT_EQ(host_.gpus[0]->knobs().power_limit, 150.0);
  agents.want("n1", {});
  for (const auto& gpu : host_.gpus) EXPECT_TRUE(gpu->wait_default());
}

// A board that refuses its clock keeps its cap until it has taken it.
TEST_F(NodeAgentsOverTcp, KeepTheCapWhereNoClockIsSet) {
  {
    NodeAgents agents(options());
    agents.add("n1");
    agents.want("n1", {{Megahertz(1005), Watts(150)}});
    ASSERT_TRUE(states_lost_limit(0, Watts(150)));
  }
  ASSERT_TRUE(becomes_capped(0, Watts(150)));
  bool was_free = false;
  host_.gpus[0]->fail_writes(1);
  NodeAgents agents(options());
  agents.add("n1");
  agents.want("n1", {{Megahertz(1005), Watts(150)}});
  EXPECT_TRUE(host_.gpus[0]->wait_until([&](const MemoryGpu::Knobs& now) {
    if (!now.sm && now.power_limit == MemoryGpu::kStandardLimit) was_free = true;
    return is_bound(now, 1005) && now.power_limit == MemoryGpu::kStandardLimit;
  }));
  EXPECT_FALSE(was_free);
}

TEST_F(NodeAgentsOverTcp, SetNothingWithoutTheToken) {
  NodeAgents agents(options("not the token, but long"));
  agents.add("n1");
  agents.want("n1", {{Megahertz(1005), Watts(150)}});
  ASSERT_TRUE(wait_until([&] { return !agents.reading("n1").trouble.empty(); }));
  EXPECT_THAT(agents.reading("n1").trouble, HasSubstr("token"));
  EXPECT_TRUE(host_.gpus[0]->at_default());
}

// A session of a user that came first keeps its GPU; the others are the controller's, and so is that one once it is
// free.
TEST_F(NodeAgentsOverTcp, LeaveAGpuToWhoHasLeasedIt) {
  LeaseRequest request;
  request.gpus = {0};
  request.heartbeat_timeout = Seconds(60);
  AgentLease session = AgentClient(host_.endpoint(), "").lease(request);
  session.lock_sm_clocks(0, {Megahertz(210), Megahertz(210)});
  NodeAgents agents(options());
  agents.add("n1");
  agents.want("n1", {{Megahertz(1005), Watts(150)}, {Megahertz(1005), Watts(150)}});
  ASSERT_TRUE(host_.gpus[1]->wait_until([](const MemoryGpu::Knobs& now) { return now.sm.has_value(); }));
  ASSERT_TRUE(wait_until([&] { return agents.reading("n1").gpus.at(1).bound == Megahertz(1005); }));
  EXPECT_EQ(agents.reading("n1").gpus.at(0).bound, Megahertz(0));
  EXPECT_EQ(host_.gpus[0]->knobs().sm->maximum, Megahertz(210));
  session.release();
  EXPECT_TRUE(host_.gpus[0]->wait_until([](const MemoryGpu::Knobs& now) { return is_bound(now, 1005); }));
}

}  // namespace
}  // namespace flyball
