// Two jobs on one GPU: what that does to them (cluster/gpu_sharing.h), and how Gandiva finds out whether it pays.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cluster/gpu_sharing.h"
#include "cluster/random.h"
#include "cluster/simulator.h"
#include "cluster/small_cluster.h"
#include "support/expect_error.h"

namespace flyball {
namespace {

SharedGpu share(double first, double second, double first_w = 200.0, double second_w = 200.0, double limit = 300.0) {
  return share_gpu({GpuTenant{first, Watts(first_w)}, GpuTenant{second, Watts(second_w)}}, Watts(100.0), Watts(limit));
}

// Both fill the GPU: c = 1/2, and each loses 0.2 of the half that the other has. Above 100 W, 100 and 150 W alone are
// 50 and 75 W at half speed.
TEST(GpuSharing, JobsThatFillAGpuGainNothing) {
  const SharedGpu shared = share(1.0, 1.0, 200.0, 250.0);
  EXPECT_NEAR(shared.pace[0], 0.45, 1e-12);
  EXPECT_NEAR(shared.pace[1], 0.45, 1e-12);
  EXPECT_NEAR(shared.power[0].value(), 100.0, 1e-9);
  EXPECT_NEAR(shared.power[1].value(), 125.0, 1e-9);
}

// Both need half of it, and fit: 1 - 0.2 * 0.5 of their pace. 100 W once, 100 and 150 W more: above the limit of 300 W
// both slow down to 200 of 250 W.
TEST(GpuSharing, JobsThatFitMeetTheBoardsLimit) {
  SharedGpu shared = share(0.5, 0.5, 200.0, 250.0, 350.0);
  EXPECT_NEAR(shared.pace[0], 0.9, 1e-12);
  EXPECT_NEAR((shared.power[0] + shared.power[1]).value(), 350.0, 1e-9);
  shared = share(0.5, 0.5, 200.0, 250.0, 300.0);
  EXPECT_NEAR(shared.pace[1], 0.9 * 0.8, 1e-12);
  EXPECT_NEAR((shared.power[0] + shared.power[1]).value(), 300.0, 1e-9);
}

// ResNet-18 beside itself on a V100 at batch sizes 16 to 256: iterations per second alone and of both jobs, published
// with Gavel (the header says where). An iteration alone takes about 9.51 ms and 0.185 ms for each sample, by least
// squares of the relative error; the latter is what a well-filled GPU would need.
TEST(GpuSharing, FitsMeasuredPairs) {
  const std::map<int, double> alone = {{16, 77.317}, {32, 65.805}, {64, 48.884}, {128, 30.288}, {256, 16.987}};
  const std::map<std::pair<int, int>, std::pair<double, double>> pairs = {
      {{16, 16}, {55.446, 55.471}},   {{16, 32}, {47.958, 47.303}},  {{16, 64}, {43.308, 37.198}},
      {{16, 128}, {34.746, 24.319}},  {{16, 256}, {27.750, 14.093}}, {{32, 32}, {44.013, 42.183}},
      {{32, 64}, {30.181, 29.833}},   {{32, 128}, {31.468, 23.031}}, {{32, 256}, {26.220, 13.538}},
      {{64, 64}, {28.461, 30.413}},   {{64, 128}, {19.708, 19.379}}, {{64, 256}, {17.584, 12.630}},
      {{128, 128}, {17.550, 17.419}}, {{128, 256}, {11.030, 9.893}}, {{256, 256}, {7.859, 7.863}}};
  const auto utilisation = [&](int batch) { return (1.0 + batch * 0.185e-3 * alone.at(batch)) / 2.0; };
  double sum = 0.0;
  for (const auto& [batches, rates] : pairs) {
    const auto& [first, second] = batches;
    const double measured = rates.first / alone.at(first) + rates.second / alone.at(second);
    const SharedGpu shared = share(utilisation(first), utilisation(second));
    const double off = std::abs(shared.pace[0] + shared.pace[1] - measured);
    EXPECT_LT(off, 0.15) << first << " and " << second;
    sum += off;
  }
  EXPECT_LT(sum / static_cast<double>(pairs.size()), 0.06);
}

TEST(GpuSharing, KeepsItsBounds) {
  Random random(7);
  for (int i = 0; i < 2000; ++i) {
    const double first = 0.05 + 0.95 * random.uniform();
    const double second = 0.05 + 0.95 * random.uniform();
    const double first_w = 60.0 + 240.0 * random.uniform();
    const double second_w = 60.0 + 240.0 * random.uniform();
    const SharedGpu shared = share(first, second, first_w, second_w, 280.0);
    const double watts = (shared.power[0] + shared.power[1]).value();
    EXPECT_GE(watts, std::min(first_w, second_w) - 1e-9);
    EXPECT_LE(watts, std::max({280.0, first_w, second_w}) + 1e-9);
    EXPECT_LE(watts, first_w + second_w);
    for (const double pace : shared.pace) {
      EXPECT_GT(pace, 0.0);
      EXPECT_LE(pace, 1.0);
    }
    const SharedGpu turned = share(second, first, second_w, first_w, 280.0);
    EXPECT_EQ(turned.pace[0], shared.pace[1]);
    EXPECT_EQ(turned.power[1], shared.power[0]);
    // Who needs more of the GPU slows its partner down no less.
    const SharedGpu worse = share(first, std::min(1.0, second * 1.1), 90.0, 90.0, 1000.0);
    EXPECT_LE(worse.pace[0], share(first, second, 90.0, 90.0, 1000.0).pace[0]);
  }
}

// As linear_truth(), and what jobs take of a GPU.
GroundTruth truth_with_use(double utilisation, double memory_gib) {
  MeasurementSet set;
  for (const int gpus : {1, 2, 4, 8}) {
    for (const double clock : {1000.0, 2000.0}) {
      const Seconds time(2000.0 / clock / gpus);
      const Watts power((clock < 1500.0 ? 50.0 : 200.0) * gpus);
      JobMeasurement row{{gpus, 1, 8.0, Megahertz(clock)}, {time, power * time}};
      row.use = {utilisation, memory_gib};
      set["unit"].push_back(row);
    }
  }
  return {"linear with use", set};
}

SimulationSetup sharing_setup(int nodes, int gpus_per_node) {
  SimulationSetup setup = small_setup(nodes, gpus_per_node);
  setup.spec.busy = Watts(100.0);
  setup.spec.limit = Watts(300.0);
  setup.spec.memory_gib = 16.0;
  return setup;
}

const std::vector<TraceJob> kTwoJobs = {job(0, 1, 200), job(0, 1, 200)};

// One GPU, A and B of 200 s, each half of the GPU: A runs alone 0-60 s, B 60-120 s. Both were seen now, and A joins B.
// It resumes in 1 s, in which B does 1 s more. From 121 s on both go at 0.9: B's other 139 s take 154.444 s, until
// 275.444 s. A has then done 60 + 139 s, and its last second alone. Power: 200 W for 121 s, then 100 W once and 100 W
// for each, then 200 W for 1 s.
TEST(Packing, TwoJobsThatFitShareTheGpu) {
  const GroundTruth truth = truth_with_use(0.5, 8.0);
  Simulation simulation(sharing_setup(1, 1), truth, trace_of(kTwoJobs), "gandiva");
  EXPECT_FALSE(simulation.run_until(Seconds(119.0)));
  EXPECT_EQ(simulation.state().jobs[0].partner, -1);
  EXPECT_FALSE(simulation.run_until(Seconds(200.0)));
  simulation.check();
  EXPECT_EQ(simulation.state().jobs[0].partner, 1);
  EXPECT_EQ(simulation.state().free_gpus, 0);
  EXPECT_NEAR(simulation.state().jobs[0].gpu_utilisation, 1.0, 1e-12);
  EXPECT_TRUE(simulation.run());
  simulation.check();
  EXPECT_NEAR(jct(simulation, 1), 121.0 + 139.0 / 0.9, 1e-6);
  EXPECT_NEAR(jct(simulation, 0), 122.0 + 139.0 / 0.9, 1e-6);
  EXPECT_NEAR(simulation.result().energy_j, 200.0 * 121.0 + 300.0 * 139.0 / 0.9 + 200.0, 1e-2);
  // The GPU is one GPU, however many have it: B had it alone for 60 s, and then half of it.
  EXPECT_NEAR(simulation.result().gpu_seconds, 122.0 + 139.0 / 0.9, 1e-6);
  EXPECT_NEAR(simulation.state().jobs[1].gpu_time.value(), 60.0 + 0.5 * (1.0 + 139.0 / 0.9), 1e-6);
}

// The same, but each fills the GPU: from 121 to 180 s both go at 0.45, 26.55 s of work each. 0.9 in all is less than by
// turns: they are parted, and not tried again. B (87.55 s done) goes on until 240 s; A (86.55 s) has 241-300 s, B
// 301-353.45 s, when it is done. A has done 145.55 s, and resumes: 354.45 s and 54.45 s more.
TEST(Packing, IsUndoneWhereItDoesNotPay) {
  const GroundTruth truth = truth_with_use(1.0, 8.0);
  Simulation simulation(sharing_setup(1, 1), truth, trace_of(kTwoJobs), "gandiva");
  EXPECT_FALSE(simulation.run_until(Seconds(150.0)));
  EXPECT_EQ(simulation.state().jobs[0].partner, 1);
  EXPECT_FALSE(simulation.run_until(Seconds(181.0)));
  EXPECT_EQ(simulation.state().jobs[0].partner, -1);
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 1), 353.45, 1e-6);
  EXPECT_NEAR(jct(simulation, 0), 408.9, 1e-6);
}

