#include "wire/agent_messages.h"

#include <gtest/gtest.h>

#include "base/json_object.h"
#include "base/record.h"
#include "support/expect_error.h"

namespace flyball {
namespace {

nlohmann::json parsed(const std::string& text) { return nlohmann::json::parse(text); }

TEST(AgentMessages, LeaseRequestsAreReadStrictly) {
  const LeaseRequest request = read_message<LeaseRequest>(parsed(
      R"({"gpus": [3, 1, 3], "may_set": ["power_limit"], "heartbeat_timeout_s": 2.5, "binding": "process",
          "purpose": "run"})"));
  EXPECT_EQ(request.gpus, (std::vector<std::size_t>{1, 3}));
  EXPECT_EQ(request.may_set, std::vector<Knob>{Knob::kPowerLimit});
  EXPECT_EQ(request.heartbeat_timeout, Seconds(2.5));
  EXPECT_EQ(request.binding, LeaseBinding::kProcess);
  EXPECT_EQ(request.purpose, "run");
  const LeaseRequest plain = read_message<LeaseRequest>(parsed(R"({"gpus": [0], "may_set": null})"));
  EXPECT_TRUE(plain.may_set.empty());
  EXPECT_EQ(plain.heartbeat_timeout, kDefaultHeartbeatTimeout);
}

TEST(AgentMessages, RequestsSurviveTheWire) {
  LeaseRequest request;
  request.gpus = {0, 7};
  request.may_set = {Knob::kSmClocks, Knob::kMemoryClocks};
  request.heartbeat_timeout = Seconds(0.1);
  request.purpose = "a \"b\" ü";
  request.may_set.push_back(Knob::kPowerLimit);
  request.lost_power_limit = Watts(150.5);
  const LeaseRequest read = read_message<LeaseRequest>(parsed(to_json(request).dump()));
  EXPECT_EQ(read.gpus, request.gpus);
  EXPECT_EQ(read.may_set, request.may_set);
  EXPECT_EQ(read.heartbeat_timeout, request.heartbeat_timeout);
  EXPECT_EQ(read.purpose, request.purpose);
  EXPECT_EQ(read.lost_power_limit, Watts(150.5));
}

TEST(AgentMessages, AChangeTellsResetFromUntouched) {
  SettingsChange change;
  change.sm_clocks = ClockBounds{Megahertz(210), Megahertz(1005)};
  change.power_limit = std::optional<Watts>();
  EXPECT_EQ(to_json(change).dump(), R"({"sm_clocks_mhz":{"minimum":210.0,"maximum":1005.0},"power_limit_w":null})");
  EXPECT_EQ(read_message<SettingsChange>(parsed(to_json(change).dump())), change);
  EXPECT_EQ(change.knobs(), (std::vector<Knob>{Knob::kSmClocks, Knob::kPowerLimit}));
  SettingsChange lost;
  lost.lost_power_limit = std::optional<Watts>();
  EXPECT_EQ(to_json(lost).dump(), R"({"lost_power_limit_w":null})");
  EXPECT_EQ(read_message<SettingsChange>(parsed(to_json(lost).dump())), lost);
  EXPECT_EQ(lost.knobs(), std::vector<Knob>{Knob::kPowerLimit}) << "it takes the right to set power limits";
}

TEST(AgentMessages, ComplaintsNameTheField) {
  const auto refuses = [](const char* text, const char* words) {
    expect_input_error([&] { static_cast<void>(read_message<LeaseRequest>(parsed(text))); }, 0, 0, words);
  };
  refuses(R"([])", "the message is [], not an object");
  refuses(R"({"gpus": 0})", "gpus: is 0, not a list");
  refuses(R"({"gpus": [0, 1.5]})", "gpus[1]: is 1.5, not a whole number");
  refuses(R"({"gpus": [18446744073709551615]})", "gpus[0]: is 18446744073709551615, out of range");
  refuses(R"({"gpus": [0], "heartbeat_timeout_s": "1"})", "heartbeat_timeout_s: is \"1\", not a number");
  refuses(R"({"gpus": [0], "binding": "forever"})", "binding: is 'forever'");
  refuses(R"({"gpus": [0], "may_set": ["sm_clocks"], "lost_power_limit_w": 150})",
          "lost_power_limit_w: is a power limit, which may_set leaves out");
  refuses(R"({"gpus": [0], "lost_power_limit_w": 0})", "lost_power_limit_w: is 0");
  refuses(R"({"gpus": [0], "gpu": 1})", "gpu: there is no such field");
  expect_input_error(
      [] { static_cast<void>(read_message<SettingsChange>(parsed(R"({"sm_clocks_mhz": {"minimum": 1, "max": 2}})"))); },
      0, 0, "sm_clocks_mhz.maximum: is missing");
}

TEST(AgentMessages, WhatIsNoJsonIsRefusedWithItsPlace) {
  expect_input_error([] { static_cast<void>(parse_json("the request", "{\n \"a\": }")); }, 2, 7, "this is no JSON");
  expect_input_error([] { static_cast<void>(parse_json("the request", "")); }, 1, 1, "this is no JSON");
}

NodeStatus full_status() {
  NodeStatus node;
  node.node = "n1";
  node.version = "0.1.0";
  GpuStatus gpu;
  gpu.index = 1;
  gpu.uuid = "GPU-1";
  gpu.name = "A100";
  gpu.health = GpuHealth::kRestoring;
  gpu.trouble = "why";
  gpu.power = Watts(71.5);
  gpu.energy = Joules(1e9);
  gpu.sm_clock = Megahertz(1005);
  gpu.utilisation = 0.25;
  gpu.throttle_reasons = {"idle", "thermal"};
  LeaseInfo lease;
  lease.id = "L3";
  lease.holder.uid = 1000;
  lease.holder.pid = 42;
  lease.holder.name = "python3";
  lease.gpus = {1};
  lease.may_set = {Knob::kSmClocks};
  lease.heartbeat_timeout = Seconds(1);
  lease.shared = true;
  lease.age = Seconds(3);
  lease.settings[1].sm_clocks = ClockBounds{Megahertz(210), Megahertz(1005)};
  gpu.lease = lease;
  node.gpus = {GpuStatus(), gpu};
  CpuStatus cpu;
  cpu.name = "package-0";
  cpu.package_energy = Joules(5);
  node.cpus = {cpu};
  return node;
}

TEST(AgentMessages, ANumberBeyondAllNumbersIsRefused) {
  expect_input_error([] { static_cast<void>(parse_json("the request", R"({"power_limit_w": 1e999})")); }, 0, 0,
                     "a number is too large");
}

TEST(AgentMessages, AStatusSurvivesTheWire) {
  const NodeStatus node = full_status();
  const std::string text = to_json(node).dump();
  EXPECT_EQ(to_json(read_message<NodeStatus>(parsed(text))).dump(), text);
}

// Who is neither of the lease's user nor root is not told its identifier.
TEST(AgentMessages, ALeaseWithoutItsIdentifierIsRead) {
  LeaseInfo lease;
  lease.gpus = {0};
  const auto json = parsed(to_json(lease).dump());
  EXPECT_TRUE(json["id"].is_null());
  EXPECT_EQ(read_message<LeaseInfo>(json).id, "");
}

TEST(AgentMessages, ALeaseIsSharedOnlyWhereItIsAskedFor) {
  EXPECT_FALSE(read_message<LeaseRequest>(parsed(R"({"gpus": [0]})")).shared);
  EXPECT_FALSE(read_message<LeaseRequest>(parsed(R"({"gpus": [0], "shared": null})")).shared);
  LeaseRequest request;
  request.gpus = {0};
  request.shared = true;
  EXPECT_TRUE(read_message<LeaseRequest>(parsed(to_json(request).dump())).shared);
}

TEST(AgentMessages, ANewerAgentMaySayMore) {
  nlohmann::json json = parsed(to_json(full_status()).dump());
  json["weather"] = "fine";
  json["gpus"][1]["colour"] = "green";
  EXPECT_EQ(read_message<NodeStatus>(json).gpus.size(), 2u);
}

TEST(AgentMessages, SmallAnswersAreWrittenInOneWay) {
  EXPECT_EQ(to_json(LeaseAlive{"L3", Seconds(1.5)}).dump(), R"({"id":"L3","age_s":1.5})");
  EXPECT_EQ(to_json(LeaseEnded{"L3"}).dump(), R"({"id":"L3","restored":true})");
  EXPECT_EQ(to_json(AccountSessionDropped{"epoch"}).dump(), R"({"name":"epoch","dropped":true})");
  EXPECT_EQ(to_json(LeaseList{}).dump(), R"({"leases":[]})");
  EXPECT_EQ(to_json(AccountSessionList{}).dump(), R"({"sessions":[]})");
  const GpuClocks clocks{{Megahertz(1410), Megahertz(210)}, {Megahertz(1215)}, {Watts(100), Watts(300), Watts(250)}};
  const std::string text = to_json(clocks).dump();
  EXPECT_EQ(text, R"({"sm_clocks_mhz":[1410.0,210.0],"memory_clocks_mhz":[1215.0],)"
                  R"("power_limit_w":{"minimum":100.0,"maximum":300.0,"standard":250.0}})");
  EXPECT_EQ(to_json(read_message<GpuClocks>(parsed(text))).dump(), text);
}

TEST(AgentMessages, PowerPointsSurviveTheWire) {
  const PowerEvent event{
      {{"GPU:0", Seconds(1.25), Watts(70), Joules(2)}, {"DRAM:0", Seconds(1.5), Watts(6), Joules(3)}}};
  const auto read = read_message<PowerEvent>(parsed(to_json(event).dump())).samples;
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[1].device, "DRAM:0");
  EXPECT_EQ(read[1].time, Seconds(1.5));
  EXPECT_EQ(read[1].energy, Joules(3));
}

TEST(AgentMessages, AHolderIsNamedInOneWay) {
  LeaseHolder holder;
  holder.name = "10.0.0.7:51";
  EXPECT_EQ(holder.text(), "10.0.0.7:51");
  holder.name = "python3";
  holder.uid = 1000;
  holder.pid = 42;
  EXPECT_EQ(holder.text(), "python3 (uid 1000, pid 42)");
  holder.name.clear();
  EXPECT_EQ(holder.text(), "uid 1000, pid 42");
}

}  // namespace
}  // namespace flyball
