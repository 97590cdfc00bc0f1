#include "cluster/simulator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cluster/small_cluster.h"
#include "support/expect_error.h"

namespace flyball {
namespace {

// Every policy of the build keeps the rules of the simulator.
class EveryPolicy : public ::testing::TestWithParam<std::string> {};

JobTrace drawn_trace(std::uint64_t seed, int jobs = 120) {
  TraceSynthesis request;
  request.jobs = jobs;
  request.span = Seconds(3.0 * 3600.0);
  request.seed = seed;
  return synthesize_job_trace(request);
}

SimulationSetup drawn_setup(std::uint64_t seed) {
  SimulationSetup setup;
  setup.spec.nodes = 4;
  setup.spec.gpus_per_node = 4;
  setup.eta = 0.8;
  setup.seed = seed;
  return setup;
}

// Jobs A, B and C on four GPUs:
//   A comes at 0 s, asks for 4 GPUs and takes 10 s there; B at 1 s, 1 GPU, 5 s; C at 2 s, 2 GPUs, 4 s.
const std::vector<TraceJob> kThreeJobs = {job(0, 4, 10), job(1, 1, 5), job(2, 2, 4)};

// FIFO: A 0-10; then B 10-15 and C 10-14 side by side. JCT 10, 14 and 12 s.
// Energy: A 4 * 200 W * 10 s = 8000 J, B 1000 J, C 1600 J; idle the GPU beside B for 5 s: 50 J. C's node is off from 14
// s.
TEST(Simulation, FifoOnThreeJobs) {
  const GroundTruth truth = linear_truth();
  Simulation simulation(small_setup(), truth, trace_of(kThreeJobs), "fifo");
  EXPECT_TRUE(simulation.run());
  simulation.check();
  EXPECT_NEAR(jct(simulation, 0), 10.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 1), 14.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 2), 12.0, 1e-9);
  const SimulationResult result = simulation.result();
  EXPECT_EQ(result.jobs, 3u);
  EXPECT_NEAR(result.avg_jct_s, 12.0, 1e-9);
  EXPECT_NEAR(result.p50_jct_s, 12.0, 1e-9);
  EXPECT_NEAR(result.p99_jct_s, 14.0, 1e-9);
  EXPECT_NEAR(result.makespan_s, 15.0, 1e-9);
  EXPECT_NEAR(result.energy_j, 10'650.0, 1e-3);
  EXPECT_NEAR(result.avg_power_w, 10'650.0 / 15.0, 1e-3);
  EXPECT_NEAR(result.peak_power_w, 800.0, 1e-3);
  // 40 + 5 + 8 GPU-seconds of 60.
  EXPECT_NEAR(result.gpu_utilisation, 53.0 / 60.0, 1e-9);
  EXPECT_EQ(result.migrations, 0);
}

// On four GPUs: A comes at 0 s, 2 GPUs for 10 s. B at 1 s, 4 GPUs for 3 s, can start at 10 s. C at 2 s, 2 GPUs for 9 s,
// would end at 11 s on GPUs that B needs. D at 3 s, 2 GPUs for 6 s, overtakes both and ends at 9 s. E at 4 s, 1 GPU for
// 2 s, finds no GPU, and at 9 s none that it could leave before 10 s. B runs from 10 to 13 s, then C and E.
TEST(Simulation, BackfillingMakesTheFirstThatWaitsWaitNoLonger) {
  const GroundTruth truth = linear_truth();
  const std::vector<TraceJob> jobs = {job(0, 2, 10), job(1, 4, 3), job(2, 2, 9), job(3, 2, 6), job(4, 1, 2)};
  Simulation simulation(small_setup(), truth, trace_of(jobs), "backfill");
  EXPECT_TRUE(simulation.run());
  simulation.check();
  EXPECT_NEAR(jct(simulation, 0), 10.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 1), 12.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 2), 20.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 3), 6.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 4), 11.0, 1e-9);
}