// 9 GiB each do not fit in 16; a table that does not say what jobs need shares nothing; nor does --no-packing.
TEST(Packing, IsNotDoneWithoutRoomOrWithoutKnowing) {
  PolicyOptions without;
  without.packing = false;
  const SimulationResult turns =
      simulate(sharing_setup(1, 1), truth_with_use(0.5, 8.0), trace_of(kTwoJobs), "gandiva", without);
  for (const GroundTruth& truth : {truth_with_use(0.5, 9.0), linear_truth()}) {
    const SimulationResult result = simulate(sharing_setup(1, 1), truth, trace_of(kTwoJobs), "gandiva");
    EXPECT_EQ(result.avg_jct_s, turns.avg_jct_s);
    EXPECT_EQ(result.energy_j, turns.energy_j);
  }
  const SimulationResult shared =
      simulate(sharing_setup(1, 1), truth_with_use(0.5, 8.0), trace_of(kTwoJobs), "gandiva");
  EXPECT_LT(shared.avg_jct_s, turns.avg_jct_s);
}

// Two jobs on two GPUs.
TEST(Packing, IsNotDoneWhileAllFit) {
  const GroundTruth truth = truth_with_use(0.5, 4.0);
  Simulation simulation(sharing_setup(2, 1), truth, trace_of(kTwoJobs), "gandiva");
  for (double until = 0.0; !simulation.run_until(Seconds(until)); until += 10.0) {
    for (const ClusterJob& one : simulation.state().jobs) EXPECT_EQ(one.partner, -1);
  }
  EXPECT_NEAR(jct(simulation, 0), 200.0, 1e-9);
}

