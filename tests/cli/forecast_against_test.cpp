// flyball forecast RUN.toml --against RECORDING: forecast and bill, line by line.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "cli/program.h"

namespace flyball::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// 10 iterations of two nodes: 4 s of indexing, then 1 s forward and 1 s backward an iteration.
constexpr const char* kTwoNodes = R"(samples = 80
batch = 4
iteration_seconds = 2
[[nodes]]
name = "a"
count = 2
spread = 0.1
power_w.processor = { active = 100, idle = 20 }
power_w.memory = { active = 30, idle = 10 }
[nodes.stage]
set_dataset.seconds = 4
load_data.seconds = 0
preprocess.seconds = 0
model_in_out.seconds = 0
forward.seconds = 1
backward.seconds = 1
communication.seconds = 0
wait.seconds = 0
update.seconds = 0
)";

void write_constant(const std::string& file, const std::string& device, double watts, int seconds) {
  std::string power = "# flyball power trace, version 1\ntimestamp,device,power_w\n";
  for (int t = 0; t <= seconds; ++t) power += fmt::format("{},{},{}\n", 1000 + t, device, watts);
  write_file(file, power);
}

json against(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"forecast"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  all.insert(all.end(), {"--format", "json"});
  const Ran ran = run_flyball(all);
  EXPECT_EQ(ran.status, 0) << ran.err;
  return ran.json().at("against");
}

json line(const json& bill, const std::string& name) {
  for (const json& one : bill.at("lines")) {
    if (one.at("name") == name) return one;
  }
  ADD_FAILURE() << "no line " << name;
  return {};
}

TEST(ForecastAgainst, ComparesWhatBothHave) {
  const TempFolder folder;
  write_file(folder / "run.toml", kTwoNodes);
  write_constant(folder / "power.csv", "CPU:0", 90, 26);
  const json bill =
      against({folder / "run.toml", "--against", folder / "power.csv", "--carbon", "360", "--price", "0.72"});
  // One node: 4 s at 20 W, 20 s at 100 W: 2080 J in 24 s. Measured 26 s at 90 W: 2340 J, 12.5 % more.
  EXPECT_NEAR(line(bill, "duration").at("forecast"), 24.0, 1e-9);
  EXPECT_NEAR(line(bill, "duration").at("measured"), 26.0, 1e-6);
  EXPECT_NEAR(line(bill, "duration").at("off_pct"), 100.0 * 2.0 / 24.0, 1e-4);
  const json processor = line(bill, "processor");
  EXPECT_NEAR(processor.at("forecast").get<double>() * 3.6e6, 2080.0, 1e-6);
  EXPECT_NEAR(processor.at("measured").get<double>() * 3.6e6, 2340.0, 1e-3);
  EXPECT_NEAR(processor.at("off_pct"), 12.5, 1e-4);
  // The memory, 4 s and 20 s at 30 W, has no meter: it is neither zero nor part of the total.
  const json memory = line(bill, "memory");
  EXPECT_NEAR(memory.at("forecast").get<double>() * 3.6e6, 720.0, 1e-6);
  EXPECT_TRUE(memory.at("measured").is_null());
  EXPECT_TRUE(memory.at("in_interval").is_null());
  EXPECT_EQ(line(bill, "total").at("forecast"), processor.at("forecast"));
  EXPECT_EQ(line(bill, "total").at("measured"), processor.at("measured"));
  EXPECT_NEAR(line(bill, "mean_power").at("forecast"), 2080.0 / 24.0, 1e-6);
  EXPECT_NEAR(line(bill, "mean_power").at("measured"), 90.0, 1e-4);
  // 2340 J are 0.00065 kWh: at 360 g and 0.72 the kWh, 0.234 g and 0.000468.
  EXPECT_NEAR(line(bill, "CO2").at("measured"), 0.000234, 1e-9);
  EXPECT_NEAR(line(bill, "cost").at("measured"), 0.000468, 1e-9);
  // The whole run, both nodes with memory, is forecast to take 2 x 2800 J; 12.5 % more is 6300 J.
  EXPECT_NEAR(bill.at("run_kwh").get<double>() * 3.6e6, 6300.0, 1e-2);

  const Ran text = run_flyball({"forecast", folder / "run.toml", "--against", folder / "power.csv"});
  EXPECT_THAT(text.out, HasSubstr("without a recording: 1 of 'a'"));
  EXPECT_THAT(text.out, HasSubstr("not measured"));
  EXPECT_THAT(text.out, HasSubstr("+12.5"));
  ASSERT_EQ(
      run_flyball({"forecast", folder / "run.toml", "--against", folder / "power.csv", "--out", folder / "out"}).status,
      0);
  EXPECT_THAT(file_text(folder / "out/forecast.html"), HasSubstr("Forecast and bill"));
}