// A comes at 0 s, 2 GPUs for 5 s; B at 1 s, 1 GPU for 20 s; C at 2 s, 2 GPUs for 3 s, can start at 5 s, when one GPU
// more is free than it needs. D at 3 s, 1 GPU for 20 s, takes that one at once.
TEST(Simulation, BackfillingTakesWhatTheFirstThatWaitsWillNotNeed) {
  const GroundTruth truth = linear_truth();
  const std::vector<TraceJob> jobs = {job(0, 2, 5), job(1, 1, 20), job(2, 2, 3), job(3, 1, 20)};
  Simulation simulation(small_setup(), truth, trace_of(jobs), "backfill");
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 2), 6.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 3), 20.0, 1e-9);
}

// SRTF: at 1 s B (5 s left) comes before A (9 s), which needs all GPUs and stops; at 2 s C (4 s left) joins B. Both end
// at 6 s; A resumes and ends at 15 s. Idle: the GPU beside B from 1 to 6 s, 50 J; the other node is off from 1 to 2 s.
TEST(Simulation, SrtfOnThreeJobs) {
  const GroundTruth truth = linear_truth();
  Simulation simulation(small_setup(), truth, trace_of(kThreeJobs), "srtf");
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 0), 15.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 1), 5.0, 1e-9);
  EXPECT_NEAR(jct(simulation, 2), 4.0, 1e-9);
  EXPECT_NEAR(simulation.result().energy_j, 10'650.0, 1e-3);
  EXPECT_EQ(simulation.result().migrations, 1);
}

// As above with 3 s for a restart: A holds its GPUs idle from 6 to 9 s (4 * 10 W * 3 s more) and ends at 18 s.
TEST(Simulation, RestartsCostTimeAndIdlePower) {
  const GroundTruth truth = linear_truth();
  SimulationSetup setup = small_setup();
  setup.spec.restart = Seconds(3.0);
  Simulation simulation(setup, truth, trace_of(kThreeJobs), "srtf");
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 0), 18.0, 1e-9);
  EXPECT_NEAR(simulation.result().energy_j, 10'770.0, 1e-3);
}

// Four GPUs of 200 W for 10 s, before that 2 s at 10 W each.
TEST(Simulation, AFirstStartTakesTimeAtIdlePower) {
  const GroundTruth truth = linear_truth();
  SimulationSetup setup = small_setup();
  setup.spec.start = Seconds(2.0);
  Simulation simulation(setup, truth, trace_of({job(0, 4, 10)}), "fifo");
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 0), 12.0, 1e-9);
  EXPECT_NEAR(simulation.result().energy_j, 8'080.0, 1e-3);
}

// At 1000 MHz everything takes twice as long at a quarter of the power: A 0-20, B 20-30, C 20-28.
TEST(Simulation, APolicyWithoutClocksRunsAtTheOneGiven) {
  const GroundTruth truth = linear_truth();
  PolicyOptions options;
  options.clock = Megahertz(1000.0);
  Simulation simulation(small_setup(), truth, trace_of(kThreeJobs), "fifo", options);
  EXPECT_TRUE(simulation.run());
  EXPECT_NEAR(jct(simulation, 1), 29.0, 1e-9);
  // 4 * 50 * 20 + 50 * 10 + 100 * 8, idle the GPU beside B for 10 s.
  EXPECT_NEAR(simulation.result().energy_j, 4000.0 + 500.0 + 800.0 + 100.0, 1e-3);
}

// One job of 2 GPUs on a cluster of 2 nodes that are off: 4 s to wake one (2 * 10 W), then 10 s; the other stays off.
TEST(Simulation, NodesAreWokenAndTheOthersStayOff) {
  const GroundTruth truth = linear_truth();
  SimulationSetup setup = small_setup();
  setup.spec.wake = Seconds(4.0);
  setup.eta = 0.5;  // 400 W: two GPUs at 2000 MHz, or all four at 1000 MHz, which is as fast and thriftier
  Simulation simulation(setup, truth, trace_of({job(0, 2, 10)}), "joule-price");
  EXPECT_TRUE(simulation.run());
  // Linear scaling costs no energy, so the job gets all four GPUs and both nodes: 20 iterations of 0.5 s.
  EXPECT_NEAR(jct(simulation, 0), 14.0, 1e-9);
  EXPECT_NEAR(simulation.result().energy_j, 4 * 10.0 * 4.0 + 4 * 50.0 * 10.0, 1e-3);
}

