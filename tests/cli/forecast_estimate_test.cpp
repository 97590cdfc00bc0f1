// flyball forecast estimate, run as users run it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/program.h"

namespace flyball::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::vector<std::string> estimate_of(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"forecast", "estimate", "--gpu", "h100",     "--gpus",
                                        "512",      "--params", "70B",   "--tokens", "2T"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(ForecastEstimate, SaysTheSameAsTextAndAsJson) {
  const Ran text = run_flyball(estimate_of({}));
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("estimate: 70B parameters, 2T tokens, 512 x NVIDIA H100 SXM5\n"));
  EXPECT_THAT(text.out, HasSubstr("Biderman et al. 2023"));
  const json result = run_flyball(estimate_of({"--format", "json"})).json();
  EXPECT_DOUBLE_EQ(result.at("operations"), 8.4e23);
  EXPECT_LT(result.at("site_kwh").at("low"), result.at("site_kwh").at("middle"));
  EXPECT_NEAR(result.at("days").at("middle").get<double>() * 24 * 512, result.at("gpu_hours").at("middle"), 1.0);
  EXPECT_GT(result.at("sources").size(), 10u);
  EXPECT_TRUE(result.at("active_parameters").is_null());
}

TEST(ForecastEstimate, ReadsAmountsInAllTheirSpellings) {
  const json same = run_flyball(estimate_of({"--format", "json"})).json();
  const json plain = run_flyball({"forecast", "estimate", "--gpu", "H100", "--gpus", "512", "--params", "70e9",
                                  "--tokens", "2000b", "--format", "json"})
                         .json();
  EXPECT_EQ(same, plain);
}

TEST(ForecastEstimate, ForecastOfItsRunTakesItsEnergy) {
  const TempFolder folder;
  const std::string run = (folder.path() / "run.toml").string();
  const json estimate = run_flyball(estimate_of({"--write", run, "--format", "json"})).json();
  const Ran ran = run_flyball({"forecast", run, "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const double made = estimate.at("node_kwh").at("middle");
  EXPECT_NEAR(ran.json().at("total_kwh"), made, 1e-6 * made);
  EXPECT_THAT(file_text(run), HasSubstr("ESTIMATE"));
}

TEST(ForecastEstimate, PageShowsTheBill) {
  const TempFolder folder;
  const std::string out = (folder.path() / "page").string();
  const Ran ran = run_flyball(estimate_of({"--out", out, "--region", "FRA", "--price", "0.2"}));
  ASSERT_EQ(ran.status, 0) << ran.err;
  const std::string page = file_text(out + "/estimate.html");
  EXPECT_THAT(page, HasSubstr("Nothing was measured"));
  EXPECT_THAT(page, HasSubstr("CO2</th><td>kg</td>"));
  EXPECT_THAT(page, HasSubstr("Where the energy goes"));
}

TEST(ForecastEstimate, RefusesWhatCannotBeAndSaysHow) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--mfu", "40"}, "for 40 % write 0.4"},
      {{"--mfu", "0"}, "above 0 and at most 1"},
      {{"--mfu", "nan"}, "above 0 and at most 1"},
      {{"--pue", "0.9"}, "from 1 to 5"},
      {{"--power", "-3"}, "watts of one GPU"},
      {{"--recompute"}, "--recompute needs --mfu"},
      {{"--active-params", "71B"}, "cannot be more"},
      {{"--region", "Atlantis"}, "it has ARE, AUS"},
      {{"--region", "FRA", "--carbon", "100"}, "give one"},
      {{"--best-start"}, "are for a file"},
      {{"--budget", "100"}, "give --gpu-hour-price or --price"},
  };
  for (const auto& [more, what] : cases) {
    const Ran ran = run_flyball(estimate_of(more));
    EXPECT_EQ(ran.status, 2) << more.front();
    EXPECT_THAT(ran.err, HasSubstr(what));
    EXPECT_EQ(ran.out, "");
  }
  const Ran gpu =
      run_flyball({"forecast", "estimate", "--gpu", "h1000", "--gpus", "1", "--params", "1B", "--tokens", "1B"});
  EXPECT_THAT(gpu.err, HasSubstr("it has v100, a100, h100"));
  for (const char* amount : {"", "B", "-7B", "7X", "inf", "1e30", "0", "70"}) {
    const Ran ran =
        run_flyball({"forecast", "estimate", "--gpu", "h100", "--gpus", "1", "--params", amount, "--tokens", "1T"});
    EXPECT_EQ(ran.status, 2) << amount;
    EXPECT_THAT(ran.err, HasSubstr("70e9, 70B, 2T")) << amount;
  }
  EXPECT_THAT(run_flyball({"forecast", "estimate", "--gpu", "h100"}).err, HasSubstr("needs --gpu, --gpus"));
}

TEST(ForecastEstimate, StartsWhereTheRunCostsLeast) {
  const TempFolder folder;
  const std::string file = (folder.path() / "prices.csv").string();
  write_file(file, "timestamp,price_per_kwh\n0,0.4\n21600,0.1\n43200,0.4\n64800,0.4\n");
  // 6 x 1e9 x 1e9 / (0.5 x 989e12) = 12,133 s of one GPU, which fit into the six cheap hours.
  const Ran ran = run_flyball({"forecast", "estimate", "--gpu", "h100", "--gpus", "1", "--params", "1B", "--tokens",
                               "1B", "--mfu", "0.5", "--price", file, "--best-start", "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json result = ran.json();
  EXPECT_NEAR(result.at("energy_cost").at("middle").get<double>(),
              0.1 * result.at("site_kwh").at("middle").get<double>(), 1e-9);
  EXPECT_GE(result.at("start_s"), 21600.0);
}

}  // namespace
}  // namespace flyball::testing
