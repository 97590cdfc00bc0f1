// Gandiva, Tiresias, AFS and Zeus's clocks on clusters whose costs can be worked out by hand (small_cluster.h).
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cluster/simulator.h"
#include "cluster/small_cluster.h"

namespace flyball {
namespace {

// Two jobs of 90 s on one GPU take turns by the minute: A 0-60, B 60-120, then A resumes in 1 s and does its other 30 s
// until 151 s; B likewise until 182 s.
TEST(Gandiva, JobsThatDoNotFitTakeTurns) {
  const GroundTruth truth = linear_truth();
  SimulationSetup setup = small_setup(1, 1);
  setup.spec.restart = Seconds(30.0);  // not charged: suspended jobs stay in memory
  Simulation simulation(setup, truth, trace_of({job(0, 1, 90), job(0, 1, 90)}), "gandiva");
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 0), 151.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 1), 182.0, 1e-9);
  // The GPU draws 200 W for 180 s of work, and 10 W for the 2 s of resuming.
  EXPECT_NEAR(simulation.result().energy_j, 200.0 * 180.0 + 10.0 * 2.0, 1e-3);
}

// Two GPUs. A (1 GPU) runs from 0 s, B (2 GPUs) comes at 10 s and does not fit: the slice begins. C (1 GPU) comes at 20
// s and takes the GPU that is free, for all its 5 s. At 70 s B, which waited, comes before A: done at 80 s, when A,
// resumed in 1 s, has 30 of its 100 s left.
TEST(Gandiva, WhoWaitsComesFirstInTheNextSlice) {
  const GroundTruth truth = linear_truth();
  Simulation simulation(small_setup(1), truth, trace_of({job(0, 1, 100), job(10, 2, 10), job(20, 1, 5)}), "gandiva");
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 0), 111.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 1), 70.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 2), 5.0, 1e-9);
}

// Two nodes of two GPUs. A and B lie on the first, E on the second; B is done at 5 s, and C, which asks for two GPUs at
// 6 s, gets one on each. A is done at 100 s: C, 94 of its 200 s done, moves to the first node and resumes in 1 s.
TEST(Gandiva, MovesJobsTogether) {
  const GroundTruth truth = linear_truth();
  SimulationSetup setup = small_setup(2, 2);
  setup.spec.restart = Seconds(30.0);
  Simulation simulation(setup, truth, trace_of({job(0, 1, 100), job(0, 1, 5), job(0, 1, 300), job(6, 2, 200)}),
                        "gandiva");
  EXPECT_FALSE(simulation.run_until(Seconds(50.0)));
  EXPECT_EQ(simulation.placement().nodes_of(3), 2);
  EXPECT_EQ(simulation.state().jobs[3].nodes, 2);
  EXPECT_FALSE(simulation.run_until(Seconds(110.0)));
  simulation.check();
  EXPECT_EQ(simulation.placement().nodes_of(3), 1);
  EXPECT_EQ(simulation.state().jobs[3].nodes, 1);
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 3), 201.0, 1e-9);
  EXPECT_EQ(simulation.result().migrations, 1);
}

// One GPU. A has had 3250 GPU-seconds at 3250 s and falls to the second queue; B, which waited since 1000 s, comes
// first and is done at 4250 s. A goes on with its other 1750 s.
TEST(Tiresias, AJobFallsBehindWhenItHasHadItsShare) {
  const GroundTruth truth = linear_truth();
  Simulation simulation(small_setup(1, 1), truth, trace_of({job(0, 1, 5000), job(1000, 1, 1000)}), "tiresias");
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 0), 6000.0, 1e-6);
  EXPECT_NEAR(jct(simulation, 1), 3250.0, 1e-6);
  EXPECT_EQ(simulation.result().migrations, 1);
}

