// flyball forecast RUN.toml with other nodes, clocks and budgets, run as users run it.
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

constexpr const char* kGenerations = "examples/forecast/two-generations.toml";

json asked(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "forecast");
  arguments.insert(arguments.end(), {"--format", "json"});
  const Ran ran = run_flyball(arguments);
  EXPECT_EQ(ran.status, 0) << ran.err;
  return ran.json();
}

TEST(ForecastWhatIf, NodesOfEachType) {
  const json before = asked({kGenerations});
  const json more = asked({kGenerations, "--nodes", "new=48", "--nodes", "old=32"});
  // Twice the nodes: half the iterations, and less than half the time is saved, since all-reduces take longer.
  EXPECT_NEAR(more.at("iterations"), 10'000.0, 1e-6);
  EXPECT_EQ(more.at("node_types").at(0).at("count"), 48);
  EXPECT_EQ(more.at("baseline").at("total_kwh"), before.at("total_kwh"));
  EXPECT_GT(more.at("duration_s").get<double>(), 0.5 * before.at("duration_s").get<double>());
  EXPECT_THAT(more.at("note"), HasSubstr("80 ms on 40 nodes"));
  const TempFolder folder;
  ASSERT_EQ(run_flyball({"forecast", kGenerations, "--nodes", "new=240", "--out", folder / "out"}).status, 0);
  EXPECT_THAT(file_text(folder / "out/forecast.html"), HasSubstr("% less than with the run as described, in "));
  EXPECT_EQ(run_flyball({"forecast", kGenerations, "--global-batch", "6e7"}).status, 2);  // more than the data set
  EXPECT_EQ(run_flyball({"forecast", kGenerations, "--nodes", "48"}).status, 2);
  EXPECT_EQ(run_flyball({"forecast", kGenerations, "--nodes", "new=0"}).status, 2);
  EXPECT_EQ(run_flyball({"forecast", kGenerations, "--nodes", "new=1e3"}).status, 2);
  EXPECT_EQ(run_flyball({"forecast", kGenerations, "--global-batch", "nan"}).status, 2);
}

TEST(ForecastWhatIf, ClocksOfAPlanInARun) {
  const TempFolder folder;
  const std::string file = folder / "plan/plan.json";
  ASSERT_EQ(run_flyball({"plan", "examples/profiles/bert-1.3b-a100-4stage.csv", "--microbatches", "8", "--out",
                         folder / "plan"})
                .status,
            0);
  const json plan = json::parse(file_text(file));
  // The first point of the plan at which one of its four GPUs draws at most so many watts on average.
  const json& points = plan.at("points");
  const auto power = [&points](std::size_t k) {
    return points.at(k).at("energy_j").get<double>() / points.at(k).at("time_s").get<double>() / 4.0;
  };
  const double cap = 0.5 * (power(0) + power(points.size() / 2));
  std::size_t first = 0;
  while (power(first) > cap) ++first;
  ASSERT_GT(first, 0u);
  const json capped = asked({"--plan", file, "--iterations", "10", "--power-cap", fmt::format("{}", cap)});
  EXPECT_NEAR(capped.at("duration_s"), 10.0 * points.at(first).at("time_s").get<double>(), 1e-6);
  const Ran low = run_flyball({"forecast", "--plan", file, "--iterations", "10", "--power-cap", "1"});
  EXPECT_EQ(low.status, 2);
  EXPECT_THAT(low.err, HasSubstr("at no point of the plan"));

  // In a run, forward and backward change by the plan's factors and nothing else does.
  const json alone = asked({"--plan", file, "--iterations", "1", "--slower", "10"});
  const double time = alone.at("duration_s").get<double>() / alone.at("baseline").at("duration_s").get<double>();
  const json before = asked({kGenerations});
  const json slower = asked({kGenerations, "--plan", file, "--slower", "10"});
  EXPECT_EQ(slower.at("baseline").at("total_kwh"), before.at("total_kwh"));
  EXPECT_EQ(slower.at("baseline").at("name"), "all-maximum clocks");
  // All nodes wait for the old ones, whose forward and backward take 0.5875 s.
  EXPECT_NEAR(slower.at("duration_s").get<double>() - before.at("duration_s").get<double>(),
              20'000 * 0.5875 * (time - 1.0), 1e-3);
  EXPECT_LT(slower.at("components").at("accelerator"), before.at("components").at("accelerator"));
  EXPECT_THAT(slower.at("note"), HasSubstr("forward and backward take +"));
  EXPECT_EQ(run_flyball({"forecast", kGenerations, "--plan", file, "--pipelines", "2"}).status, 2);
  EXPECT_EQ(run_flyball({"forecast", kGenerations, "--power-cap", "200"}).status, 2);
  const Ran none = run_flyball({"forecast", "examples/forecast/vgg16-mt128.toml", "--plan", file});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("has none in power_w"));
}

TEST(ForecastWhatIf, WhatABudgetBuys) {
  // Every iteration takes as much, after what runs once.
  const json bought = asked({kGenerations, "--budget", "6kWh"}).at("budget");
  const json whole = asked({kGenerations});
  const double once = whole.at("stages").at("preprocess").at("parts").at("set_dataset").get<double>() +
                      whole.at("stages").at("compute").at("parts").at("model_in_out").get<double>() +
                      whole.at("stages").at("compute").at("parts").at("model_transfer").get<double>();
  const double each = (whole.at("total_kwh").get<double>() - once) / 20'000.0;
  EXPECT_EQ(bought.at("iterations").get<double>(), std::floor((6.0 - once) / each));
  EXPECT_LT(bought.at("low_iterations"), bought.at("iterations"));
  EXPECT_GT(bought.at("high_iterations"), bought.at("iterations"));
  // The same in money, at 0.5 the kWh.
  EXPECT_EQ(asked({kGenerations, "--budget", "3", "--price", "0.5"}).at("budget").at("iterations"),
            bought.at("iterations"));
  EXPECT_EQ(run_flyball({"forecast", kGenerations, "--budget", "3"}).status, 2);
  EXPECT_EQ(run_flyball({"forecast", kGenerations, "--budget", "-3kWh"}).status, 2);
  EXPECT_EQ(run_flyball({"forecast", kGenerations, "--budget", "kWh"}).status, 2);
}

}  // namespace
}  // namespace flyball::testing
