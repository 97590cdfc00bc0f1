#include "report/comparison_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cluster/small_cluster.h"
#include "report/chart_values.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::size_t occurrences(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

// Four GPUs, one job of 2 GPUs and 10 s. FIFO: 10 s at 2000 MHz with 4200 J, 20 s at 1000 MHz with 2400 J. Joule price:
// all four GPUs, 5 s with 4000 J at eta 1, 10 s with 2000 J at eta 0.5.
class ComparisonReportTest : public ::testing::Test {
 protected:
  ComparisonReportTest() {
    ComparisonRequest request;
    request.policies = {"fifo", "joule-price"};
    request.clocks = {Megahertz(1000.0), Megahertz(2000.0)};
    request.etas = {0.5, 1.0};
    request.record = true;
    setup_.spec.node_shutdown = false;  // FIFO leaves two GPUs idle, which draw 10 W each
    runs_ = compare_policies(setup_, linear_truth(), trace_of({job(0, 2, 10)}), {}, request);
  }

  SimulationSetup setup_ = small_setup();
  std::vector<ComparedRun> runs_;
};

TEST_F(ComparisonReportTest, IsOnePageOverAllPolicies) {
  const std::string page = comparison_html({runs_, setup_.spec, "flyball cluster compare --trace a&b.csv"});
  // With FIFO's 2400 J joule-price takes 9 s, on its line from (2000 J, 10 s) to (4000 J, 5 s), and with 4200 J 5 s.
  EXPECT_THAT(page, HasSubstr("jobs take <strong>2.00 to 2.22</strong> times as long on average under fifo as under"));
  EXPECT_THAT(page, HasSubstr("Policies compared: 2 x 2 v100, jobs: 1"));
  EXPECT_THAT(page, HasSubstr("flyball cluster compare --trace a&amp;b.csv"));
  for (const char* section :
       {"Completion time against energy", "GPUs in use and power over time", "Job completion times", "All runs"}) {
    EXPECT_THAT(page, HasSubstr(section));
  }
  EXPECT_EQ(occurrences(page, "<tr><th scope=\"row\""), 5u) << "a row per run, and FIFO's ratios";
  EXPECT_THAT(page, Not(HasSubstr("http://")));
  EXPECT_THAT(page.substr(0, page.find("</main>")), Not(HasSubstr("nan")));  // scripts may speak of it
}

// 4000 and 4200 J are nearer to one another than 2000 and 2400 J, so the charts are those of eta 1 and 2000 MHz.
TEST_F(ComparisonReportTest, TwoChartsPerPolicyWithTheFirstBehindTheOthers) {
  const auto alike = runs_of_like_energy(runs_);
  ASSERT_EQ(alike.size(), 2u);
  EXPECT_EQ(alike[0]->value, 2000.0);
  EXPECT_EQ(alike[1]->value, 1.0);
  const TimeCharts charts = policy_usage_charts(alike, setup_.spec);
  ASSERT_EQ(charts.charts.size(), 4u);
  EXPECT_EQ(charts.charts[0].title, "fifo, 2000 MHz: GPUs in use");
  EXPECT_EQ(charts.charts[1].title, "fifo, 2000 MHz: power of all GPUs");
  EXPECT_EQ(charts.charts[3].title, "joule-price, eta 1: power of all GPUs");
  // FIFO runs on two GPUs of 200 W for 10 s, and two more draw 10 W each; joule-price on four for 5 s.
  const double after_4_s = 4.0 / 3600.0;
  const double after_8_s = 8.0 / 3600.0;
  EXPECT_EQ(value_at(charts, 0, 0, after_8_s), 2.0);
  EXPECT_EQ(value_at(charts, 1, 0, after_8_s), 420.0);
  EXPECT_EQ(value_at(charts, 2, 0, after_4_s), 4.0);
  EXPECT_EQ(value_at(charts, 2, 1, after_4_s), 2.0) << "FIFO behind it";
  EXPECT_EQ(value_at(charts, 3, 0, after_4_s), 800.0);
  EXPECT_EQ(value_at(charts, 3, 1, after_4_s), 420.0);
  // joule-price's limit of 4 x 200 W, against which FIFO is held.
  EXPECT_EQ(charts.charts[1].series.back().label, "limit");
  EXPECT_EQ(value_at(charts, 1, 1, after_8_s), 800.0);
  EXPECT_EQ(value_at(charts, 3, 2, after_8_s), 800.0);
}

TEST_F(ComparisonReportTest, WithoutASweepItSaysHowTheReferenceEnded) {
  // FIFO's 2400 J, which joule-price's one run of 4000 J does not tell about.
  const std::vector<ComparedRun> once = {runs_[0], runs_[3]};
  EXPECT_THAT(comparison_html({once, setup_.spec, ""}),
              HasSubstr("<strong>joule-price, eta 1</strong>: average completion time <strong>5&nbsp;s</strong>"));
}

TEST_F(ComparisonReportTest, TimesAreALinePerPolicy) {
  const std::string svg = policy_jct_picture(runs_of_like_energy(runs_), 1000).standalone();
  EXPECT_EQ(occurrences(svg, "<polyline"), 2u);
  EXPECT_THAT(svg, HasSubstr(">fifo, 2000 MHz</text>"));
  EXPECT_THAT(svg, HasSubstr(">joule-price, eta 1</text>"));
}

}  // namespace
}  // namespace flyball
