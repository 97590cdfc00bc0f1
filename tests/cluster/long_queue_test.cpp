// A decision must not cost more where more jobs wait: no policy looks again at those that it cannot serve.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "cluster/simulator.h"
#include "cluster/small_cluster.h"

namespace flyball {
namespace {

class LongQueue : public ::testing::TestWithParam<std::string> {};

void apply(const Decision& decision, ClusterState& cluster) {
  for (const Assignment& given : decision.assignments) {
    ClusterJob& job = cluster.jobs[static_cast<std::size_t>(given.job)];
    cluster.free_gpus += job.gpus - given.gpus;
    job.gpus = given.gpus;
    job.speed = given.speed;
    job.phase = given.gpus > 0 ? JobPhase::kRunning : JobPhase::kWaiting;
  }
  cluster.holding.clear();
  for (const int job : cluster.active) {
    if (cluster.jobs[static_cast<std::size_t>(job)].has_gpus()) cluster.holding.push_back(job);
  }
}

std::vector<std::vector<int>> assigned(const Decision& decision) {
  std::vector<std::vector<int>> list;
  for (const Assignment& one : decision.assignments) list.push_back({one.job, one.gpus, one.speed, one.partner});
  return list;
}

// Three GPUs, two of them for one of the many jobs that ask for two; so one is free, and policies that give one GPU
// to jobs that ask for more have given it away. Then the jobs that wait are changed behind the policy's back, but for
// those that it serves next and the first of all, whom FIFO waits for: they would be done soonest, have had most, and
// ask for the one GPU that is free. Who looks at any of them in the next decision, within a slice or when one is
// over, decides otherwise than without the change.
TEST_P(LongQueue, IsNotReadAgain) {
  const GroundTruth truth = linear_truth();
  std::vector<TraceJob> jobs;
  for (int i = 0; i < 300; ++i) jobs.push_back(job(0, 2, 2'000 + i));
  for (const double later : {1.0, 61.0}) {
    Simulation simulation(small_setup(3, 1), truth, trace_of(jobs), GetParam());
    EXPECT_FALSE(simulation.run_until(Seconds(1'000.0)));
    ClusterState cluster = simulation.state();
    const auto saved = nlohmann::ordered_json::parse(simulation.snapshot()).at("policy_state");
    const auto decide_later = [&](const std::vector<int>& changed) {
      ClusterState now = cluster;
      const std::unique_ptr<Policy> policy = make_policy(GetParam());
      policy->restore(now, saved);
      Decision decision;
      policy->decide(now, {}, decision);
      apply(decision, now);
      for (const int index : changed) {
        ClusterJob& one = now.jobs[static_cast<std::size_t>(index)];
        if (one.has_gpus()) continue;
        one.requested_gpus = 1;
        one.iterations = one.done + 1.0;
        one.gpu_time = Seconds(1e9);
      }
      now.now = now.now + Seconds(later);
      decision.clear();
      policy->decide(now, {}, decision);
      return assigned(decision);
    };
    const std::vector<std::vector<int>> expected = decide_later({});
    std::vector<int> others = cluster.active;
    others.erase(std::find_if(others.begin(), others.end(),
                              [&](int index) { return !cluster.jobs[static_cast<std::size_t>(index)].has_gpus(); }));
    for (const std::vector<int>& one : expected) std::erase(others, one.front());
    ASSERT_GT(others.size(), 200u);
    EXPECT_EQ(decide_later(others), expected) << later;
  }
}

INSTANTIATE_TEST_SUITE_P(AllPolicies, LongQueue, ::testing::ValuesIn(policy_names()), [](const auto& instance) {
  std::string name = instance.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '+'; }, '_');
  return name;
});

}  // namespace
}  // namespace flyball