TEST(ForecastAgainst, APartOfTheRunIsComparedWithItsForecast) {
  const TempFolder folder;
  write_file(folder / "run.toml", kTwoNodes);
  write_constant(folder / "power.csv", "CPU:0", 90, 12);
  // Five of ten iterations after 4 s at 20 W: 1080 J in 14 s. Without what runs once 1000 J in 10 s. Measured 1080 J.
  const json begin = against({folder / "run.toml", "--against", folder / "power.csv", "--iterations", "5"});
  EXPECT_NEAR(line(begin, "duration").at("forecast"), 14.0, 1e-9);
  EXPECT_NEAR(line(begin, "total").at("off_pct"), 0.0, 1e-4);
  EXPECT_TRUE(line(begin, "total").at("in_interval").get<bool>());
  EXPECT_EQ(begin.at("of_iterations"), 10.0);
  const json steady =
      against({folder / "run.toml", "--against", folder / "power.csv", "--iterations", "5", "--steady"});
  EXPECT_NEAR(line(steady, "duration").at("forecast"), 10.0, 1e-9);
  EXPECT_NEAR(line(steady, "total").at("off_pct"), 8.0, 1e-4);
  EXPECT_FALSE(steady.at("with_begin").get<bool>());
  // Taken for the whole run it is half as long as it should be, and the user is told how to say so: 12 s are 6 of 2 s.
  const json whole = against({folder / "run.toml", "--against", folder / "power.csv"});
  EXPECT_THAT(whole.at("note"), HasSubstr("write --iterations N; it is as long as 6 iterations"));
  const Ran more =
      run_flyball({"forecast", folder / "run.toml", "--against", folder / "power.csv", "--iterations", "11"});
  EXPECT_EQ(more.status, 2);
  EXPECT_THAT(more.err, HasSubstr("the run has 10 iterations"));
}

TEST(ForecastAgainst, OneNodeOfTwoDiffersByTheSpread) {
  // Relative half widths of the same forecast, with one and with both nodes recorded: all causes are alike but that one
  // node's power differs from the mean of two by 10 %, squared times (1 - 1/2); at 90 % 1.644854 standard deviations.
  const TempFolder folder;
  write_file(folder / "run.toml", kTwoNodes);
  write_constant(folder / "1.csv", "CPU:0", 90, 24);
  write_constant(folder / "2.csv", "CPU:0", 80, 24);
  const auto squared_half = [](const json& bill) {
    const json total = line(bill, "total");
    const double forecast = total.at("forecast");
    return std::pow(1.0 - total.at("low").get<double>() / forecast, 2);
  };
  const json one = against({folder / "run.toml", "--against", folder / "1.csv"});
  const json both = against({folder / "run.toml", "--against", "a=" + folder / "1.csv", "--against", folder / "2.csv"});
  EXPECT_NEAR(squared_half(one) - squared_half(both), std::pow(1.644854 * 0.1, 2) * 0.5, 1e-6);
  EXPECT_NEAR(line(both, "total").at("measured").get<double>() * 3.6e6, 170.0 * 24.0, 1e-2);
  EXPECT_NEAR(line(both, "total").at("forecast").get<double>() * 3.6e6, 2 * 2080.0, 1e-6);
  // Nodes that draw unlike powers do not make a run longer or shorter: the power's spread is not in the duration's
  // interval. Of both nodes' speed one is unknown, 1/1 - 1/2.
  std::string equal = kTwoNodes;
  equal.replace(equal.find("spread = 0.1"), 12, "spread = 0.0");
  write_file(folder / "equal.toml", equal);
  const json alike = against({folder / "equal.toml", "--against", folder / "1.csv"});
  const auto low = [](const json& bill) { return 1.0 - line(bill, "duration").at("low").get<double>() / 24.0; };
  EXPECT_NEAR(std::pow(low(one), 2) - std::pow(low(alike), 2), std::pow(1.644854 * 0.1, 2) * 0.5, 1e-6);
}

