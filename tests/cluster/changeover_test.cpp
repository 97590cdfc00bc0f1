// GPUs that take a while to change hands (ClusterSpec::changeover). All times are worked out by hand, on the cluster of
// small_cluster.h: a GPU draws 200 W while it computes, and 10 W otherwise.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cluster/small_cluster.h"

namespace flyball {
namespace {

SimulationSetup slow_setup(int nodes, int gpus, double changeover_s, double restart_s) {
  SimulationSetup setup = small_setup(nodes, gpus);
  setup.spec.changeover = Seconds(changeover_s);
  setup.spec.restart = Seconds(restart_s);
  return setup;
}

// One node of two GPUs under SRTF. A (2 GPUs, 10 s) computes from 0 to 1 s. B (2 GPUs, 4 s) comes at 1 s and takes the
// place of A, whose GPUs are B's at 3 s: it computes until 7 s. They are A's at 9 s; the restart takes 5 s, of which
// two, for its stop, are over. A computes its last 9 s from 12 to 21 s.
// Energy: 400 W for 1 + 4 + 9 s; 20 W for the two changes and the three seconds.
TEST(Changeover, AJobWaitsForTheGpusOfAnother) {
  const GroundTruth truth = linear_truth();
  const JobTrace trace = trace_of({job(0, 2, 10), job(1, 2, 4)});
  Simulation simulation(slow_setup(1, 2, 2.0, 5.0), truth, trace, "srtf");
  EXPECT_TRUE(simulation.run());
  simulation.check();
  EXPECT_NEAR(jct(simulation, 0), 21.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 1), 6.0, 1e-9);
  EXPECT_NEAR(simulation.result().energy_j, 14 * 400.0 + 7 * 20.0, 1e-3);
}

// As above without it: B computes from 1 to 5 s, A from 10 to 19 s.
TEST(Changeover, TakesNothingUnlessItIsAskedFor) {
  const GroundTruth truth = linear_truth();
  Simulation simulation(slow_setup(1, 2, 0.0, 5.0), truth, trace_of({job(0, 2, 10), job(1, 2, 4)}), "srtf");
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 0), 19.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 1), 4.0, 1e-9);
}

// Under SRTF, A (2 GPUs, 20 s) is stopped at 1 s by B (10 s), and B, which waits for the GPUs until 5 s, at 2 s by C (3
// s), and C at 3 s by D (1 s): nothing ran there since A, so that D has the GPUs at 5 s all the same, and computes
// until 6 s. C then has them at 10 s and ends at 13 s, B has them at 17 s and ends at 27 s. Neither has begun before,
// so that neither restarts. A has them at 31 s, needs one of the five seconds of a restart, and computes its 19 s from
// 32 to 51 s.
TEST(Changeover, WhatNeverBeganGivesUpNothing) {
  const GroundTruth truth = linear_truth();
  const JobTrace trace = trace_of({job(0, 2, 20), job(1, 2, 10), job(2, 2, 3), job(3, 2, 1)});
  Simulation simulation(slow_setup(1, 2, 4.0, 5.0), truth, trace, "srtf");
  for (double until = 0.0; !simulation.run_until(Seconds(until)); until += 0.5) ASSERT_NO_THROW(simulation.check());
  EXPECT_NEAR(jct(simulation, 3), 3.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 2), 11.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 1), 26.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 0), 51.0, 1e-9);
}

// A job that loses its GPUs while it restarts has been started, and has to be stopped. Two GPUs under SRTF, restarts
// take 6 s and changes of hands 2 s: A (2 GPUs, 20 s) stops at 1 s for B (1 s), which has them from 3 to 4 s. A has
// them at 6 s and would compute from 10 s on. C (1 s) comes at 7 s and has them at 9 s, until 10 s. A has them at 12 s
// and computes from 16 s to 35 s.
TEST(Changeover, AJobThatRestartsHasToBeStopped) {
  const GroundTruth truth = linear_truth();
  const JobTrace trace = trace_of({job(0, 2, 20), job(1, 2, 1), job(7, 2, 1)});
  Simulation simulation(slow_setup(1, 2, 2.0, 6.0), truth, trace, "srtf");
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 1), 3.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 2), 3.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 0), 35.0, 1e-9);
}

