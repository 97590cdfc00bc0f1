// Tiresias against its published rule: by hand, and by a second implementation that shares nothing with the first.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "cluster/simulator.h"
#include "cluster/small_cluster.h"

namespace flyball {
namespace {

// The rule alone: jobs that hold their GPUs for a known time, no restarts, no places. Slow and plain.
struct Served {
  double submit;
  int gpus;
  double work;  // s with its GPUs
  double had = 0.0;
  std::size_t queue = 0;
  bool runs = false;
  int preempted = 0;
  double finish = -1.0;
};

void serve(std::vector<Served>& jobs, int gpus) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  constexpr std::array<double, 3> kLimits = {3250.0, 7200.0, kNever};
  std::array<std::vector<std::size_t>, 3> queues;
  std::size_t arrived = 0;
  std::size_t done = 0;
  double now = 0.0;
  while (done < jobs.size()) {
    double next = arrived < jobs.size() ? jobs[arrived].submit : kNever;
    for (const Served& job : jobs) {
      if (!job.runs) continue;
      next = std::min({next, now + job.work - job.had, now + kLimits[job.queue] / job.gpus - job.had});
    }
    for (Served& job : jobs) {
      if (job.runs) job.had += next - now;
    }
    now = next;
    for (std::size_t i = 0; i < arrived; ++i) {
      Served& job = jobs[i];
      if (!job.runs) continue;
      std::vector<std::size_t>& here = queues[job.queue];
      if (job.had >= job.work - 1e-7) {
        job.finish = now;
        job.runs = false;
        ++done;
        here.erase(std::find(here.begin(), here.end(), i));
      } else if (job.had * job.gpus >= kLimits[job.queue] - 1e-4) {
        here.erase(std::find(here.begin(), here.end(), i));
        queues[++job.queue].push_back(i);
      }
    }
    for (; arrived < jobs.size() && jobs[arrived].submit <= now; ++arrived) queues[0].push_back(arrived);
    int free = gpus;
    for (std::vector<std::size_t>& queue : queues) {
      std::vector<std::size_t> running;
      std::vector<std::size_t> waiting;
      for (const std::size_t i : queue) {
        const bool fits = jobs[i].gpus <= free;
        if (fits) free -= jobs[i].gpus;
        if (jobs[i].runs && !fits) ++jobs[i].preempted;
        jobs[i].runs = fits;
        (fits ? running : waiting).push_back(i);
      }
      queue = running;
      queue.insert(queue.end(), waiting.begin(), waiting.end());
    }
  }
}

// The shipped day on 64 GPUs of one node, where places make no difference: every job ends when the rule says.
TEST(TiresiasRule, EndsEveryJobWhenTheRuleDoes) {
  const GroundTruth truth = load_ground_truth("v100");
  SimulationSetup setup;
  setup.spec.nodes = 1;
  setup.spec.gpus_per_node = 64;
  setup.spec.restart = Seconds(0.0);
  setup.spec.node_shutdown = false;
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    TraceSynthesis request;  // of seed 1: examples/cluster/day.csv
    request.seed = setup.seed = seed;
    Simulation simulation(setup, truth, synthesize_job_trace(request), "tiresias");
    simulation.run();
    const ClusterState& state = simulation.state();
    std::vector<Served> jobs;
    for (int i = 0; i < static_cast<int>(state.jobs.size()); ++i) {
      const ClusterJob& one = state.jobs[static_cast<std::size_t>(i)];
      const IterationCost& cost = state.believed_cost(i, one.requested_gpus, state.top_speed(i));
      jobs.push_back({one.submit.value(), one.requested_gpus, one.iterations * cost.time.value()});
    }
    serve(jobs, 64);
    int preempted = 0;
    double latest = 0.0;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      latest = std::max(latest, std::abs(jobs[i].finish - state.jobs[i].finish.value()));
      preempted += jobs[i].preempted;
    }
    EXPECT_LT(latest, 0.1) << "seed " << seed;
    EXPECT_EQ(preempted, simulation.result().migrations) << "seed " << seed;
    EXPECT_GT(preempted, 100) << "it must come to that";
  }
}

// One GPU. A has had 3,250 GPU-seconds at 3,250 s; B, in the first queue since 100 s, runs to its own 3,250 at 6,500 s.
// Both are in the second queue now, A before B; A waits, B runs and fell to the end, so A comes first: it has 3,950
// more there (7,200 in all) until 10,450 s. In the third queue it comes after B, which has 3,950 until 14,400 s. A,
// first in the third queue, has its last 2,800 s until 17,200 s, and B its last 1,800 until 19,000 s.
TEST(Tiresias, HasThreeQueues) {
  const GroundTruth truth = linear_truth();
  Simulation simulation(small_setup(1, 1), truth, trace_of({job(0, 1, 10'000), job(100, 1, 9'000)}), "tiresias");
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 0), 17'200.0, 1e-4);
  EXPECT_NEAR(jct(simulation, 1), 18'900.0, 1e-4);
  // A gives way at 3,250 s, B at 6,500 s, A at 10,450 s, B at 14,400 s.
  EXPECT_EQ(simulation.result().migrations, 4);
}

// Two GPUs. A (1 GPU) runs from 0 s; B (2 GPUs) comes at 1 s and does not fit; C (1 GPU) comes at 2 s and runs beside
// A. A is done at 10 s. C runs and stays ahead of B in their queue, though B came first: B runs from 102 s, when C is
// done.
TEST(Tiresias, WhoRunsStaysAheadWithinAQueue) {
  const GroundTruth truth = linear_truth();
  Simulation simulation(small_setup(1), truth, trace_of({job(0, 1, 10), job(1, 2, 50), job(2, 1, 100)}), "tiresias");
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 0), 10.0, 1e-6);
  EXPECT_NEAR(jct(simulation, 2), 100.0, 1e-6);
  EXPECT_NEAR(jct(simulation, 1), 151.0, 1e-6);
  EXPECT_EQ(simulation.result().migrations, 0);
}

}  // namespace
}  // namespace flyball
