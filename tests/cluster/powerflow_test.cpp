#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

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

// Two GPUs, three jobs with 8, 4 and 2 iterations: those with the least energy left run, one GPU each at 2000 MHz.
// The third (2 s) and the second (4 s) begin; the first follows the third at 2 s with one GPU, and has both from 4 s on:
// 2 of its 8 iterations are done by then, the other 6 take 3 s.
TEST(PowerFlow, WhereNotAllCanRunTheShortestDo) {
  const GroundTruth truth = linear_truth();
  Simulation simulation(small_setup(1), truth, trace_of({job(0, 1, 8), job(0, 1, 4), job(0, 1, 2)}), "powerflow");
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 2), 2.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 1), 4.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 0), 7.0, 1e-9);
}

// A budget of 250 W after 1 s: 4 GPUs at 1000 MHz draw 200 W.
TEST(PowerFlow, AChangedBudgetMovesJobsAtOnce) {
  const GroundTruth truth = linear_truth();
  SimulationSetup setup = small_setup();
  setup.budget = {{Seconds(1.0), 250.0 / 800.0}};
  // 10 iterations: 4 in the first second (0.25 s each), the other 6 take 0.5 s each.
  EXPECT_NEAR(simulate(setup, truth, trace_of({job(0, 1, 10)}), "powerflow").avg_jct_s, 4.0, 1e-9);
}

// The sum of the jobs' power is within the limit after every decision when costs are known.
TEST(PowerFlow, NeverExceedsTheLimit) {
  const GroundTruth truth = load_ground_truth("v100");
  TraceSynthesis request;
  request.jobs = 200;
  request.span = Seconds(4.0 * 3600.0);
  const JobTrace trace = synthesize_job_trace(request);
  for (const double eta : {0.3, 0.5, 0.7, 1.0}) {
    SimulationSetup setup;
    setup.spec.nodes = 4;
    setup.eta = eta;
    setup.knowledge = Knowledge::kProfiled;
    Simulation simulation(setup, truth, trace, "powerflow");
    simulation.run();
    EXPECT_LE(simulation.result().peak_job_power_w, simulation.state().power_limit.value() + 1e-3) << eta;
    // It is used, too, while there is work for it.
    if (eta < 0.6) EXPECT_GE(simulation.result().peak_job_power_w, 0.95 * simulation.state().power_limit.value());
  }
}

// Nor when costs are learned: what is metered counts, and what was never metered has a reserve.
TEST(PowerFlow, KeepsTheLimitWhileItLearns) {
  for (const char* gpu : {"v100", "a100"}) {
    const GroundTruth truth = load_ground_truth(gpu);
    for (const std::uint64_t seed : {1u, 2u}) {
      TraceSynthesis request;
      request.jobs = 200;
      request.span = Seconds(3.0 * 3600.0);
      request.seed = seed;
      const JobTrace trace = synthesize_job_trace(request);
      for (const double eta : {0.4, 0.7}) {
        SimulationSetup setup;
        setup.spec.gpu = gpu;
        setup.eta = eta;
        setup.seed = seed;
        Simulation simulation(setup, truth, trace, "powerflow");
        simulation.run();
        const double limit = simulation.state().power_limit.value();
        EXPECT_LE(simulation.result().peak_job_power_w, limit + 1e-3) << gpu << " " << seed << " " << eta;
        EXPECT_GE(simulation.result().peak_job_power_w, 0.95 * limit) << "it is used, too";
      }
    }
  }
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

// What is learned while jobs run is nearly as good as knowing it, profiling and its energy left aside.
TEST(PowerFlow, LearnsWhatItNeeds) {
  const GroundTruth truth = load_ground_truth("v100");
  TraceSynthesis request;
  request.jobs = 400;
  request.span = Seconds(6.0 * 3600.0);
  const JobTrace trace = synthesize_job_trace(request);
  SimulationSetup setup;
  setup.eta = 0.7;
  const SimulationResult learned = simulate(setup, truth, trace, "powerflow");
  setup.knowledge = Knowledge::kProfiled;
  const SimulationResult known = simulate(setup, truth, trace, "powerflow");
  EXPECT_GT(learned.profiling_energy_j, 0.0);
  EXPECT_EQ(known.profiling_energy_j, 0.0);
  EXPECT_LT(learned.avg_jct_s, 1.25 * known.avg_jct_s);
  EXPECT_LT(learned.energy_j, 1.25 * known.energy_j);
}

// One job at a time, none ever waits for ever: not for the reserve on one GPU, and not where its power turns out to be too
// much for its size and no smaller size can be profiled within the limit.
TEST(PowerFlow, TheOnlyJobRuns) {
  const GroundTruth truth = load_ground_truth("v100");
  SimulationSetup setup;
  setup.spec.nodes = 1;
  setup.spec.gpus_per_node = 1;
  setup.eta = 0.9;
  EXPECT_EQ(simulate(setup, truth, trace_of({job(0, 1, 1000)}), "powerflow").jobs, 1u);
  setup.spec = {};
  TraceSynthesis request;
  request.jobs = 100;
  request.span = Seconds(48'000.0);
  request.median_duration = Seconds(1800.0);
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u}) {
    request.seed = setup.seed = seed;
    for (const double eta : {0.3, 0.4, 0.5}) {
      setup.eta = eta;
      EXPECT_GT(simulate(setup, truth, synthesize_job_trace(request), "powerflow").avg_jct_s, 0.0)
          << seed << " " << eta;
    }
  }
}

// A first fit may be so wrong that sizes seem useless, which are then never profiled: the day of jobs has such a turn.
TEST(PowerFlow, WrongBeliefsDoNotLast) {
  const GroundTruth truth = load_ground_truth("v100");
  const JobTrace trace = synthesize_job_trace({});
  for (const double eta : {0.6, 0.7, 0.8}) {
    SimulationSetup setup;
    setup.eta = eta;
    const SimulationResult learned = simulate(setup, truth, trace, "powerflow");
    setup.knowledge = Knowledge::kProfiled;
    EXPECT_LT(learned.avg_jct_s, 1.10 * simulate(setup, truth, trace, "powerflow").avg_jct_s) << eta;
  }
}

// With models fitted beforehand and no profiling, schedules are as good as with the truth (PowerFlow, figure 9: 2 %).
TEST(PowerFlow, FittedModelsScheduleAsWellAsTheTruth) {
  const GroundTruth truth = load_ground_truth("v100");
  TraceSynthesis request;
  request.jobs = 400;
  request.span = Seconds(6.0 * 3600.0);
  const JobTrace trace = synthesize_job_trace(request);
  double ratio = 1.0;
  for (const double eta : {0.5, 0.7, 0.9}) {
    SimulationSetup setup;
    setup.eta = eta;
    setup.knowledge = Knowledge::kFitted;
    const SimulationResult fitted = simulate(setup, truth, trace, "powerflow");
    setup.knowledge = Knowledge::kProfiled;
    const SimulationResult known = simulate(setup, truth, trace, "powerflow");
    EXPECT_EQ(fitted.profiling_energy_j, 0.0);
    EXPECT_NEAR(fitted.energy_j / known.energy_j, 1.0, 0.02) << eta;
    ratio *= fitted.avg_jct_s / known.avg_jct_s;
  }
  EXPECT_LT(std::cbrt(ratio), 1.02);
}

}  // namespace
}  // namespace flyball