// Two GPUs, three jobs: A and B run first, then C and A. All were seen by 120 s, and one pair, A and B, suffices. C, on
// from 60 s for 150 s, is done at 210 s, and A and B have a GPU each at once.
TEST(Packing, EndsWhenThereIsRoom) {
  const GroundTruth truth = truth_with_use(0.5, 4.0);
  Simulation simulation(sharing_setup(2, 1), truth, trace_of({job(0, 1, 300), job(0, 1, 250), job(0, 1, 150)}),
                        "gandiva");
  EXPECT_FALSE(simulation.run_until(Seconds(130.0)));
  int paired = 0;
  for (const ClusterJob& one : simulation.state().jobs) paired += one.partner >= 0 ? 1 : 0;
  EXPECT_EQ(paired, 2);
  EXPECT_EQ(simulation.state().free_gpus, 0);
  EXPECT_FALSE(simulation.run_until(Seconds(209.0)));
  EXPECT_EQ(simulation.state().done, 0);
  EXPECT_FALSE(simulation.run_until(Seconds(211.0)));
  EXPECT_EQ(simulation.state().done, 1);
  simulation.check();
  for (const ClusterJob& one : simulation.state().jobs) EXPECT_EQ(one.partner, -1);
  EXPECT_EQ(simulation.state().free_gpus, 0);
  EXPECT_TRUE(simulation.run());
}

