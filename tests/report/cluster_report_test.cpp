#include "report/cluster_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cluster/small_cluster.h"
#include "report/chart_values.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// One GPU at 200 W, idle at 10 W. Job 0 runs 0-3600 s; job 1, submitted at 1800 s, waits for it and runs until 5400 s.
class ClusterReportTest : public ::testing::Test {
 protected:
  ClusterReportTest() { simulation_.run(); }

  static SimulationSetup recorded() {
    SimulationSetup setup = small_setup(1, 1);
    setup.record = true;
    return setup;
  }

  const GroundTruth truth_ = linear_truth();
  const SimulationSetup setup_ = recorded();
  Simulation simulation_{setup_, truth_, trace_of({job(0, 1, 3600), job(1800, 1, 1800)}), "fifo"};
};

TEST_F(ClusterReportTest, SaysWhatWasSimulatedAndHowItEnded) {
  const std::string page = cluster_html({setup_, simulation_, "flyball cluster simulate --trace a&b.csv"});
  EXPECT_THAT(page, HasSubstr("<strong>fifo</strong>: average completion time <strong>3600&nbsp;s</strong>"));
  EXPECT_THAT(page, HasSubstr("Simulated cluster: 1 x 1 v100, jobs: 2"));
  EXPECT_THAT(page, HasSubstr("flyball cluster simulate --trace a&amp;b.csv"));
  EXPECT_THAT(page, HasSubstr("A row per job."));
  EXPECT_THAT(page, Not(HasSubstr("http://")));  // the picture's name space is not needed within a page
}

TEST_F(ClusterReportTest, AJobsRowWaitsAndThenRuns) {
  const std::string svg = job_picture({setup_, simulation_, ""}, 1000).standalone();
  EXPECT_THAT(svg, HasSubstr("job 0, unit\nruns on 1 GPU\n0 to 1 h"));
  EXPECT_THAT(svg, HasSubstr("job 1, unit\nwaits\n0.5000 to 1 h"));
  EXPECT_THAT(svg, HasSubstr("job 1, unit\nruns on 1 GPU\n1 to 1.500 h"));
  EXPECT_THAT(svg, HasSubstr(">waits</text>"));
  EXPECT_THAT(svg, Not(HasSubstr(">2 GPUs</text>")));
}

TEST_F(ClusterReportTest, TimesAreMarkedInTheirDistribution) {
  const std::string svg = jct_picture({setup_, simulation_, ""}, 1000).standalone();
  EXPECT_THAT(svg, HasSubstr("average 3600 s"));
  EXPECT_THAT(svg, HasSubstr("median 3600 s"));
}

TEST_F(ClusterReportTest, UsageIsPowerWithItsLimitGpusAndWaitingJobsInHours) {
  const TimeCharts charts = usage_charts({setup_, simulation_, ""});
  ASSERT_EQ(charts.charts.size(), 3u);
  ASSERT_EQ(charts.lines.size(), 4u);
  EXPECT_EQ(charts.unit, "h");
  // 200 W from 0 to 1.5 h; one job waits from 0.5 to 1 h.
  EXPECT_EQ(value_at(charts, 0, 0, 0.25), 200.0);
  EXPECT_EQ(value_at(charts, 0, 0, 1.25), 200.0);
  EXPECT_EQ(value_at(charts, 1, 0, 0.75), 1.0);
  EXPECT_EQ(value_at(charts, 2, 0, 0.25), 0.0);
  EXPECT_EQ(value_at(charts, 2, 0, 0.75), 1.0);
  EXPECT_EQ(value_at(charts, 2, 0, 1.25), 0.0);
  EXPECT_EQ(charts.lines[0].times.back(), 1.5);
}

// eta is 1 at first, which is 200 W of the one GPU, and half of it from 2700 s on.
TEST_F(ClusterReportTest, TheLimitChangesWithTheBudget) {
  SimulationSetup halved = setup_;
  halved.eta = 1.0;
  halved.budget = {{Seconds(2700), 0.5}};
  const TimeCharts charts = usage_charts({halved, simulation_, ""});
  EXPECT_EQ(value_at(charts, 0, 1, 0.7), 200.0);
  EXPECT_EQ(value_at(charts, 0, 1, 0.8), 100.0);
}

TEST(ShownJobs, AreAllUntilThereAreManyAndThenEveryFewth) {
  EXPECT_EQ(shown_job_step(1), 1u);
  EXPECT_EQ(shown_job_step(240), 1u);
  EXPECT_EQ(shown_job_step(241), 2u);
  EXPECT_EQ(shown_job_step(1901), 8u);
}

}  // namespace
}  // namespace flyball
