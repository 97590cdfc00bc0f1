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
  made.nodes.resize(1);
  made.columns = columns;
  made.source = "agent at /run/flyball/agent.sock";
  made.elapsed = Seconds(75);
  made.nodes[0].first.node = "node7";
  made.nodes[0].first.gpus = {gpu(0), gpu(1)};
  made.nodes[0].now = made.nodes[0].first;
  made.nodes[0].now.gpus[0].energy = Joules(17345);
  made.nodes[0].now.gpus[0].throttle_reasons = {"power limit"};
  LeaseInfo lease;
  lease.holder.uid = 1000;
  lease.holder.pid = 4242;
  lease.holder.name = "python3";
  lease.purpose = "run 12";
  lease.settings[0].sm_clocks = ClockBounds{Megahertz(210), Megahertz(1005)};
  made.nodes[0].now.gpus[0].lease = lease;
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
  capped.nodes[0].now.gpus[1].cap = Cap{Watts(300), "flyball (uid 0, pid 7)", Seconds(1'800'000'000)};
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
  nobody.nodes[0].now.gpus[0].lease.reset();
  EXPECT_THAT(draw_top(nobody), Not(HasSubstr("lease of GPU")));
}

// Who asks for a lease chooses these words; they may not colour, clear or forge lines.
TEST(Top, ForeignWordsStayWords) {
  TopFrame made = frame(200);
  made.nodes[0].now.gpus[0].lease->purpose = "run\x1b[2J 12\nGPU 9";
  made.nodes[0].now.gpus[0].name = "A100\x9B";
  made.nodes[0].now.node = "node\x07";
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
  made.nodes[0].now.gpus.pop_back();
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
  made.nodes[0].now.gpus[1].health = GpuHealth::kLost;
  made.nodes[0].now.gpus[1].trouble = "it fell off the bus\n  to mend: reboot";
  EXPECT_THAT(draw_top(made), HasSubstr("GPU 1: it fell off the bus\n"));
  made.colour = true;
  EXPECT_THAT(draw_top(made), HasSubstr("\x1b[31m"));
  made.nodes[0].now.gpus.clear();
  EXPECT_THAT(draw_top(made), HasSubstr("no GPUs here"));
}

TEST(Top, AGpuThatSaysNothingShowsDashes) {
  TopFrame made = frame(140);
  GpuStatus silent;
  silent.index = 7;
  made.nodes[0].now.gpus = {silent};
  EXPECT_THAT(draw_top(made), HasSubstr("  7"));
  const auto json = nlohmann::json::parse(top_json(made));
  EXPECT_TRUE(json["gpus"][0]["power_w"].is_null());
  EXPECT_TRUE(json["gpus"][0]["energy_since_start_j"].is_null());
}

// Sixteen GPUs of a job and the line of its leases fit the terminal that everybody has.
TEST(Top, SixteenGpusFitIn24Lines) {
  TopFrame made = frame(80);
  made.lines = 24;
  NodeStatus& now = made.nodes[0].now;
  now.gpus.clear();
  for (std::size_t i = 0; i < 16; ++i) {
    now.gpus.push_back(gpu(i));
    LeaseInfo& lease = now.gpus.back().lease.emplace();
    lease.holder.name = "python3";
    lease.holder.pid = static_cast<int>(4000 + i);
    lease.job = "bert";
    lease.purpose = "bert, rank " + std::to_string(i);
  }
  const std::string text = draw_top(made);
  EXPECT_LE(std::ranges::count(text, '\n'), 24);
  EXPECT_EQ(rows_of_top(made).shown, 16u) << text;
  EXPECT_THAT(text, HasSubstr("lease of GPUs 0-15  job bert: python3 (pid 4000) and 15 more\n"));
}

// What an operator of jobs asks first is in the table; what holds a clock back has a line when its column has no room.
TEST(Top, EightyColumnsHaveStagePlanSavingAndThePast) {
  TopFrame made = frame(80);
  made.lines = 24;
  made.has_nodes = true;
  NodeStatus& now = made.nodes[0].now;
  now.gpus.clear();
  for (std::size_t i = 0; i < 16; ++i) {
    now.gpus.push_back(gpu(i));
    LeaseInfo& lease = now.gpus.back().lease.emplace();
    lease.holder.name = "python3";
    lease.job = "bert";
    lease.rank = static_cast<int>(i);
    made.jobs["bert"].stages[static_cast<int>(i)] = 20 + static_cast<int>(i);
    made.powers[now.gpus.back().uuid] = {0.0, 150.0, 300.0};  // of a limit of 300 W
  }
  made.jobs["bert"].version = 7;
  made.jobs["bert"].promise = PromiseVerdict::kKept;
  made.jobs["bert"].saving_pct = 12.34;
  for (const std::size_t i : {0u, 1u, 2u, 6u}) now.gpus[i].throttle_reasons = {"power limit"};
  now.gpus[9].throttle_reasons = {"too hot"};
  const std::string text = draw_top(made);
  EXPECT_LE(std::ranges::count(text, '\n'), 24) << text;
  EXPECT_EQ(rows_of_top(made).shown, 16u) << text;
  for (const char* words : {"GPU", "power", "lately", "SM clock", "job", "stage", "plan", "saves", "▁▅█", " 35  ",
                            "7 kept", "12.3 %", "held back: GPUs node7:0-2,6 power limit; GPU node7:9 too hot\n"}) {
    EXPECT_THAT(text, HasSubstr(words)) << text;
  }
  made.columns = 200;
  EXPECT_THAT(draw_top(made), Not(HasSubstr("held back: "))) << "there is room in the table";
}

TEST(Top, LongTablesScroll) {
  TopFrame made = frame(100);
  made.lines = 20;
  made.nodes[0].now.gpus.clear();
  for (std::size_t i = 0; i < 64; ++i) made.nodes[0].now.gpus.push_back(gpu(i));
  const TopRows rows = rows_of_top(made);
  EXPECT_EQ(rows.all, 64u);
  EXPECT_EQ(rows.shown, 15u) << "beside a title, the source, an empty line, headings and the keys";
  EXPECT_THAT(draw_top(made), HasSubstr("rows 1 to 15 of 64, arrows scroll"));
  made.offset = 10;
  EXPECT_THAT(draw_top(made), HasSubstr("rows 11 to 25 of 64"));
  made.offset = 1000;
  const std::string end = draw_top(made);
  EXPECT_THAT(end, HasSubstr("rows 50 to 64 of 64"));
  EXPECT_THAT(end, HasSubstr("\n 63  "));
  EXPECT_EQ(std::ranges::count(end, '\n'), 20);
}

TEST(Top, RowsAreOrderedAsAsked) {
  TopFrame made = frame(100);
  auto& gpus = made.nodes[0].now.gpus;
  gpus = {gpu(0), gpu(1), gpu(2)};
  gpus[1].power = Watts(290);
  gpus[2].power.reset();
  const auto at = [&](const char* begin) { return draw_top(made).find(begin); };
  made.order = TopOrder::kPower;
  EXPECT_LT(at("\n  1  "), at("\n  0  "));
  EXPECT_LT(at("\n  0  "), at("\n  2  ")) << "what is not known comes last";
  made.order = TopOrder::kGpu;
  EXPECT_LT(at("\n  0  "), at("\n  1  "));
}

TEST(Top, TheLastReadingsAreALine) {
  TopFrame made = frame(200);
  // Of a limit of 300 W: nothing, half, all.
  made.powers["GPU-0"] = {0.0, 150.0, 300.0};
  EXPECT_THAT(draw_top(made), HasSubstr("▁▅█"));
  made.powers["GPU-0"] = std::vector<double>(40, 300.0);
  EXPECT_THAT(draw_top(made), HasSubstr("  ██████████  "));
}

TEST(Top, NodesOfAServer) {
  TopFrame made = frame(200);
  made.has_nodes = true;
  made.source = "planning server at plan:4940";
  made.nodes[0].now.gpus[0].lease->job = "bert";
  made.nodes[0].now.gpus[0].lease->rank = 5;
  made.jobs["bert"] = {7, PromiseVerdict::kKept, 12.34, {{5, 21}}};
  made.nodes.push_back(made.nodes[0]);
  TopNode& silent = made.nodes[1];
  silent.now.node = "node8";
  silent.silent = "for 12 s: Connection refused\nmore";
  for (GpuStatus& one : silent.now.gpus) {
    one.power.reset();
    one.lease.reset();
  }
  const std::string text = draw_top(made);
  for (const char* words : {"2 nodes (1 silent)  4 GPUs  300 W", "node7", "bert", "stage", "   21 ", "7 kept", "12.3 %",
                            "node is silent", "node node8 is silent: for 12 s: Connection refused\n"}) {
    EXPECT_THAT(text, HasSubstr(words));
  }
  const auto json = nlohmann::json::parse(top_json(made));
  EXPECT_EQ(json["nodes"][0]["gpus"][0]["energy_since_start_j"], 12345.0);
  EXPECT_TRUE(json["nodes"][0]["silent"].is_null());
  EXPECT_EQ(json["nodes"][1]["silent"], silent.silent);
  EXPECT_EQ(json["jobs"]["bert"]["promise"], "kept");
}

TEST(Top, JsonCountsEnergyFromTheStart) {
  const auto json = nlohmann::json::parse(top_json(frame(80)));
  EXPECT_EQ(json["gpus"][0]["energy_since_start_j"], 12345.0);
  EXPECT_EQ(json["elapsed_s"], 75.0);
  EXPECT_EQ(json["source"], "agent at /run/flyball/agent.sock");
}

}  // namespace
}  // namespace flyball