// One GPU on one node, jobs of 10 s (200 W) at 0 s and at 1000 s; waking takes 4 s, idle is 10 W.
//   Shut down after 60 s: off at first; wake 4 s, 10 s, 60 s idle, off; the same again: 2 (40 + 2000) + 600 J, 14 s
//   each. After 2000 s: wake 4 s, 10 s, 986 s idle, 10 s: 40 + 2000 + 9860 + 2000 J, 14 and 10 s.
//   Never: 10 s, 990 s idle, 10 s: 4000 + 9900 J, 10 s each.
TEST_P(EveryPolicy, HasItsEmptyNodesShutDown) {
  const GroundTruth truth = linear_truth();
  const auto run = [&](bool shutdown, double off_after) {
    SimulationSetup setup = small_setup(1, 1);
    setup.spec.node_shutdown = shutdown;
    setup.spec.wake = Seconds(4.0);
    setup.spec.off_after = Seconds(off_after);
    PolicyOptions options;
    options.zeus_eta = 0.0;  // only time counts
    const SimulationResult result =
        simulate(setup, truth, trace_of({job(0, 1, 10), job(1000, 1, 10)}), GetParam(), options);
    return std::pair(result.avg_jct_s, result.energy_j);
  };
  const auto [early_s, early_j] = run(true, 60.0);
  EXPECT_NEAR(early_s, 14.0, 1e-9);
  EXPECT_NEAR(early_j, 4'680.0, 1e-3);
  const auto [late_s, late_j] = run(true, 2000.0);
  EXPECT_NEAR(late_s, 12.0, 1e-9);
  EXPECT_NEAR(late_j, 13'900.0, 1e-3);
  const auto [never_s, never_j] = run(false, 60.0);
  EXPECT_NEAR(never_s, 10.0, 1e-9);
  EXPECT_NEAR(never_j, 13'900.0, 1e-3);
}

TEST_P(EveryPolicy, KeepsTheRules) {
  const GroundTruth truth = load_ground_truth("v100");
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    Simulation simulation(drawn_setup(seed), truth, drawn_trace(seed), GetParam());
    for (double until = 0.0; !simulation.run_until(Seconds(until)); until += 97.0) {
      ASSERT_LT(until, 1e6) << "it never ends";
      ASSERT_NO_THROW(simulation.check());
    }
    ASSERT_NO_THROW(simulation.check());
    // All work is done, and every GPU is given back.
    double gpu_seconds = 0.0;
    for (const ClusterJob& one : simulation.state().jobs) {
      EXPECT_EQ(one.phase, JobPhase::kDone);
      EXPECT_GE(one.finish, one.submit);
      gpu_seconds += one.gpu_time.value();
    }
    EXPECT_EQ(simulation.state().free_gpus, 16);
    EXPECT_NEAR(gpu_seconds, simulation.result().gpu_seconds, 1e-6 * gpu_seconds);
  }
}

// A pipeline has its four GPUs or none; a job that asked for three may have to be given a power of two.
TEST_P(EveryPolicy, EndsPipelinesAndOddSizes) {
  const GroundTruth truth = linear_truth();
  SimulationSetup setup = small_setup(2, 4);
  setup.spec.restart = Seconds(2.0);
  PipelineJob pipeline;
  pipeline.submit = Seconds(5.0);
  pipeline.gpus = 4;
  pipeline.iterations = 50.0;
  pipeline.frontier = {{Seconds(2.0), Joules(800.0)}, {Seconds(1.0), Joules(700.0)}};
  setup.pipelines = {pipeline};
  const JobTrace trace = trace_of({job(0, 3, 40), job(1, 8, 30), job(2, 1, 100), job(6, 3, 10), job(7, 5, 20)});
  Simulation simulation(setup, truth, trace, GetParam());
  for (double until = 0.0; !simulation.run_until(Seconds(until)); until += 1.0) {
    ASSERT_LT(until, 1e4) << "it never ends";
    ASSERT_NO_THROW(simulation.check());
    for (const ClusterJob& one : simulation.state().jobs) {
      if (!simulation.state().kinds[static_cast<std::size_t>(one.kind)].elastic) {
        EXPECT_TRUE(one.gpus == 0 || one.gpus == 4) << one.gpus;
      }
    }
  }
  EXPECT_EQ(simulation.state().free_gpus, 8);
}

// At 3e8 s doubles are 60 ns apart, some 1e-7 of these jobs; the simulator takes 1e-9 of a job for nothing.
TEST_P(EveryPolicy, EndsShortJobsLateInTime) {
  const double late = 3e8;
  std::vector<TraceJob> jobs;
  for (int i = 0; i < 60; ++i) jobs.push_back(job(late + 0.7 * i, 1 + i % 3 / 2, 0.3 + 0.0371 * i));
  const SimulationResult result = simulate(small_setup(), linear_truth(), trace_of(jobs), GetParam());
  EXPECT_EQ(result.jobs, jobs.size());
  EXPECT_LT(result.makespan_s, 600.0);
}

// All that is told of a simulation: its figures, its jobs with where they lie, its history; doubles with all digits.
std::string all_of(const Simulation& simulation) {
  const SimulationResult result = simulation.result();
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}\n", result.policy, result.jobs, result.avg_jct_s,
                  result.p50_jct_s, result.p99_jct_s, result.makespan_s, result.energy_j, result.avg_power_w,
                  result.peak_power_w, result.gpu_utilisation, result.migrations, result.decisions,
                  result.peak_job_power_w, result.busy_energy_j, result.gpu_seconds, result.profiling_energy_j);
  const ClusterState& state = simulation.state();
  for (std::size_t i = 0; i < state.jobs.size(); ++i) {
    const ClusterJob& one = state.jobs[i];
    text += fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}", static_cast<int>(one.phase), one.gpus, one.speed,
                        one.partner, one.done, one.since.value(), one.first_start.value(), one.finish.value(),
                        one.gpu_time.value(), one.energy.value(), one.restarts, one.profiled);
    for (const GpuBlock& block : simulation.placement().blocks(static_cast<int>(i))) {
      text += fmt::format(" {}/{}+{}", block.node, block.first, block.count);
    }
    text += '\n';
  }
  for (const ClusterPower& power : simulation.history().power) {
    text += fmt::format("{} {} {} {} {}\n", power.at.value(), power.gpus, power.waiting, power.nodes_on,
                        power.power.value());
  }
  for (const JobSpan& span : simulation.history().spans) {
    text += fmt::format("{} {} {} {} {} {}\n", span.job, span.begin.value(), span.end.value(), span.gpus, span.speed,
                        static_cast<int>(span.phase));
  }
  return text;
}

