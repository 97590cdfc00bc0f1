#include "agent/agent_config.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

AgentConfig read(const std::string& text) {
  AgentConfig config;
  read_agent_config("agent.toml", text, config);
  return config;
}

TEST(AgentConfig, EveryKeyIsRead) {
  const AgentConfig config = read(
      "socket = \"/tmp/s\"\nsocket_mode = \"0660\"\ntcp = \"[::1]:4938\"\ntoken_file = \"/t\"\nstate_dir = \"/d\"\n"
      "period = \"10ms\"\nzeusd = false\nzeusd_remote_hold = \"30s\"\nzeusd_shared = true\n"
      "connections = 100\n"
      "[access]\nusers = [1000, \"root\"]\nremote = false\nslow_others = true\n"
      "[access.gpu]\n1 = [1001]\n[per_user]\nstreams = 3\nstream_events = 50\nleases = 2\nrequests = 9\nconnections = "
      "70\n"
      "[gpu.all]\npower_limit = [150, 250.5]\n[gpu.1]\nsm_clocks = [0, 1200]\nmemory_clocks = [800, 0]\n"
      "[gpu.1.outside]\npower_limit = 200\nsm_clocks = [210, 1100]\nmemory_clocks = [1593, 1593]\n");
  EXPECT_EQ(config.socket_path, "/tmp/s");
  EXPECT_EQ(config.socket_mode, 0660u);
  EXPECT_EQ(config.tcp->host, "::1");
  EXPECT_EQ(config.tcp->port, 4938);
  EXPECT_EQ(config.token_file, "/t");
  EXPECT_EQ(config.state_dir, "/d");
  EXPECT_EQ(config.period, Seconds(0.01));
  EXPECT_FALSE(config.zeusd);
  EXPECT_EQ(config.zeusd_remote_hold, Seconds(30));
  EXPECT_EQ(config.limits.connections, 100u);
  EXPECT_EQ(config.access.everywhere, (std::set<uid_t>{0, 1000}));
  EXPECT_EQ(config.access.of_gpu.at(1), std::set<uid_t>{1001});
  EXPECT_FALSE(config.access.remote);
  EXPECT_TRUE(config.access.slow_others);
  EXPECT_TRUE(config.zeusd_shared);
  EXPECT_EQ(config.per_user.streams, 3u);
  EXPECT_EQ(config.per_user.stream_events, 50);
  EXPECT_EQ(config.per_user.leases, 2u);
  EXPECT_EQ(config.per_user.requests, 9);
  EXPECT_EQ(config.limits.connections_per_party, 70u);
  EXPECT_EQ(config.gpus.of(0).bounds.least_power, Watts(150));
  EXPECT_EQ(config.gpus.of(0).bounds.most_power, Watts(250.5));
  const GpuRules& other = config.gpus.of(1);
  EXPECT_FALSE(other.bounds.most_power.has_value()) << "its own table, and not that of all";
  EXPECT_FALSE(other.bounds.least_sm_clock.has_value());
  EXPECT_EQ(other.bounds.most_sm_clock, Megahertz(1200));
  EXPECT_EQ(other.bounds.least_memory_clock, Megahertz(800));
  EXPECT_EQ(other.outside.power_limit, Watts(200));
  EXPECT_EQ(other.outside.sm_clocks, (ClockBounds{Megahertz(210), Megahertz(1100)}));
  EXPECT_EQ(other.outside.memory_clocks, (ClockBounds{Megahertz(1593), Megahertz(1593)}));
}

TEST(AgentConfig, WhatIsNotNamedStaysAsItWas) {
  AgentConfig config;
  config.state_dir = "/mine";
  read_agent_config("agent.toml", "# nothing\n", config);
  EXPECT_EQ(config.state_dir, "/mine");
  EXPECT_EQ(config.socket_path, "/run/flyball/agent.sock");
  EXPECT_TRUE(config.zeusd);
}

struct WrongConfig {
  const char* name;
  const char* text;
  std::size_t column;
  const char* words;
};

class WrongConfigs : public ::testing::TestWithParam<WrongConfig> {};

TEST_P(WrongConfigs, AreRefusedWithPlaceAndMend) {
  expect_input_error([] { read(GetParam().text); }, 1, GetParam().column, GetParam().words);
}

INSTANTIATE_TEST_SUITE_P(
    AgentConfig, WrongConfigs,
    ::testing::Values(WrongConfig{"misspelt", "sockt = \"a\"", 1, "unknown key 'sockt'"},
                      WrongConfig{"no_toml", "socket", 7, ""},
                      WrongConfig{"number", "socket = 7", 10, "this must be a text"},
                      WrongConfig{"mode", "socket_mode = \"0888\"", 15, "this is no mode"},
                      WrongConfig{"port", "tcp = \"localhost\"", 7, "is no HOST:PORT"},
                      WrongConfig{"period", "period = \"1h\"", 10, "no duration in range"},
                      WrongConfig{"hold", "zeusd_remote_hold = \"0s\"", 21, "no duration in range"},
                      WrongConfig{"flag", "zeusd = \"no\"", 9, "true or false"},
                      WrongConfig{"user", "access.users = [\"no such user\"]", 17, "there is no user"},
                      WrongConfig{"users", "access.users = 1000", 16, "a list of users"},
                      WrongConfig{"span", "gpu.0.sm_clocks = 1200", 19, "a least and a most value"},
                      WrongConfig{"span_turned", "gpu.0.power_limit = [300, 200]", 21, "the first is above the second"},
                      WrongConfig{"no_lock", "gpu.0.outside.sm_clocks = [0, 1200]", 27, "this locks nothing"},
                      WrongConfig{"rules", "gpu.x.power_limit = [1, 2]", 5, "'x' is no GPU's index"},
                      WrongConfig{"gpu", "access.gpu.x = [1]", 16, "'x' is no GPU's index"}),
    [](const auto& test) { return test.param.name; });

TEST(AgentConfig, TlsNeedsACertificateAndItsKey) {
  for (const auto& [own, other] : {std::pair("tls_cert", "tls_key"), std::pair("tls_key", "tls_cert")}) {
    AgentConfig config;
    const std::string half = "tcp = \"127.0.0.1:4938\"\n" + std::string(own) + " = \"/a.pem\"\n";
    read_agent_config("agent.toml", half, config);
    EXPECT_THROW(check_agent_config(config), UsageError) << own;
    read_agent_config("agent.toml", half + other + " = \"/b.pem\"\n", config);
    check_agent_config(config);
  }
}

TEST(AgentConfig, TheNetworkNeedsATokenAndLoopbackDoesNot) {
  AgentConfig config;
  config.tcp = HostPort{"10.0.0.1", 4938};
  EXPECT_THROW(check_agent_config(config), UsageError);
  config.token = "0123456789abcdef";
  check_agent_config(config);
  config.token.clear();
  config.tcp = HostPort{"::1", 4938};
  check_agent_config(config);
  config.tcp.reset();
  config.socket_path.clear();
  EXPECT_THROW(check_agent_config(config), UsageError);
}

}  // namespace
}  // namespace flyball
