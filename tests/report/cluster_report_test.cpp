#include "report/cluster_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cluster/small_cluster.h"

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

TEST_F(ClusterReportTest, UsageHasALimitAndThreeLines) {
  const std::string svg = usage_picture({setup_, simulation_, ""}, 600).standalone();
  std::size_t lines = 0;
  for (std::size_t at = svg.find("<polyline"); at != std::string::npos; at = svg.find("<polyline", at + 1)) ++lines;
  EXPECT_EQ(lines, 4u);
  EXPECT_THAT(svg, HasSubstr("class=\"bound\""));
}

TEST(ShownJobs, AreAllUntilThereAreManyAndThenEveryFewth) {
  EXPECT_EQ(shown_job_step(1), 1u);
  EXPECT_EQ(shown_job_step(240), 1u);
  EXPECT_EQ(shown_job_step(241), 2u);
  EXPECT_EQ(shown_job_step(1901), 8u);
}

}  // namespace
}  // namespace flyball