// Not a byte may differ, neither in the middle nor at the end.
TEST_P(EveryPolicy, SameSeedSameBytes) {
  const GroundTruth truth = load_ground_truth("v100");
  SimulationSetup setup = drawn_setup(5);
  setup.record = true;
  std::vector<std::string> first;
  for (int run = 0; run < 2; ++run) {
    Simulation simulation(setup, truth, drawn_trace(5), GetParam());
    std::vector<std::string> texts;
    for (const double when : {0.0, 1800.0, 5000.0}) {
      EXPECT_FALSE(simulation.run_until(Seconds(when)));
      texts.push_back(all_of(simulation));
    }
    EXPECT_TRUE(simulation.run());
    texts.push_back(all_of(simulation));
    if (run == 0) first = texts;
    EXPECT_EQ(texts, first);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicy, ::testing::ValuesIn(policy_names()), [](const auto& test) {
  std::string name = test.param;
  std::erase_if(name, [](char c) { return c == '-' || c == '+'; });
  return name;
});

TEST(Simulation, RefusesWhatCannotRun) {
  const GroundTruth truth = linear_truth();
  const auto with = [&](const SimulationSetup& setup, const JobTrace& trace, const std::string& policy) {
    Simulation simulation(setup, truth, trace, policy);
  };
  JobTrace large = trace_of({job(0, 8, 1)});
  large.jobs[0].line = 3;
  expect_input_error([&] { with(small_setup(), large, "fifo"); }, 3, 1, "asks for 8 GPUs, the cluster has 4");
  JobTrace unknown = trace_of({job(0, 1, 1)});
  unknown.jobs[0].model = "unti";
  unknown.jobs[0].line = 2;
  expect_input_error([&] { with(small_setup(), unknown, "fifo"); }, 2, 1, "did you mean unit?");
  expect_usage_error([&] { with(small_setup(), trace_of(kThreeJobs), "ffio"); }, "did you mean fifo?");
  expect_usage_error([&] { with(small_setup(2, 3), trace_of(kThreeJobs), "fifo"); }, "power of two");
  expect_usage_error([&] { with(small_setup(0), trace_of(kThreeJobs), "fifo"); }, "nodes");
  PolicyOptions options;
  options.clock = Megahertz(1600.0);
  expect_usage_error(
      [&] { Simulation(small_setup(), truth, trace_of(kThreeJobs), "fifo", options); },
      "no job can run at 1600 MHz; the clocks of a v100 here are 1000, 2000 MHz, and the nearest is 2000");
}

// Four GPUs, a limit of 32 or 40 W, and jobs that draw 50 W on one GPU at 1000 MHz: 50 / 800 is 0.0625, and 0.063 is
// enough. Their costs are known: there is no reserve that 40 W could do without.
TEST(Simulation, SaysWhichBudgetWouldDo) {
  const GroundTruth truth = linear_truth();
  SimulationSetup setup = small_setup();
  for (const char* policy : {"joule-price", "powerflow"}) {
    for (const char* limit : {"32", "40"}) {
      setup.eta = std::stod(limit) / 800.0;
      expect_usage_error(
          [&] {
            (void)simulate(setup, truth, trace_of({job(0, 1, 10), job(0, 2, 10)}), policy);
          },
          std::string("leaves 2 jobs waiting for ever: job 0 (unit) needs 50 W of the budget at least, and the limit "
                      "is ") +
              limit + " W; give --eta 0.063 or more");
    }
    setup.eta = 0.063;
    EXPECT_EQ(simulate(setup, truth, trace_of({job(0, 1, 10), job(0, 2, 10)}), policy).jobs, 2u) << policy;
  }
}

// Stops when it is told to.
TEST(Simulation, CanBeStopped) {
  const GroundTruth truth = load_ground_truth("v100");
  Simulation simulation(drawn_setup(1), truth, drawn_trace(1, 2000), "fifo");
  EXPECT_FALSE(simulation.run([](double) { return false; }));
}

TEST(Simulation, RecordsWhatItDid) {
  const GroundTruth truth = linear_truth();
  SimulationSetup setup = small_setup();
  setup.record = true;
  Simulation simulation(setup, truth, trace_of(kThreeJobs), "fifo");
  EXPECT_TRUE(simulation.run());
  // The samples integrate to the energy.
  const auto& samples = simulation.history().power;
  double joules = 0.0;
  for (std::size_t i = 1; i < samples.size(); ++i) {
    joules += (samples[i - 1].power * (samples[i].at - samples[i - 1].at)).value();
  }
  EXPECT_NEAR(joules, simulation.result().energy_j, 1e-3);
  // B waits from 1 to 10 s, then runs on one GPU until 15 s.
  std::vector<JobSpan> spans;
  for (const JobSpan& span : simulation.history().spans) {
    if (span.job == 1 && span.begin != span.end) spans.push_back(span);
  }
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].gpus, 0);
  EXPECT_NEAR(spans[1].begin.value(), 10.0, 1e-9);
  EXPECT_NEAR(spans[1].end.value(), 15.0, 1e-9);
  EXPECT_EQ(spans[1].gpus, 1);
}

}  // namespace
}  // namespace flyball