// Two dimensions: with two GPUs A has had its share after half of the time, 1625 s.
TEST(Tiresias, ServiceCountsGpus) {
  const GroundTruth truth = linear_truth();
  Simulation simulation(small_setup(1), truth, trace_of({job(0, 2, 5000), job(1000, 1, 100)}), "tiresias");
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 1), 725.0, 1e-6);
  EXPECT_NEAR(jct(simulation, 0), 5100.0, 1e-6);
}

// One GPU. Jobs of 10 s and 1000 s have finished. At 1110 s C has had 100 GPU-seconds: of the jobs that had more, the
// one of 1000 s, it would need 900 more, an index of 1/900. D, new, stands at 2 jobs in 1010 s: 1/505, and comes first.
// Without Gittins indices C, submitted earlier, goes on.
TEST(Tiresias, TheGittinsIndexGoesByWhatJobsBeforeNeeded) {
  const GroundTruth truth = linear_truth();
  const JobTrace trace = trace_of({job(0, 1, 10), job(0, 1, 1000), job(1010, 1, 2000), job(1110, 1, 50)});
  Simulation gittins(small_setup(1, 1), truth, trace, "tiresias-gittins");
  EXPECT_TRUE(gittins.run());
  EXPECT_NEAR(jct(gittins, 3), 50.0, 1e-6);
  EXPECT_NEAR(jct(gittins, 2), 2050.0, 1e-6);
  Simulation las(small_setup(1, 1), truth, trace, "tiresias");
  EXPECT_TRUE(las.run());
  EXPECT_NEAR(jct(las, 3), 1950.0, 1e-6);
  EXPECT_NEAR(jct(las, 2), 2000.0, 1e-6);
}

// A second network beside "unit": on two GPUs it is 1.2 times as fast as on one, and no faster on more.
GroundTruth linear_and_flat_truth() {
  MeasurementSet set;
  for (const auto& [gpus, speedup] : {std::pair(1, 1.0), {2, 1.2}, {4, 1.2}}) {
    for (const double clock : {1000.0, 2000.0}) {
      const Watts power((clock < 1500.0 ? 50.0 : 200.0) * gpus);
      for (const char* model : {"unit", "flat"}) {
        const Seconds time(2000.0 / clock / (model == std::string("unit") ? gpus : speedup));
        set[model].push_back({{gpus, 1, 8.0, Megahertz(clock)}, {time, power * time}});
      }
    }
  }
  return {"linear and flat", set};
}

TraceJob job_of(const std::string& model, double duration) {
  TraceJob one = job(0, 1, duration);
  one.model = model;
  return one;
}

// Three GPUs, two jobs that scale alike. Each has one; for the third the shorter counts (2 - 1) / 1, the longer
// (2 - 1) / 2. The shorter is done in 2 s; the longer, 2 of its 8 s done, then has two GPUs for 3 s more.
TEST(Afs, OfEqualScalingTheShorterHasTheGpu) {
  const GroundTruth truth = linear_truth();
  Simulation simulation(small_setup(3, 1), truth, trace_of({job(0, 1, 8), job(0, 1, 4)}), "afs");
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 1), 2.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 0), 5.0, 1e-9);
}

// As above, but the shorter would gain 0.2 of its throughput and the longer counts 0.5: the GPU goes to the longer.
TEST(Afs, EfficiencyComesBeforeLength) {
  const GroundTruth truth = linear_and_flat_truth();
  Simulation simulation(small_setup(3, 1), truth, trace_of({job_of("unit", 80), job_of("flat", 4)}), "afs");
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 1), 4.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 0), 40.0, 1e-9);
}

// The flat job gains nothing from four GPUs, and leaves two idle.
TEST(Afs, GivesNoGpusThatGainNothing) {
  const GroundTruth truth = linear_and_flat_truth();
  Simulation simulation(small_setup(1, 4), truth, trace_of({job_of("flat", 12)}), "afs");
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 0), 10.0, 1e-9);
  EXPECT_NEAR(simulation.result().gpu_seconds, 20.0, 1e-9);
}

