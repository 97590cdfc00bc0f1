#include "agent/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "base/text.h"
#include "support/metrics_markdown.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;
using testing::metrics_as_markdown;

TEST(Metrics, NamesFollowPrometheusRules) {
  std::set<std::string> names;
  for (const MetricInfo& metric : metric_registry()) {
    const std::string name = metric.name;
    EXPECT_TRUE(std::regex_match(name, std::regex("flyball_(gpu|cpu|dram|agent)_[a-z_]+"))) << name;
    EXPECT_TRUE(names.insert(name).second) << name << " stands twice";
    EXPECT_EQ(name.ends_with("_total"), metric.kind == MetricKind::kCounter) << name;
    EXPECT_TRUE(std::string(metric.help).ends_with('.')) << name;
    const std::string unit = metric.unit;
    const auto says = [&](const char* word) { return name.find(word) != std::string::npos; };
    EXPECT_EQ(unit == "W", says("_watts")) << name;
    EXPECT_EQ(unit == "J", says("_joules")) << name;
    EXPECT_EQ(unit == "Hz", says("_hertz")) << name;
    EXPECT_EQ(unit == "s", says("_seconds")) << name;
    EXPECT_EQ(unit == "By", says("_bytes")) << name;
  }
}

TEST(Metrics, TheDocumentIsMadeFromTheRegistry) {
  EXPECT_THAT(read_text_file(FLYBALL_SOURCE_DIR "/docs/metrics.md"), HasSubstr(metrics_as_markdown(metric_registry())))
      << "put this table into docs/metrics.md:\n"
      << metrics_as_markdown(metric_registry());
}

TEST(Metrics, EveryMetricOfTheRegistryIsExposed) {
  NodeStatus node;
  GpuStatus gpu;
  gpu.power = Watts(1);
  gpu.energy = Joules(2);
  gpu.sm_clock = Megahertz(1410);
  gpu.memory_clock = Megahertz(3);
  gpu.power_limit = Watts(4);
  gpu.cap = Cap{Watts(4), "alice", Seconds(8)};
  gpu.temperature_celsius = 5;
  gpu.utilisation = 0.5;
  gpu.throttle_reasons = {"thermal"};
  gpu.lease.emplace();
  gpu.lease->job = "night";
  node.gpus.push_back(gpu);
  CpuStatus cpu;
  cpu.package_energy = Joules(6);
  cpu.dram_energy = Joules(7);
  node.cpus.push_back(cpu);
  const std::string text = expose_metrics(node, {}, {}, read_vitals());
  for (const MetricInfo& metric : metric_registry()) {
    EXPECT_THAT(text, HasSubstr(std::string("# TYPE ") + metric.name + " "));
  }
  EXPECT_THAT(text, HasSubstr("flyball_gpu_cap_watts{gpu=\"0\",uuid=\"\",name=\"\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("flyball_gpu_sm_clock_hertz{gpu=\"0\",uuid=\"\",name=\"\"} 1410000000\n"));
  EXPECT_THAT(text, HasSubstr("flyball_agent_leases_ended_total{why=\"silent\"} 0\n"));
}

TEST(Metrics, WhatADeviceDoesNotSayIsLeftOut) {
  NodeStatus node;
  node.gpus.emplace_back();
  EXPECT_THAT(expose_metrics(node, {}, {}, {}), ::testing::Not(HasSubstr("flyball_gpu_power_watts")));
}

}  // namespace
}  // namespace flyball
