#include "controller/cluster_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/text.h"
#include "support/metrics_markdown.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;
using testing::metrics_as_markdown;
using ::testing::Not;

ClusterRunStatus two_nodes() {
  ClusterRunStatus status;
  status.budget = Watts(2000.0);
  status.others = Watts(300.0);
  ClusterJobStatus job;
  job.job = 7;
  job.user = "ada";
  job.kind = "bert";
  job.state = "running";
  job.gpus = 4;
  job.energy = Joules(5e3);
  status.jobs.push_back(job);
  status.nodes.push_back({"n1", "mixed", 4, 4, true, "https://n1:4938", "", Watts(850.0)});
  status.nodes.push_back({"n2", "idle", 4, 0, true, "https://n2:4938", "", Watts(200.0)});
  return status;
}

TEST(ClusterMetrics, TheDocumentIsMadeFromTheRegistry) {
  EXPECT_THAT(read_text_file(FLYBALL_SOURCE_DIR "/docs/metrics.md"),
              HasSubstr(metrics_as_markdown(cluster_metric_registry())))
      << "put this table into docs/metrics.md:\n"
      << metrics_as_markdown(cluster_metric_registry());
}

TEST(ClusterMetrics, EveryMetricOfTheRegistryIsExposed) {
  const std::string text = cluster_metrics(two_nodes());
  for (const MetricInfo& metric : cluster_metric_registry()) {
    EXPECT_THAT(text, HasSubstr("# TYPE " + std::string(metric.name) + " ")) << metric.name;
  }
  EXPECT_THAT(text, HasSubstr("flyball_cluster_measured_watts 1050"));
  EXPECT_THAT(text, HasSubstr("flyball_cluster_gpus_used 4"));
  EXPECT_THAT(text, HasSubstr(R"(flyball_cluster_job_energy_joules{job_id="7",kind="bert",user="ada"} 5000)"));
}

// A sum without the watts of some nodes would look like a cluster below its budget.
TEST(ClusterMetrics, ASilentNodeLeavesTheSumOut) {
  ClusterRunStatus status = two_nodes();
  status.nodes[1].power.reset();
  std::string text = cluster_metrics(status);
  EXPECT_THAT(text, Not(HasSubstr("flyball_cluster_measured_watts")));
  EXPECT_THAT(text, HasSubstr("flyball_cluster_silent_agents 1"));
  // One that is switched off draws nothing.
  status.nodes[1].off = true;
  text = cluster_metrics(status);
  EXPECT_THAT(text, HasSubstr("flyball_cluster_measured_watts 850"));
  EXPECT_THAT(text, HasSubstr("flyball_cluster_silent_agents 0"));
}

// Names are of users: none ends the line that it stands in.
TEST(ClusterMetrics, HostileNamesStayLabels) {
  ClusterRunStatus status = two_nodes();
  status.jobs[0].kind = "a\"} 1\nflyball_cluster_budget_watts 0\n<script>\\";
  const std::string text = cluster_metrics(status);
  EXPECT_THAT(text, HasSubstr(R"(kind="a\"} 1\nflyball_cluster_budget_watts 0\n<script>\\",user="ada"} 5000)"));
  EXPECT_THAT(text, Not(HasSubstr("\nflyball_cluster_budget_watts 0\n")));
}

}  // namespace
}  // namespace flyball
