// The picture of `flyball top`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <nlohmann/json.hpp>

#include "cli/top_view.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

GpuStatus gpu(std::size_t index) {
  GpuStatus status;
  status.index = index;
  status.uuid = "GPU-" + std::to_string(index);
  status.name = "NVIDIA A100 80GB PCIe";
  status.power = Watts(150);
  status.power_limit = Watts(300);
  status.energy = Joules(5000);
  status.sm_clock = Megahertz(1005);
  status.sm_clock_maximum = Megahertz(1410);
  status.temperature_celsius = 61;
  status.utilisation = 0.98;
  return status;
}

TopFrame frame(std::size_t columns) {
  TopFrame made;
  made.columns = columns;
  made.source = "agent at /run/flyball/agent.sock";
  made.elapsed = Seconds(75);
  made.first.node = "node7";
  made.first.gpus = {gpu(0), gpu(1)};
  made.now = made.first;
  made.now.gpus[0].energy = Joules(17345);
  made.now.gpus[0].throttle_reasons = {"power limit"};
  LeaseInfo lease;
  lease.holder.uid = 1000;
  lease.holder.pid = 4242;
  lease.holder.name = "python3";
  lease.purpose = "run 12";
  lease.settings[0].sm_clocks = ClockBounds{Megahertz(210), Megahertz(1005)};
  made.now.gpus[0].lease = lease;
  return made;
}

std::size_t width(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }));
}

TEST(Top, NoLineIsWiderThanTheTerminal) {
  for (std::size_t columns = 20; columns <= 200; ++columns) {
    std::istringstream lines(draw_top(frame(columns)));
    std::string line;
    while (std::getline(lines, line)) EXPECT_LE(width(line), columns) << line;
  }
}

TEST(Top, ACapIsMarkedAndSaysWhose) {
  TopFrame capped = frame(160);
  capped.now.gpus[1].cap = Cap{Watts(300), "flyball (uid 0, pid 7)", Seconds(1'800'000'000)};
  const std::string text = draw_top(capped);
  EXPECT_THAT(text, HasSubstr("300 W* "));
  EXPECT_THAT(text, HasSubstr("cap of flyball (uid 0, pid 7)\n"));
}

TEST(Top, AWideTerminalShowsEverything) {
  const std::string text = draw_top(frame(160));
  for (const char* words : {"node7  2 GPUs  300 W  12.35 kJ in 1 min 15 s\n", "agent at /run/flyball/agent.sock\n",
                            "A100 80GB PCIe", "150 W  █████     ", "1005 MHz*", "61 °C", "98 %", "12.35 kJ",
                            "power limit", "python3 (uid 1000, pid 4242): run 12\n"}) {
    EXPECT_THAT(text, HasSubstr(words));
  }
  EXPECT_THAT(text, Not(HasSubstr("\x1b"))) << "no colour unless asked for";
}

TEST(Top, ANarrowOneKeepsWhatMatters) {
  const std::string text = draw_top(frame(60));
  for (const char* words : {"GPU", "150 W", "300 W", "1005 MHz*", "12.35 kJ", "lease"})
    EXPECT_THAT(text, HasSubstr(words));
  EXPECT_THAT(text, Not(HasSubstr("A100")));
}

TEST(Top, WhoHoldsALeaseIsNotCutShort) {
  const std::string text = draw_top(frame(80));
  EXPECT_THAT(text, HasSubstr("lease of GPU 0  python3 (uid 1000, pid 4242): run 12\n"));
  EXPECT_THAT(draw_top(frame(160)), Not(HasSubstr("lease of GPU"))) << "there is room in the table";
  TopFrame nobody = frame(60);
  nobody.now.gpus[0].lease.reset();
  EXPECT_THAT(draw_top(nobody), Not(HasSubstr("lease of GPU")));
}

// Who asks for a lease chooses these words; they may not colour, clear or forge lines.
TEST(Top, ForeignWordsStayWords) {
  TopFrame made = frame(200);
  made.now.gpus[0].lease->purpose = "run\x1b[2J 12\nGPU 9";
  made.now.gpus[0].name = "A100\x9B";
  made.now.node = "node\x07";
  made.away = "\x1b]0;title\x07";
  for (const std::size_t columns : {80u, 200u}) {
    made.columns = columns;
    const std::string text = draw_top(made);
    EXPECT_THAT(text, HasSubstr("run\\u001b[2J 12\\u000aGPU 9"));
    EXPECT_THAT(text, HasSubstr("node\\u0007"));
    for (const char* obeyed : {"\x1b", "\x07"}) EXPECT_THAT(text, Not(HasSubstr(obeyed)));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(width(line), columns) << line;
  }
}

TEST(Top, OneGpuIsOne) {
  TopFrame made = frame(100);
  made.now.gpus.pop_back();
  EXPECT_THAT(draw_top(made), HasSubstr("node7  1 GPU  150 W"));
}

TEST(Top, AnAgentThatIsAwayIsSaid) {
  TopFrame made = frame(100);
  made.away = "cannot reach /run/flyball/agent.sock: Connection refused";
  EXPECT_THAT(draw_top(made), HasSubstr("last look; trying again: cannot reach /run/flyball/agent.sock"));
  EXPECT_EQ(nlohmann::json::parse(top_json(made))["away"], made.away);
  EXPECT_TRUE(nlohmann::json::parse(top_json(frame(100)))["away"].is_null());
}

TEST(Top, TroubleIsSaid) {
  TopFrame made = frame(100);
  made.now.gpus[1].health = GpuHealth::kLost;
  made.now.gpus[1].trouble = "it fell off the bus\n  to mend: reboot";
  EXPECT_THAT(draw_top(made), HasSubstr("GPU 1: it fell off the bus\n"));
  made.colour = true;
  EXPECT_THAT(draw_top(made), HasSubstr("\x1b[31m"));
  made.now.gpus.clear();
  EXPECT_THAT(draw_top(made), HasSubstr("no GPUs here"));
}

TEST(Top, AGpuThatSaysNothingShowsDashes) {
  TopFrame made = frame(140);
  GpuStatus silent;
  silent.index = 7;
  made.now.gpus = {silent};
  EXPECT_THAT(draw_top(made), HasSubstr("  7"));
  const auto json = nlohmann::json::parse(top_json(made));
  EXPECT_TRUE(json["gpus"][0]["power_w"].is_null());
  EXPECT_TRUE(json["gpus"][0]["energy_since_start_j"].is_null());
}

TEST(Top, JsonCountsEnergyFromTheStart) {
  const auto json = nlohmann::json::parse(top_json(frame(80)));
  EXPECT_EQ(json["gpus"][0]["energy_since_start_j"], 12345.0);
  EXPECT_EQ(json["elapsed_s"], 75.0);
  EXPECT_EQ(json["source"], "agent at /run/flyball/agent.sock");
}

}  // namespace
}  // namespace flyball
