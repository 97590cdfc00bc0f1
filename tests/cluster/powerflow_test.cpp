#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cluster/power_book.h"
#include "cluster/simulator.h"
#include "cluster/small_cluster.h"

namespace flyball {
namespace {

// One job alone, of 10 iterations. Doubling saves time and costs no energy (the costs are linear), so it has all four
// GPUs. 800 W (eta 1) allow 2000 MHz: 0.25 s per iteration. 400 W do not: 0.5 s, and 4 * 50 W * 5 s.
TEST(PowerFlow, TheBudgetSetsTheClock) {
  const GroundTruth truth = linear_truth();
  SimulationSetup setup = small_setup();
  const SimulationResult rich = simulate(setup, truth, trace_of({job(0, 1, 10)}), "powerflow");
  EXPECT_NEAR(rich.avg_jct_s, 2.5, 1e-9);
  EXPECT_NEAR(rich.energy_j, 2000.0, 1e-3);
  setup.eta = 0.5;
  const SimulationResult poor = simulate(setup, truth, trace_of({job(0, 1, 10)}), "powerflow");
  EXPECT_NEAR(poor.avg_jct_s, 5.0, 1e-9);
  EXPECT_NEAR(poor.energy_j, 1000.0, 1e-3);
}

// Eq. 18 on what is there to be decided at one instant: the mean of the jobs' remaining times if nothing else happened,
// over all ways to give three jobs of four GPUs sizes and speeds within the limit.
struct Choice {
  int gpus;
  int speed;
};

double best_mean(const ClusterState& state, std::size_t index, int gpus, double watts) {
  if (index == state.jobs.size()) return 0.0;
  double best = std::numeric_limits<double>::infinity();
  const int job = static_cast<int>(index);
  for (const int size : state.kind_of(job).sizes) {
    for (int speed = 0; size <= gpus && speed <= state.top_speed(job); ++speed) {
      const IterationCost& cost = state.believed_cost(job, size, speed);
      if (cost.power().value() > watts + 1e-9) continue;
      const double here = (cost.time * state.jobs[index].iterations).value();
      best = std::min(best, here + best_mean(state, index + 1, gpus - size, watts - cost.power().value()));
    }
  }
  return best;
}

TEST(PowerFlow, IsNearTheOptimumOfTinyClusters) {
  const GroundTruth truth = load_ground_truth("v100");
  double worst = 0.0;
  double sum = 0.0;
  int cases = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const double eta : {0.5, 0.7, 0.9}) {
      SimulationSetup setup;
      setup.spec.nodes = 1;
      setup.spec.clocks = {Megahertz(1020), Megahertz(1200), Megahertz(1380), Megahertz(1530)};
      setup.eta = eta;
      setup.seed = seed;
      setup.knowledge = Knowledge::kProfiled;
      Simulation simulation(setup, truth, trace_of({job(0, 1, 3000), job(0, 1, 3000), job(0, 1, 3000)}), "powerflow");
      simulation.run_until(Seconds(0.0));
      const ClusterState& state = simulation.state();
      double mean = 0.0;
      for (std::size_t i = 0; i < 3; ++i) {
        const ClusterJob& one = state.jobs[i];
        ASSERT_TRUE(one.has_gpus());
        mean += (state.believed_cost(static_cast<int>(i), one.gpus, one.speed).time * one.iterations).value();
      }
      const double ratio = mean / best_mean(state, 0, state.spec.gpus(), state.power_limit.value());
      EXPECT_GE(ratio, 1.0 - 1e-12);
      worst = std::max(worst, ratio);
      sum += ratio;
      ++cases;
    }
  }
  // The greedy algorithm buys time by the joule, not by the watt, so it need not find the optimum.
  EXPECT_LT(sum / cases, 1.10);
  EXPECT_LT(worst, 1.35);
}

// The limit lies between what a job of one GPU is believed to draw and what it counts with before anything of its kind
// is metered, so that it may run only while nothing else does. It begins at 0 s and waits 60 s for its node. Another
// one, which comes in the meantime, neither stops it nor runs beside it.
TEST(PowerFlow, WhatRunsForWantOfOthersGoesOnWhenOneComes) {
  const GroundTruth truth = load_ground_truth("v100");
  TraceJob first = job(0, 1, 3000);
  first.model = "vgg16";
  first.batch_size = 64;
  TraceJob second = first;
  second.submit = Seconds(20.0);
  SimulationSetup setup;
  setup.spec.nodes = 1;
  setup.knowledge = Knowledge::kFitted;
  const ClusterState unseen = Simulation(setup, truth, trace_of({first, second}), "powerflow").state();
  const Watts believed = unseen.counted(0, 0, 0) / (1.0 + kUnseenReserve);
  setup.eta = believed * (1.0 + 0.5 * kUnseenReserve) / (unseen.spec.p_max * unseen.spec.gpus());
  Simulation simulation(setup, truth, trace_of({first, second}), "powerflow");
  EXPECT_FALSE(simulation.run_until(Seconds(30.0)));
  EXPECT_EQ(simulation.state().jobs[0].gpus, 1);
  EXPECT_EQ(simulation.state().jobs[0].phase, JobPhase::kStarting);
  EXPECT_EQ(simulation.state().jobs[1].phase, JobPhase::kWaiting);
}

// A job has all four GPUs at 2000 MHz when the limit falls to 50 W, which is enough for one GPU at 1000 MHz. A job that
// is to be profiled keeps its GPUs nevertheless, also if it is the simulator that wants so and not this policy.
TEST(PowerFlow, WhatIsToBeProfiledKeepsItsGpus) {
  const GroundTruth truth = linear_truth();
  Simulation simulation(small_setup(), truth, trace_of({job(0, 1, 10)}), "powerflow");
  EXPECT_FALSE(simulation.run_until(Seconds(0.0)));
  ClusterState state = simulation.state();
  ASSERT_EQ(state.jobs[0].gpus, 4);
  state.power_limit = Watts(50.0);
  Decision decision;
  make_policy("powerflow")->decide(state, {}, decision);
  ASSERT_EQ(decision.assignments.size(), 1u);
  EXPECT_EQ(decision.assignments[0].gpus, 1);
  EXPECT_EQ(decision.assignments[0].speed, 0);
  state.jobs[0].to_profile = true;
  decision.clear();
  make_policy("powerflow")->decide(state, {}, decision);
  EXPECT_TRUE(decision.assignments.empty());
}

// A pipeline has one size and walks its frontier: 10 iterations on 2 GPUs, 2 s at 100 W each or 1 s at 300 W.
TEST(PowerFlow, APipelineMovesAlongItsFrontier) {
  const GroundTruth truth = linear_truth();
  SimulationSetup setup = small_setup();
  setup.pipelines.push_back(
      {Seconds(0.0), 2, 10.0, "gpt", {{Seconds(2.0), Joules(200.0)}, {Seconds(1.0), Joules(300.0)}}});
  setup.eta = 0.5;  // 400 W: the fast end
  EXPECT_NEAR(simulate(setup, truth, trace_of({}), "powerflow").avg_jct_s, 10.0, 1e-9);
  setup.eta = 0.25;  // 200 W: the thrifty end
  EXPECT_NEAR(simulate(setup, truth, trace_of({}), "powerflow").avg_jct_s, 20.0, 1e-9);
  setup.eta = 0.5;
  setup.budget = {{Seconds(5.0), 0.25}};  // 5 iterations fast, 5 slow
  EXPECT_NEAR(simulate(setup, truth, trace_of({}), "powerflow").avg_jct_s, 15.0, 1e-9);
}

}  // namespace
}  // namespace flyball
