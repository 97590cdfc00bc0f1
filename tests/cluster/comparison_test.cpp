#include "cluster/comparison.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cluster/small_cluster.h"
#include "support/expect_error.h"

namespace flyball {
namespace {

// One job of 2 GPUs and 10 s on four GPUs. FIFO: 10 s and 4000 J of work at 2000 MHz, 20 s and 2000 J at 1000 MHz; two
// GPUs idle on a node that stays on. Joule price gives it all four: 5 s at eta 1; at eta 0.5 10 s, at 1000 MHz.
TEST(Comparison, RunsEveryPolicyAtItsSettings) {
  const GroundTruth truth = linear_truth();
  ComparisonRequest request;
  request.policies = {"joule-price", "fifo", "gandiva+zeus"};
  request.clocks = {Megahertz(1000.0), Megahertz(2000.0)};
  request.etas = {0.5, 1.0};
  PolicyOptions options;
  options.zeus_eta = 0.9;
  SimulationSetup setup = small_setup();
  setup.spec.node_shutdown = false;
  const auto runs = compare_policies(setup, truth, trace_of({job(0, 2, 10)}), options, request);
  ASSERT_EQ(runs.size(), 5u);
  const std::vector<std::string> policies = {"joule-price", "joule-price", "fifo", "fifo", "gandiva+zeus"};
  const double values[] = {0.5, 1.0, 1000.0, 2000.0, 0.9};
  const double jct[] = {10.0, 5.0, 20.0, 10.0, 20.0};
  const double energy[] = {2000.0, 4000.0, 2400.0, 4200.0, 2400.0};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].policy, policies[i]);
    EXPECT_EQ(runs[i].result.policy, policies[i]);
    EXPECT_EQ(runs[i].value, values[i]);
    EXPECT_NEAR(runs[i].result.avg_jct_s, jct[i], 1e-9) << i;
    EXPECT_NEAR(runs[i].result.energy_j, energy[i], 1e-3) << i;
  }
}

// Without lists, once as the setup and the options say.
TEST(Comparison, RunsOnceWithoutSettings) {
  const GroundTruth truth = linear_truth();
  ComparisonRequest request;
  request.policies = {"fifo", "joule-price"};
  SimulationSetup setup = small_setup();
  setup.eta = 0.5;
  PolicyOptions options;
  const auto fast = compare_policies(setup, truth, trace_of({job(0, 2, 10)}), options, request);
  ASSERT_EQ(fast.size(), 2u);
  EXPECT_EQ(fast[0].value, 2000.0);
  EXPECT_EQ(fast[1].value, 0.5);
  options.clock = Megahertz(1000.0);
  const auto slow = compare_policies(setup, truth, trace_of({job(0, 2, 10)}), options, request);
  EXPECT_EQ(slow[0].value, 1000.0);
  EXPECT_NEAR(slow[0].result.avg_jct_s, 20.0, 1e-9);
  EXPECT_EQ(slow[1].result.avg_jct_s, fast[1].result.avg_jct_s);
}

// What reports need is kept when asked for: FIFO's job holds 2 of 4 GPUs for 10 s.
TEST(Comparison, RecordsRunsWhenAsked) {
  const GroundTruth truth = linear_truth();
  ComparisonRequest request;
  request.policies = {"fifo"};
  const JobTrace trace = trace_of({job(0, 2, 10)});
  EXPECT_TRUE(compare_policies(small_setup(), truth, trace, {}, request).front().usage.empty());
  request.record = true;
  const auto runs = compare_policies(small_setup(), truth, trace, {}, request);
  ASSERT_GE(runs.front().usage.size(), 2u);
  EXPECT_EQ(runs.front().usage.front().gpus, 2);
  EXPECT_EQ(runs.front().usage.back().at.value(), 10.0);
  EXPECT_EQ(runs.front().usage.back().gpus, 0);
  EXPECT_EQ(runs.front().jcts_s, std::vector<double>{10.0});
}