// On the shipped tables with random traces: what must hold of GPUs, memory and energy, counted again here.
TEST(Packing, KeepsTheRulesOnTheShippedTables) {
  for (const char* gpu : {"v100", "a100"}) {
    const GroundTruth truth = load_ground_truth(gpu);
    for (const char* policy : {"gandiva", "gandiva+zeus"}) {
      TraceSynthesis request;
      request.jobs = 150;
      request.span = Seconds(3.0 * 3600.0);
      request.seed = 11;
      SimulationSetup setup;
      setup.spec.nodes = 4;
      setup.spec.gpus_per_node = 4;
      setup.spec.gpu = gpu;
      setup.record = true;
      Simulation simulation(setup, truth, synthesize_job_trace(request), policy);
      const ClusterState& state = simulation.state();
      long shared = 0;
      for (double until = 0.0; !simulation.run_until(Seconds(until)); until += 31.0) {
        ASSERT_NO_THROW(simulation.check());
        std::map<std::pair<int, int>, std::pair<int, double>> on;  // by GPU: jobs, and what they need of its memory
        for (const int index : state.active) {
          const ClusterJob& one = state.jobs[static_cast<std::size_t>(index)];
          const ClusterJobKind& kind = state.kind_of(index);
          for (const GpuBlock& block : simulation.placement().blocks(index)) {
            for (int gpu_index = block.first; gpu_index < block.first + block.count; ++gpu_index) {
              auto& [jobs, memory] = on[{block.node, gpu_index}];
              ++jobs;
              memory += kind.memory_gib[static_cast<std::size_t>(kind.size_index(one.gpus))];
              if (jobs > 1) ++shared;
            }
          }
        }
        for (const auto& [place, load] : on) {
          ASSERT_LE(load.first, 2);
          if (load.first == 2) ASSERT_LE(load.second, state.spec.memory_gib);
        }
        ASSERT_EQ(on.size() + static_cast<std::size_t>(state.free_gpus), 16u);
      }
      EXPECT_GT(shared, 100) << gpu << " " << policy;
      double joules = 0.0;
      const auto& samples = simulation.history().power;
      for (std::size_t i = 1; i < samples.size(); ++i) {
        joules += (samples[i - 1].power * (samples[i].at - samples[i - 1].at)).value();
        EXPECT_LE(samples[i].power.value(), 16.0 * 300.0 + 1e-6);
      }
      EXPECT_NEAR(joules, simulation.result().energy_j, 1e-9 * joules);
    }
  }
}

// What the paper claims: more done with the same GPUs. In an overloaded cluster all jobs take fewer GPU-seconds in all,
// and are done sooner on average.
TEST(Packing, DoesMoreWithTheSameGpus) {
  const GroundTruth truth = load_ground_truth("v100");
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u}) {
    TraceSynthesis request;
    request.jobs = 300;
    request.span = Seconds(4.0 * 3600.0);
    request.seed = seed;
    const JobTrace trace = synthesize_job_trace(request);
    SimulationSetup setup;
    setup.spec.nodes = 8;
    setup.spec.node_shutdown = false;  // so that nobody waits for a node to wake
    PolicyOptions options;
    const SimulationResult on = simulate(setup, truth, trace, "gandiva", options);
    options.packing = false;
    const SimulationResult off = simulate(setup, truth, trace, "gandiva", options);
    EXPECT_LT(on.avg_jct_s, off.avg_jct_s) << seed;
    EXPECT_LT(on.gpu_seconds, off.gpu_seconds) << seed;
  }
}

}  // namespace
}  // namespace flyball
