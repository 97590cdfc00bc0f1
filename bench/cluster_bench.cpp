// The cluster simulator and its policies: a day of 1,901 jobs, 100,000 jobs on 10,000 GPUs, and one decision.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "cluster/job_model.h"
#include "cluster/simulator.h"
#include "profile/embedded_data.h"

namespace flyball {
namespace {

JobTrace day(int jobs, double hours) {
  TraceSynthesis request;
  request.jobs = jobs;
  request.span = Seconds(hours * 3600.0);
  return synthesize_job_trace(request);
}

SimulationSetup cluster_of(int nodes, int gpus_per_node, Knowledge knowledge) {
  SimulationSetup setup;
  setup.spec.nodes = nodes;
  setup.spec.gpus_per_node = gpus_per_node;
  setup.eta = 0.7;
  setup.knowledge = knowledge;
  return setup;
}

void run(benchmark::State& state, const std::string& policy, const SimulationSetup& setup, const JobTrace& trace) {
  const GroundTruth truth = load_ground_truth("v100");
  SimulationResult result;
  for (auto unused : state) {
    Simulation simulation(setup, truth, trace, policy);
    simulation.run();
    result = simulation.result();
  }
  state.SetLabel(policy);
  state.counters["jobs"] = static_cast<double>(result.jobs);
  state.counters["decisions"] = static_cast<double>(result.decisions);
  state.counters["avg_jct_s"] = result.avg_jct_s;
}

// 1,901 jobs in 24 h on 64 GPUs. Arguments: policy; 0: models are learned while jobs run, 1: known.
void a_day_of_jobs(benchmark::State& state) {
  const char* const names[] = {"fifo", "srtf", "joule-price", "powerflow"};
  run(state, names[state.range(0)], cluster_of(16, 4, state.range(1) == 0 ? Knowledge::kLearned : Knowledge::kProfiled),
      day(1901, 24.0));
}
BENCHMARK(a_day_of_jobs)
    ->Args({0, 0})
    ->Args({1, 0})
    ->Args({2, 0})
    ->Args({2, 1})
    ->Args({3, 0})
    ->Args({3, 1})
    ->Unit(benchmark::kMillisecond);

// The process's largest resident size since forget_peak_memory(), from Linux.
void forget_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }
double peak_memory_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0.0;
    if (word == "VmHWM:" && status >> kib) return kib / 1024.0;
  }
  return 0.0;
}

// 100,000 jobs in 8 h on 10,000 GPUs.
void a_hundred_thousand_jobs(benchmark::State& state) {
  forget_peak_memory();
  run(state, "joule-price", cluster_of(1250, 8, Knowledge::kLearned), day(100'000, 8.2));
  state.counters["peak_MiB"] = peak_memory_mib();
}
BENCHMARK(a_hundred_thousand_jobs)->Iterations(1)->Unit(benchmark::kSecond);

// So many jobs submitted at once to 64 GPUs. Arguments: policy, as they are listed; jobs.
void jobs_at_once(benchmark::State& state) {
  const std::string& name = policies().entries()[static_cast<std::size_t>(state.range(0))].name;
  JobTrace trace = day(static_cast<int>(state.range(1)), 24.0);
  for (TraceJob& job : trace.jobs) job.submit = Seconds(0.0);
  run(state, name, cluster_of(16, 4, Knowledge::kLearned), trace);
}
BENCHMARK(jobs_at_once)
    ->ArgsProduct({benchmark::CreateDenseRange(0, static_cast<int>(policies().entries().size()) - 1, 1),
                   {10'000, 100'000}})
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

// One decision of joule-price with 1,000 jobs: one has finished, another has come. Arguments: nodes of 8 GPUs (all jobs
// run on 125 and more); 1: the models of all networks have been fitted anew, too; 2: prices are found anew, without
// that.
void one_decision(benchmark::State& state) {
  const GroundTruth truth = load_ground_truth("v100");
  JobTrace trace{"bench", {}};
  for (int index = 0; index < 3000; ++index) {
    TraceJob job;
    job.submit = Seconds(index < 1000 ? 0.0 : 1000.0 + index);
    job.gpus = 1;
    job.duration = Seconds(20'000.0 + index);
    trace.jobs.push_back(job);
  }
  SimulationSetup setup = cluster_of(static_cast<int>(state.range(0)), 8, Knowledge::kProfiled);
  Simulation simulation(setup, truth, trace, "joule-price");
  simulation.run_until(Seconds(1500.0));
  const auto policy = make_policy("joule-price");
  ClusterState cluster = simulation.state();
  Decision decision;
  ClusterEvents events;
  policy->decide(cluster, events, decision);
  const std::vector<int> active = cluster.active;
  std::size_t next = 0;
  for (auto unused : state) {
    // The job leaves, and comes back at once.
    const int job = active[next++ % active.size()];
    ClusterJob& one = cluster.jobs[static_cast<std::size_t>(job)];
    events.clear();
    events.finished = {job};
    events.arrived = {job};
    events.budget = state.range(1) == 2;
    if (state.range(1) == 1) {
      events.kinds_changed.resize(cluster.kinds.size());
      std::iota(events.kinds_changed.begin(), events.kinds_changed.end(), 0);
    }
    one.phase = JobPhase::kWaiting;
    if (one.gpus > 0) std::erase(cluster.holding, job);
    one.gpus = 0;
    decision.clear();
    policy->decide(cluster, events, decision);
    for (const Assignment& given : decision.assignments) {
      ClusterJob& changed = cluster.jobs[static_cast<std::size_t>(given.job)];
      if ((changed.gpus > 0) != (given.gpus > 0)) {
        const auto place = std::lower_bound(cluster.holding.begin(), cluster.holding.end(), given.job);
        if (given.gpus > 0) {
          cluster.holding.insert(place, given.job);
        } else {
          cluster.holding.erase(place);
        }
      }
      changed.gpus = given.gpus;
      changed.speed = given.speed;
      changed.phase = given.gpus > 0 ? JobPhase::kRunning : JobPhase::kWaiting;
    }
  }
  state.counters["running"] = static_cast<double>(std::count_if(
      active.begin(), active.end(), [&](int job) { return cluster.jobs[static_cast<std::size_t>(job)].has_gpus(); }));
}
BENCHMARK(one_decision)
    ->Args({64, 0})
    ->Args({64, 2})
    ->Args({250, 0})
    ->Args({250, 1})
    ->Args({250, 2})
    ->Unit(benchmark::kMicrosecond);

void fit_one_network(benchmark::State& state) {
  const MeasurementSet measured = read_measurements("v100.csv", embedded_file("cluster/v100.csv"), Megahertz(1530.0));
  for (auto unused : state) {
    benchmark::DoNotOptimize(fit_job_model(measured.at("vgg16"), Megahertz(1020.0)));
  }
}
BENCHMARK(fit_one_network)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace flyball

BENCHMARK_MAIN();
