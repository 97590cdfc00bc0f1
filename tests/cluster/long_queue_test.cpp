// A decision must not cost more where more jobs wait: no policy looks again at those that it cannot serve.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "cluster/simulator.h"
#include "cluster/small_cluster.h"

namespace flyball {
namespace {

constexpr Seconds kBegin{1'000.0};

class LongQueue : public ::testing::TestWithParam<std::string> {};

struct Looked {
  std::set<int> served;   // jobs that had GPUs at any time since kBegin, and the first of those that wait then
  std::set<int> waiting;  // the others that are to be done
  std::vector<std::vector<int>> at_end;  // of the jobs with GPUs: job, GPUs, speed, partner
};

// Runs the jobs until `later` after kBegin. At kBegin those of `changed` are changed behind the policy's back: they
// would be done soonest, have had most, and ask for the one GPU that is free.
Looked run_with(const std::string& policy, const std::set<int>& changed, Seconds later) {
  const GroundTruth truth = linear_truth();
  std::vector<TraceJob> jobs;
  for (int i = 0; i < 300; ++i) jobs.push_back(job(0, 2, 2'000 + i));
  SimulationSetup setup = small_setup(3, 1);
  setup.budget = {{kBegin + later, setup.eta}};  // changes nothing, but for that a decision is asked for
  Simulation simulation(setup, truth, trace_of(jobs), policy);
  EXPECT_FALSE(simulation.run_until(kBegin));
  auto& state = const_cast<ClusterState&>(simulation.state());
  for (const int index : changed) {
    ClusterJob& one = state.jobs[static_cast<std::size_t>(index)];
    one.requested_gpus = 1;
    one.iterations = one.done + 1.0;
    one.gpu_time = Seconds(1e9);
  }
  Looked looked;
  const auto has_gpus = [&](int index) { return state.jobs[static_cast<std::size_t>(index)].has_gpus(); };
  for (const int index : state.active) {
    if (has_gpus(index)) continue;
    looked.served.insert(index);
    break;
  }
  const std::int64_t decisions = simulation.result().decisions;
  for (Seconds step; step <= later; step += Seconds(1.0)) {
    EXPECT_FALSE(simulation.run_until(kBegin + step));
    looked.served.insert(state.holding.begin(), state.holding.end());
  }
  EXPECT_GT(simulation.result().decisions, decisions);
  for (const int index : state.active) {
    const ClusterJob& one = state.jobs[static_cast<std::size_t>(index)];
    if (looked.served.count(index) == 0) looked.waiting.insert(index);
    if (one.has_gpus()) looked.at_end.push_back({index, one.gpus, one.speed, one.partner});
  }
  return looked;
}

// Three GPUs, two of them for one of the many jobs that ask for two; so one is free, and policies that give one GPU
// to jobs that ask for more have given it away. Then the jobs that wait are changed behind the policy's back, but for
// those that it serves next and the first of all, whom FIFO waits for. Who looks at any of them in the next decision,
// within a slice or when one is over, decides otherwise than without the change. Backfilling looks at all that wait, to
// find who may overtake.
TEST_P(LongQueue, IsNotReadAgain) {
  for (const Seconds later : {Seconds(1.0), Seconds(61.0)}) {
    const Looked expected = run_with(GetParam(), {}, later);
    ASSERT_GT(expected.waiting.size(), 200u);
    EXPECT_EQ(run_with(GetParam(), expected.waiting, later).at_end, expected.at_end) << later.value();
  }
}

std::vector<std::string> names_but_backfill() {
  std::vector<std::string> names = policy_names();
  std::erase(names, "backfill");
  return names;
}

INSTANTIATE_TEST_SUITE_P(AllPolicies, LongQueue, ::testing::ValuesIn(names_but_backfill()), [](const auto& instance) {
  std::string name = instance.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '+'; }, '_');
  return name;
});

}  // namespace
}  // namespace flyball