TEST(ForecastAgainst, TypesOfNodesAndForeignDevices) {
  const TempFolder folder;
  std::string run = kTwoNodes;
  std::string second = run.substr(run.find("[[nodes]]"));
  second.replace(second.find("\"a\""), 3, "\"b\"");
  second.replace(second.find("power_w.memory"), std::string("power_w.memory = { active = 30, idle = 10 }").size(), "");
  write_file(folder / "run.toml", run + second);
  write_constant(folder / "1.csv", "CPU:0", 90, 14);
  write_constant(folder / "2.csv", "GPU:0", 300, 14);
  write_constant(folder / "3.csv", "DRAM:0", 5, 14);
  // 80 samples by four nodes of 4: five iterations, 14 s. The GPU is in no forecast.
  const json bill = against({folder / "run.toml", "--against", "a=" + folder / "1.csv", "--against",
                             "a=" + folder / "2.csv", "--against", "b=" + folder / "3.csv"});
  EXPECT_NEAR(line(bill, "processor").at("forecast").get<double>() * 3.6e6, 1080.0, 1e-6);  // of one node alone
  EXPECT_TRUE(line(bill, "accelerator").at("forecast").is_null());
  EXPECT_NEAR(line(bill, "accelerator").at("measured").get<double>() * 3.6e6, 4200.0, 1e-2);
  EXPECT_NEAR(line(bill, "total").at("measured").get<double>() * 3.6e6, 1260.0, 1e-2);
  EXPECT_THAT(bill.at("note"), HasSubstr("memory: "));  // b has no memory power; a's memory has no meter
  const Ran text = run_flyball({"forecast", folder / "run.toml", "--against", "a=" + folder / "1.csv"});
  EXPECT_THAT(text.out, HasSubstr("without a recording: 1 of 'a', the 2 of 'b'"));
  const Ran unknown = run_flyball({"forecast", folder / "run.toml", "--against", "c=" + folder / "1.csv"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("no node type is called 'c'"));
  EXPECT_EQ(run_flyball({"forecast", folder / "run.toml", "--against", folder / "1.csv"}).status, 2);
}

TEST(ForecastAgainst, SaysWhatCannotBeCompared) {
  const TempFolder folder;
  write_file(folder / "run.toml", kTwoNodes);
  write_constant(folder / "gpu.csv", "GPU:0", 300, 24);
  const json bill = against({folder / "run.toml", "--against", folder / "gpu.csv"});
  EXPECT_THAT(bill.at("note"), HasSubstr("no component is both forecast and measured"));
  EXPECT_TRUE(bill.at("run_kwh").is_null());
  const Ran text = run_flyball({"forecast", folder / "run.toml", "--against", folder / "gpu.csv"});
  EXPECT_THAT(text.out, HasSubstr("not forecast"));
  EXPECT_THAT(text.out, Not(HasSubstr("total of both")));
  write_constant(folder / "cpu.csv", "CPU:0", 90, 24);
  const std::vector<std::string> three = {"--against",        folder / "cpu.csv", "--against",
                                          folder / "cpu.csv", "--against",        folder / "cpu.csv"};
  std::vector<std::string> arguments = {"forecast", folder / "run.toml"};
  arguments.insert(arguments.end(), three.begin(), three.end());
  const Ran many = run_flyball(arguments);
  EXPECT_EQ(many.status, 2);
  EXPECT_THAT(many.err, HasSubstr("more recordings of 'a' than its 2 nodes"));
  const json same = against({folder / "run.toml", "--calibrate", folder / "cpu.csv", "--against", folder / "cpu.csv"});
  EXPECT_THAT(same.at("note"), HasSubstr("the forecast itself was made from"));
  EXPECT_EQ(run_flyball({"forecast", folder / "run.toml", "--iterations", "5"}).status, 2);
  EXPECT_EQ(run_flyball({"forecast", folder / "run.toml", "--steady"}).status, 2);
  write_file(folder / "empty.csv", "");
  EXPECT_EQ(run_flyball({"forecast", folder / "run.toml", "--against", folder / "empty.csv"}).status, 3);
  EXPECT_NE(run_flyball({"forecast", folder / "run.toml", "--against", folder / "none.csv"}).status, 0);
}

}  // namespace
}  // namespace flyball::testing
