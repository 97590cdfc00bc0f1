#include "cluster/pipeline_jobs.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cluster/small_cluster.h"
#include "support/expect_error.h"
#include "support/figures.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

const std::string kHeader = "submit_time,profile,microbatches,pipelines,iterations\n";

std::filesystem::path file_with(const testing::TempFolder& folder, const std::string& rows) {
  std::filesystem::path path = folder.path() / "pipelines.csv";
  std::ofstream(path) << kHeader << rows;
  std::ofstream(folder.path() / "two.csv") << "stage,instruction,frequency,time,energy\n"
                                              "0,forward,1400,0.010,3.0\n0,forward,1000,0.013,2.4\n"
                                              "0,backward,1400,0.020,6.0\n0,backward,1000,0.026,4.8\n"
                                              "1,forward,1400,0.010,3.0\n1,forward,1000,0.013,2.4\n"
                                              "1,backward,1400,0.020,6.0\n1,backward,1000,0.026,4.8\n";
  return path;
}

TEST(PipelineJobs, HaveTheirPlannersFrontier) {
  const testing::TempFolder folder;
  const auto jobs = read_pipeline_jobs(file_with(folder, "5,two.csv,4,2,100\n"));
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].gpus, 4);
  EXPECT_DOUBLE_EQ(jobs[0].iterations, 100.0);
  const auto& speeds = jobs[0].frontier;
  ASSERT_GE(speeds.size(), 2u);
  EXPECT_LE(speeds.size(), kMostPipelineSpeeds);
  // 1F1B of 4 microbatches on 2 stages at the highest clock: (4 + 1) * 0.030 s.
  EXPECT_NEAR(speeds.back().time.value(), 0.150, 1e-6);
  for (std::size_t i = 1; i < speeds.size(); ++i) {
    EXPECT_LT(speeds[i].time, speeds[i - 1].time);
    EXPECT_GE(speeds[i].energy, speeds[i - 1].energy);
  }
}

// The fastest plan alone, or none: as fast as each other, and the plan saves what waits.
TEST(PipelineJobs, MayBePinned) {
  const testing::TempFolder folder;
  const auto path = file_with(folder, "5,two.csv,4,2,100\n");
  const auto all = read_pipeline_jobs(path)[0].frontier;
  const auto fastest = read_pipeline_jobs(path, PipelineSpeeds::kFastest)[0].frontier;
  const auto max = read_pipeline_jobs(path, PipelineSpeeds::kMaxClocks)[0].frontier;
  ASSERT_EQ(fastest.size(), 1u);
  ASSERT_EQ(max.size(), 1u);
  EXPECT_EQ(fastest[0].time, all.back().time);
  EXPECT_EQ(fastest[0].energy, all.back().energy);
  EXPECT_NEAR(max[0].time.value(), 0.150, 1e-6);
  EXPECT_LT(fastest[0].energy, max[0].energy);
}

// Under half the budget the pipeline runs slower than alone, and is done all the same.
TEST(PipelineJobs, ShareTheBudgetWithOtherJobs) {
  const testing::TempFolder folder;
  SimulationSetup setup = small_setup(4, 2);
  setup.pipelines = read_pipeline_jobs(file_with(folder, "0,two.csv,4,2,1000\n"));
  const GroundTruth truth = linear_truth();
  const auto pipeline_time = [&](double eta) {
    setup.eta = eta;
    Simulation simulation(setup, truth, trace_of({job(0, 1, 1000)}), "joule-price");
    EXPECT_TRUE(simulation.run());
    EXPECT_LE(simulation.result().peak_job_power_w, simulation.state().power_limit.value() + 1e-3);
    for (const ClusterJob& one : simulation.state().jobs) {
      if (!simulation.state().kinds[static_cast<std::size_t>(one.kind)].elastic)
        return (one.finish - one.submit).value();
    }
    return 0.0;
  };
  const double rich = pipeline_time(1.5);
  EXPECT_NEAR(rich, 150.0, 1e-3);
  EXPECT_GT(pipeline_time(0.5), 1.05 * rich);
}

// One budget: a scheduler that may move pipelines along their frontiers serves all jobs sooner, and with less energy,
// than one that has them at their fastest plan, or at maximum clocks.
TEST(PipelineJobs, FrontiersPayUnderOneBudget) {
  const auto source = std::filesystem::path(FLYBALL_SOURCE_DIR);
  const GroundTruth truth = load_ground_truth("v100");
  const JobTrace trace = read_job_trace_file(source / "examples/cluster/day.csv");
  const auto run = [&](PipelineSpeeds speeds) {
    SimulationSetup setup;
    setup.spec.nodes = 24;
    setup.eta = 0.6;
    setup.knowledge = Knowledge::kProfiled;
    setup.pipelines = read_pipeline_jobs(source / "examples/cluster/pipelines-day.csv", speeds);
    return simulate(setup, truth, trace, "joule-price");
  };
  const SimulationResult frontier = run(PipelineSpeeds::kFrontier);
  if (!testing::kFiguresCount) return;  // the same code twice more
  const SimulationResult fastest = run(PipelineSpeeds::kFastest);
  const SimulationResult max = run(PipelineSpeeds::kMaxClocks);
  EXPECT_LT(frontier.avg_jct_s, 0.97 * fastest.avg_jct_s);
  EXPECT_LT(fastest.avg_jct_s, 0.99 * max.avg_jct_s);
  EXPECT_LT(frontier.energy_j, fastest.energy_j);
  EXPECT_LT(fastest.energy_j, max.energy_j);
}

TEST(PipelineJobs, ComplainWithLineAndColumn) {
  const testing::TempFolder folder;
  const auto read = [&](const std::string& rows) { (void)read_pipeline_jobs(file_with(folder, rows)); };
  expect_input_error([&] { read("0,two.csv,4,3,10\n"); }, 2, 13, "are 6 GPUs");
  expect_input_error([&] { read("0,two.csv,0,1,10\n"); }, 2, 11, "microbatches is 0");
  EXPECT_THROW(read("0,none.csv,4,1,10\n"), SystemError);
}

}  // namespace
}  // namespace flyball