TEST(Comparison, TheReferenceIsTheDefaultPolicysFirstRunOrTheFirst) {
  const auto run = [](const char* policy, double energy_j) {
    ComparedRun one;
    one.policy = policy;
    one.result.energy_j = energy_j;
    return one;
  };
  const std::vector<ComparedRun> with = {run("afs", 9), run("joule-price", 3), run("joule-price", 5)};
  EXPECT_EQ(&reference_run(with), &with[1]);
  EXPECT_EQ(runs_of_like_energy(with), (std::vector<const ComparedRun*>{&with[0], &with[2]}));
  const std::vector<ComparedRun> without = {run("afs", 9), run("fifo", 3), run("fifo", 5), run("fifo", 8),
                                            run("afs", 4)};
  EXPECT_EQ(&reference_run(without), &without[0]);
  // 8 and 9 are nearer than 4 and 5, or 3 and 4, by their ratio.
  EXPECT_EQ(runs_of_like_energy(without), (std::vector<const ComparedRun*>{&without[0], &without[3]}));
}

TEST(Comparison, RefusesWhatCannotBeCompared) {
  const GroundTruth truth = linear_truth();
  const auto compare = [&](std::vector<std::string> policies, const JobTrace& trace) {
    ComparisonRequest request;
    request.policies = std::move(policies);
    (void)compare_policies(small_setup(), truth, trace, {}, request);
  };
  const JobTrace good = trace_of({job(0, 2, 10)});
  expect_usage_error([&] { compare({"fifo", "ffio"}, good); }, "did you mean fifo?");
  expect_usage_error([&] { compare({"fifo", "fifo"}, good); }, "name it once");
  expect_usage_error([&] { compare({}, good); }, "name one at least");
  ComparisonRequest request;
  request.policies = {"fifo"};
  request.clocks = {Megahertz(2000.0), Megahertz(1400.0)};
  expect_usage_error([&] { (void)compare_policies(small_setup(), truth, good, {}, request); },
                     "no job can run at 1400 MHz");
  // What a run throws on its thread arrives here.
  JobTrace large = trace_of({job(0, 8, 1)});
  large.jobs[0].line = 3;
  expect_input_error([&] { compare({"fifo", "srtf"}, large); }, 3, 1, "asks for 8 GPUs, the cluster has 4");
}

TEST(Comparison, CanBeStopped) {
  const GroundTruth truth = load_ground_truth("v100");
  TraceSynthesis request;
  const JobTrace trace = synthesize_job_trace(request);
  ComparisonRequest all;
  all.policies = {"joule-price", "fifo"};
  EXPECT_TRUE(compare_policies(SimulationSetup(), truth, trace, {}, all, [](double) { return false; }).empty());
  double last = -1.0;
  const auto runs = compare_policies(SimulationSetup(), truth, trace, {}, all, [&](double share) {
    EXPECT_GE(share, last);
    EXPECT_LE(share, 1.0);
    last = share;
    return true;
  });
  EXPECT_EQ(runs.size(), 2u);
  EXPECT_EQ(last, 1.0);
}

// Runs of (1000 J, 10 s), (2000 J, 6 s) and (4000 J, 4 s), in any order; another policy's do not count, and neither do
// those of 1500 J and 5000 J, which are slower than thriftier ones.
TEST(Comparison, JctAtEqualEnergyLiesOnTheLine) {
  const auto run = [](const char* policy, double energy, double jct) {
    ComparedRun one;
    one.policy = policy;
    one.result.energy_j = energy;
    one.result.avg_jct_s = jct;
    return one;
  };
  const std::vector<ComparedRun> runs = {run("a", 4000, 4), run("b", 1500, 1),  run("a", 1000, 10),
                                         run("a", 2000, 6), run("a", 1500, 12), run("a", 5000, 7)};
  EXPECT_DOUBLE_EQ(jct_at_energy(runs, "a", 1500).value(), 8.0);
  EXPECT_DOUBLE_EQ(jct_at_energy(runs, "a", 3500).value(), 4.5);
  EXPECT_DOUBLE_EQ(jct_at_energy(runs, "a", 1000).value(), 10.0);
  EXPECT_DOUBLE_EQ(jct_at_energy(runs, "a", 4000).value(), 4.0);
  EXPECT_DOUBLE_EQ(jct_at_energy(runs, "b", 1500).value(), 1.0);
  EXPECT_FALSE(jct_at_energy(runs, "a", 999).has_value());
  EXPECT_DOUBLE_EQ(jct_at_energy(runs, "a", 4500).value(), 4.0);  // with 500 J to spare
  EXPECT_DOUBLE_EQ(jct_at_energy(runs, "a", 9000).value(), 4.0);
  EXPECT_FALSE(jct_at_energy(runs, "b", 1499).has_value());
  EXPECT_FALSE(jct_at_energy(runs, "c", 1500).has_value());
}

}  // namespace
}  // namespace flyball
