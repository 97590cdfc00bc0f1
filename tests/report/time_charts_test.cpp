#include "report/time_charts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "cluster/simulator.h"
#include "draw/scale.h"
#include "report/chart_values.h"
#include "report/forecast_report.h"
#include "report/history_axis.h"
#include "report/page_scripts.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RoundedNumber, HasSoManyDigitsAndIsWrittenWithThem) {
  EXPECT_EQ(rounded_number(1234.5678, 5), 1234.6);
  EXPECT_EQ(rounded_number(-0.00123456, 3), -0.00123);
  EXPECT_EQ(rounded_number(987654321.0, 3), 988000000.0);
  EXPECT_EQ(rounded_number(0.0, 3), 0.0);
  EXPECT_EQ(rounded_number(-5e-31, 3), 0.0);
}

TEST(TimeChartsSection, HoldsTimesAndValuesOfWhichSomeAreNotKnown) {
  const TimeCharts charts{.unit = "s",
                          .lines = {{{0.0, 1.0 / 3.0, 2.0}, {1.0 / 3.0, std::nullopt}}},
                          .charts = {{"</script><b>", "W", 9.0, {{.label = "<i>", .colour = "--p0", .line = 0}}}}};
  const std::string section = time_charts(charts);
  EXPECT_THAT(section, Not(HasSubstr("<b>")));
  EXPECT_THAT(section, Not(HasSubstr("<i>")));
  const nlohmann::json data = testing::script_data(section);
  EXPECT_EQ(data.at("lines").dump(), R"([{"times":[0.0,0.333333333,2.0],"values":[0.33333,null]}])");
  EXPECT_EQ(data.at("charts")[0].at("title"), "</script><b>");
  EXPECT_EQ(data.at("charts")[0].at("most"), 9.0);
}

TEST(TimeChartsSection, HasAllThatItsScriptReads) {
  const std::string section = time_charts({"s", {{{0.0, 1.0}, {1.0}}}, {{"power", "W", {}, {{"all", "--p0", 0}}}}});
  testing::expect_parts("step_charts.js", section);
  const nlohmann::json data = testing::script_data(section);
  EXPECT_EQ(testing::keys_of(data), testing::members_read("step_charts.js", "data"));
}

ClusterPower sample(double at_s, double watts) { return {Seconds(at_s), 0, 0, 0, Watts(watts)}; }

double power_of(const ClusterPower& one) { return one.power.value(); }

TEST(MeanSteps, AreTheSamplesWhereTheseAreFew) {
  const StepFunction line = mean_steps({sample(3600, 10), sample(5400, 30)}, Seconds(3600), Seconds(7200), power_of);
  EXPECT_THAT(line.times, ElementsAre(0.0, 0.5, 1.0));
  EXPECT_THAT(line.values, ElementsAre(10.0, 30.0));
}

// 4000 samples a second apart of 100 and 300 W in turn: each of 1000 steps has the mean of four.
TEST(MeanSteps, AreMeansWhereSamplesAreMany) {
  std::vector<ClusterPower> samples;
  for (int k = 0; k < 4000; ++k) samples.push_back(sample(k, k % 2 == 0 ? 100.0 : 300.0));
  const StepFunction line = mean_steps(samples, Seconds(0), Seconds(4000), power_of);
  EXPECT_EQ(line.values.size(), 1000u);
  EXPECT_THAT(line.times, ElementsAre(0.0, 4000.0 / 3600.0));
  for (const std::optional<double>& value : line.values) EXPECT_NEAR(value.value(), 200.0, 1e-9);
}

// Two iterations of forward for 1 s at 300 W and backward for 2 s at 400 W. The recording has 350 W until 2.5 s, and
// then 250 W until after what is forecast ends.
TEST(ForecastPower, HasASeriesPerStageAndWhatWasRecorded) {
  EnergySheet sheet;
  sheet.energy = Joules(2200);
  sheet.stages = {{"compute", Joules(2200), {{"forward", Joules(600)}, {"backward", Joules(1600)}}}};
  const auto piece = [](double begin, double end, TrainingStage stage, double watts) {
    return PowerPiece{Seconds(begin), Seconds(end), stage, Watts(watts)};
  };
  ForecastReport::NodePower node{
      "gpu-node",
      {piece(0, 1, TrainingStage::kForward, 300), piece(1, 3, TrainingStage::kBackward, 400),
       piece(3, 4, TrainingStage::kForward, 300), piece(4, 6, TrainingStage::kBackward, 400)},
      {{Seconds(0.5), Watts(350)}, {Seconds(2.5), Watts(250)}, {Seconds(7), Watts(0)}}};
  const TimeCharts charts = power_charts(sheet, {{"idle", {}, {}}, node});
  ASSERT_EQ(charts.charts.size(), 1u) << "a node without a forecast has no chart";
  ASSERT_EQ(charts.charts[0].series.size(), 3u);
  EXPECT_EQ(charts.charts[0].series[0].label, "forward");
  EXPECT_EQ(charts.charts[0].series[2].label, "recorded");
  for (const double iteration : {0.0, 3.0}) {
    EXPECT_EQ(value_at(charts, 0, 0, iteration + 0.5), 300.0);
    EXPECT_EQ(value_at(charts, 0, 0, iteration + 1.5), std::nullopt);
    EXPECT_EQ(value_at(charts, 0, 1, iteration + 0.5), std::nullopt);
    EXPECT_EQ(value_at(charts, 0, 1, iteration + 1.5), 400.0);
  }
  EXPECT_EQ(value_at(charts, 0, 2, 0.25), std::nullopt);
  EXPECT_EQ(value_at(charts, 0, 2, 1.0), 350.0);
  EXPECT_EQ(value_at(charts, 0, 2, 5.9), 250.0);
  EXPECT_EQ(charts.lines[2].times.back(), 6.0);
}

}  // namespace
}  // namespace flyball
