#include "plan/zeus_frequencies.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/text.h"
#include "support/pipelines.h"

namespace flyball {
namespace {

using testing::dag_of;
using testing::operation;
using testing::profile_of;

Profile two_stages() {
  return profile_of({operation(0, "forward", {{1410, 0.1, 30}, {1200, 0.12, 25}}),
                     operation(0, "backward", {{1410, 0.2, 60}, {1200, 0.24, 50}}),
                     operation(1, "forward", {{1410, 0.1, 30}, {1200, 0.12, 25}}),
                     operation(1, "backward", {{1410, 0.2, 60}, {1200, 0.24, 50}})});
}

// Two stages, two microbatches: stage 0 runs F0 F1 B0 B1, stage 1 runs F0 B0 F1 B1.
TEST(ZeusFrequencies, ListsInstructionsPerStageInOrder) {
  const ComputationDag dag = dag_of(two_stages(), 2);
  ClockPlan plan(static_cast<std::size_t>(dag.size()), 0);
  plan[static_cast<std::size_t>(testing::find_operation(dag, 0, "backward", 0))] = 1;
  plan[static_cast<std::size_t>(testing::find_operation(dag, 1, "forward", 1))] = 1;
  EXPECT_EQ(zeus_frequencies(dag, plan, "time 1 s\nenergy 2 J"),
            "[\n"
            "[(\"forward\", 1410), (\"forward\", 1410), (\"backward\", 1200), (\"backward\", 1410)],\n"
            "[(\"forward\", 1410), (\"backward\", 1410), (\"forward\", 1200), (\"backward\", 1410)],\n"
            "]\n"
            "# time 1 s\n"
            "# energy 2 J\n");
}

// Zeus asks for the clock of what the framework announces: forward and backward regions.
TEST(ZeusFrequencies, LeavesOutWhatNoFrameworkAnnounces) {
  PipelineSpec spec;
  spec.microbatches = 1;
  spec.p2p = ConstantOperation{Seconds(0.01), Joules(0)};
  spec.data_load = ConstantOperation{Seconds(0.01), Joules(1)};
  spec.gradient_sync = ConstantOperation{Seconds(0.01), Joules(1)};
  spec.optimizer_step = ConstantOperation{Seconds(0.01), Joules(1)};
  const ComputationDag dag = build_dag(spec, two_stages());
  EXPECT_EQ(zeus_frequencies(dag, ClockPlan(static_cast<std::size_t>(dag.size()), 0), ""),
            "[\n"
            "[(\"forward\", 1410), (\"backward\", 1410)],\n"
            "[(\"forward\", 1410), (\"backward\", 1410)],\n"
            "]\n");
}

TEST(ZeusFrequencies, AnnouncesChunksUnderTheCommonName) {
  const ComputationDag dag("test", 1,
                           {{0, "forward.1", {{Megahertz(900), Seconds(1), Joules(1)}}, true},
                            {0, "for\"ward.x", {{Megahertz(0), Seconds(1), Joules(1)}}, true}},
                           {{0, 0, 1}, {1, 0, 0}}, {{0, 1}});
  EXPECT_EQ(zeus_frequencies(dag, {0, 0}, ""), "[\n[(\"forward\", 900), (\"for\\\"ward.x\", 0)],\n]\n");
}

// Forward lists its one label, backward its two, the last operation has none; ('x',) is a tuple of one in Python.
TEST(ZeusFrequencies, LabelsAreListedAsKareusReadsThem) {
  const Profile profile = read_profile("p.csv",
                                       "stage,instruction,frequency,recompute,sm,time,energy\n"
                                       "0,forward,1410,,6,0.1,30\n0,forward,1410,,it's,0.11,28\n"
                                       "0,backward,1410,yes,6,0.2,60\n0,backward,1200,,,0.24,50\n");
  const ComputationDag dag = dag_of(profile, 2);
  ASSERT_TRUE(announces_labels(dag));
  EXPECT_FALSE(announces_labels(dag_of(two_stages(), 2)));
  ClockPlan plan(static_cast<std::size_t>(dag.size()), 0);
  plan[static_cast<std::size_t>(testing::find_operation(dag, 0, "forward", 1))] = 1;
  plan[static_cast<std::size_t>(testing::find_operation(dag, 0, "backward", 1))] = 1;
  ASSERT_EQ(testing::order_of(dag, 0), "F0 B0 F1 B1");
  EXPECT_EQ(kareus_schedules(dag, plan, "note"),
            "[\n[('forward', '6'), ('backward', 'yes', '6'), ('forward', 'it\\'s'), ('backward',)],\n]\n# note\n");
  EXPECT_EQ(kareus_file_name(7), "scheds_pipeline_00007.py");
}

TEST(ZeusFrequencies, NumbersPlansFromSlowToFast) {
  const ComputationDag dag = dag_of(two_stages(), 1);
  Frontier frontier(Watts(150.0));
  ClockPlan plan(static_cast<std::size_t>(dag.size()), 0);
  FrontierPoint fast;
  fast.time = 600'000'000;
  fast.net_joules = 100.0;
  frontier.add(fast, plan);
  plan.assign(plan.size(), 1);
  FrontierPoint slow;
  slow.time = 720'000'000;
  slow.net_joules = 80.0;
  frontier.add(slow, plan);

  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "zeus_frequencies_test";
  std::filesystem::remove_all(folder);
  EXPECT_EQ(write_zeus_files(folder, dag, frontier), 2U);
  const std::string first = read_text_file(folder / "freqs_pipeline_00000.py");
  const std::string second = read_text_file(folder / "freqs_pipeline_00001.py");
  EXPECT_NE(first.find("(\"forward\", 1200)"), std::string::npos);
  EXPECT_NE(first.find("# iteration time 0.720000 s"), std::string::npos);
  EXPECT_NE(second.find("(\"forward\", 1410)"), std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace flyball