// One GPU, two jobs: the shorter comes first, also where it arrives later.
TEST(Afs, WhereNotAllCanRunTheShortestDo) {
  const GroundTruth truth = linear_truth();
  Simulation simulation(small_setup(1, 1), truth, trace_of({job(0, 1, 10), job(2, 1, 3)}), "afs");
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 1), 3.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 0), 13.0, 1e-9);
}

// As in the first test of AFS, with restarts of 4 s: the second GPU would save the longer job 3 s, and is left idle.
TEST(Afs, LeavesJobsAloneThatARestartWouldDelay) {
  const GroundTruth truth = linear_truth();
  SimulationSetup setup = small_setup(3, 1);
  setup.spec.restart = Seconds(4.0);
  Simulation simulation(setup, truth, trace_of({job(0, 1, 8), job(0, 1, 4)}), "afs");
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 0), 8.0, 1e-9);
  EXPECT_EQ(simulation.result().migrations, 0);
}

// An iteration takes 2 s and 100 J at 1000 MHz, 1 s and 200 J at 2000 MHz; MAXPOWER is 200 W. Zeus's cost is
// 100 eta + 400 (1 - eta) against 200 eta + 200 (1 - eta): the lower clock is cheaper from eta = 2/3 on.
TEST(Zeus, WeighsEnergyAgainstTime) {
  const GroundTruth truth = linear_truth();
  for (const char* policy : {"gandiva+zeus", "tiresias+zeus"}) {
    PolicyOptions options;
    options.zeus_eta = 0.66;
    SimulationResult result = simulate(small_setup(), truth, trace_of({job(0, 2, 10)}), policy, options);
    EXPECT_NEAR(result.avg_jct_s, 10.0, 1e-9) << policy;
    EXPECT_NEAR(result.busy_energy_j, 4000.0, 1e-3) << policy;
    options.zeus_eta = 0.67;
    result = simulate(small_setup(), truth, trace_of({job(0, 2, 10)}), policy, options);
    EXPECT_NEAR(result.avg_jct_s, 20.0, 1e-9) << policy;
    EXPECT_NEAR(result.busy_energy_j, 2000.0, 1e-3) << policy;
  }
}

// As above for AFS, which gives the job all four GPUs: 20 GPU-seconds of work at 2000 MHz, 40 at 1000 MHz.
TEST(Zeus, ChoosesForWhatAfsGives) {
  const GroundTruth truth = linear_truth();
  PolicyOptions options;
  options.zeus_eta = 0.66;
  SimulationResult result = simulate(small_setup(), truth, trace_of({job(0, 2, 10)}), "afs+zeus", options);
  EXPECT_NEAR(result.avg_jct_s, 5.0, 1e-9);
  EXPECT_NEAR(result.busy_energy_j, 4000.0, 1e-3);
  options.zeus_eta = 0.67;
  result = simulate(small_setup(), truth, trace_of({job(0, 2, 10)}), "afs+zeus", options);
  EXPECT_NEAR(result.avg_jct_s, 10.0, 1e-9);
  EXPECT_NEAR(result.busy_energy_j, 2000.0, 1e-3);
}

// The clock of the command line is for the policies without Zeus.
TEST(Zeus, LeavesTheOthersAtTheirClock) {
  const GroundTruth truth = linear_truth();
  PolicyOptions options;
  options.zeus_eta = 0.9;
  for (const char* policy : {"gandiva", "tiresias", "tiresias-gittins", "afs", "fifo", "srtf"}) {
    options.clock.reset();
    const double fast = simulate(small_setup(1, 1), truth, trace_of({job(0, 1, 10)}), policy, options).avg_jct_s;
    EXPECT_NEAR(fast, 10.0, 1e-9) << policy;
    options.clock = Megahertz(1000.0);
    const double slow = simulate(small_setup(1, 1), truth, trace_of({job(0, 1, 10)}), policy, options).avg_jct_s;
    EXPECT_NEAR(slow, 20.0, 1e-9) << policy;
  }
}

}  // namespace
}  // namespace flyball