// A node that was emptied is shut down when its GPUs have been handed over and `off_after` is over as well. One GPU,
// 3 s to wake, 1 s to be shut down after, changes of hands take 4 s; jobs of 10 s at 0, 14, 31.5 and 50 s:
//   wakes 0-3, computes 3-13; the second comes within the change and computes 17-27; the node is empty from 31 s and
//   would be off at 32 s, so that the third computes 31.5-41.5 at once; off at 46.5 s; wakes 50-53, computes 53-63.
// Idle: 3 + 4 + 4.5 + 5 + 3 s.
TEST(Changeover, ANodeIsEmptyOnceItsGpusAreHandedOver) {
  const GroundTruth truth = linear_truth();
  SimulationSetup setup = slow_setup(1, 1, 4.0, 5.0);
  setup.spec.wake = Seconds(3.0);
  setup.spec.off_after = Seconds(1.0);
  const JobTrace trace = trace_of({job(0, 1, 10), job(14, 1, 10), job(31.5, 1, 10), job(50, 1, 10)});
  Simulation simulation(setup, truth, trace, "fifo");
  for (double until = 0.0; !simulation.run_until(Seconds(until)); until += 0.5) ASSERT_NO_THROW(simulation.check());
  const std::vector<double> expected = {13.0, 13.0, 10.0, 13.0};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(jct(simulation, i), expected[static_cast<std::size_t>(i)], 1e-9) << i;
  EXPECT_NEAR(simulation.result().energy_j, 4 * 2000.0 + 19.5 * 10.0, 1e-3);
}

// Policies that can drive the controller leave a job alone that is on its way. On one node of two GPUs, where starts
// take 5 s, restarts 2 s and changes of hands 1 s, A gets both GPUs at 0 s and computes from 5 s on. B comes at 1 s,
// and only at 5 s one of A's GPUs is for it. At 6 s A has stopped: it computes on the other one from 7 s on, B from 11
// s on. Where GPUs change hands at once, A, which has not begun, is given one of them at 1 s, and both compute from 6 s
// on.
TEST(Changeover, AJobOnItsWayIsLeftAlone) {
  const GroundTruth truth = linear_truth();
  const JobTrace trace = trace_of({job(0, 2, 100), job(1, 1, 60)});
  for (const std::string policy : {"joule-price", "powerflow", "afs"}) {
    SCOPED_TRACE(policy);
    for (const double changeover : {1.0, 0.0}) {
      SimulationSetup setup = slow_setup(1, 2, changeover, 2.0);
      setup.spec.start = Seconds(5.0);
      Simulation simulation(setup, truth, trace, policy);
      std::vector<double> began = {-1.0, -1.0};
      for (double until = 0.0; until < 20.0; until += 0.25) {
        EXPECT_FALSE(simulation.run_until(Seconds(until)));
        for (std::size_t i = 0; i < 2; ++i) {
          const ClusterJob& one = simulation.state().jobs[i];
          if (began[i] < 0.0 && one.gpus == 1 && one.phase == JobPhase::kRunning) began[i] = until;
        }
      }
      EXPECT_EQ(began[0], changeover > 0.0 ? 7.0 : 6.0);
      EXPECT_EQ(began[1], changeover > 0.0 ? 11.0 : 6.0);
    }
  }
}

// Whatever policies stop, move and pack, no job computes on GPUs that have not been handed over, all work is done and
// the sums agree (Simulation::check).
class ChangeoverOfEveryPolicy : public ::testing::TestWithParam<std::string> {};

TEST_P(ChangeoverOfEveryPolicy, KeepsTheRules) {
  const GroundTruth truth = load_ground_truth("v100");
  TraceSynthesis request;
  request.jobs = 80;
  request.span = Seconds(2.0 * 3600.0);
  SimulationSetup setup;
  setup.spec.nodes = 4;
  setup.spec.gpus_per_node = 4;
  setup.spec.changeover = Seconds(20.0);
  setup.eta = 0.8;
  Simulation simulation(setup, truth, synthesize_job_trace(request), GetParam());
  for (double until = 0.0; !simulation.run_until(Seconds(until)); until += 13.0) {
    ASSERT_LT(until, 1e6) << "it never ends";
    ASSERT_NO_THROW(simulation.check());
  }
  for (const ClusterJob& one : simulation.state().jobs) EXPECT_EQ(one.phase, JobPhase::kDone);
  EXPECT_EQ(simulation.state().free_gpus, 16);
}

INSTANTIATE_TEST_SUITE_P(Policies, ChangeoverOfEveryPolicy, ::testing::ValuesIn(policy_names()), [](const auto& test) {
  std::string name = test.param;
  std::erase_if(name, [](char c) { return c == '-' || c == '+'; });
  return name;
});

}  // namespace
}  // namespace flyball
