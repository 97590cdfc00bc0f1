// Speed of the frontier planner and of what it is made of. Run with `make bench`; docs/performance.md holds the
// figures.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/partition.h"
#include "pipeline/pipeline_spec.h"
#include "plan/clock_rounding.h"
#include "plan/planner.h"
#include "plan/relaxation.h"
#include "plan/replan.h"
#include "plan/straggler.h"
#include "plan/summary.h"
#include "profile/profile.h"
#include "profile/synth.h"

namespace flyball {
namespace {

struct Case {
  const char* profile;  // under examples/profiles
  int microbatches;
};

constexpr Case kCases[] = {
    {"bert-1.3b-a100-4stage", 32},
    {"gpt3-1.3b-a100-4stage", 128},
    {"gpt3-175b-a100-sxm-8stage", 96},
};

// Holds a DAG and the problem that refers to it.
struct Workload {
  Workload(const Profile& profile, int microbatches, std::optional<Nanoseconds> unit_time = kUsualUnitTime)
      : dag(build_dag(spec(microbatches), profile)) {
    problem = make_problem(dag, {kDefaultBlockingPower}, unit_time, CostModel::kHull);
  }
  explicit Workload(const Case& c)
      : Workload(read_profile_file(std::string(FLYBALL_SOURCE_DIR) + "/examples/profiles/" + c.profile + ".csv"),
                 c.microbatches) {}

  static PipelineSpec spec(int microbatches) {
    PipelineSpec spec;
    spec.microbatches = microbatches;
    return spec;
  }

  ComputationDag dag;
  PlanProblem problem;
};

Workload large_workload() {
  return Workload(synthesize_profile({"a100-sxm", "gpt3-175b", 16, SynthRequest{}.noise_relative, 1}).profile, 512);
}

void run_planner(benchmark::State& state, const Workload& workload, const char* name) {
  const auto planner = make_planner(name);
  PlannerResult result;
  for (auto unused : state) result = planner->plan(workload.problem, {});
  const Frontier& frontier = result.frontier;
  state.counters["operations"] = workload.dag.size();
  state.counters["points"] = static_cast<double>(frontier.size());
  state.counters["rounds"] = static_cast<double>(result.stats.steps);
  state.counters["gap_at_t_min_pct"] = 100.0 * (frontier.energy(0) / frontier.lower_bound(0) - 1.0);
}

void whole_frontier(benchmark::State& state) {
  const Case& c = kCases[state.range(0)];
  state.SetLabel(c.profile);
  run_planner(state, Workload(c), "perseus");
}
BENCHMARK(whole_frontier)->DenseRange(0, 2)->Unit(benchmark::kMillisecond)->MinTime(2.0);

void whole_frontier_16_stages_512_microbatches(benchmark::State& state) {
  run_planner(state, large_workload(), "perseus");
}
BENCHMARK(whole_frontier_16_stages_512_microbatches)->Unit(benchmark::kSecond)->Iterations(1);

// After the second stage's forward was measured again and takes 3 % more: from new (0) and from the plan before (1),
// in one thread each. `mean_pct` and `asked_pct` are what the plans that are looked up take more than those from new,
// in the mean over the frontier and at the time of maximum clocks.
void planned_again(benchmark::State& state) {
  const Case& c = kCases[state.range(0)];
  const bool from_before = state.range(1) != 0;
  state.SetLabel(std::string(c.profile) + (from_before ? ", from the plan before" : ", from new"));
  Profile profile = read_profile_file(std::string(FLYBALL_SOURCE_DIR) + "/examples/profiles/" + c.profile + ".csv");
  Workload before(profile, c.microbatches, std::nullopt);
  for (OperationProfile& operation : profile.operations) {
    if (operation.stage != 1 || operation.instruction != "forward") continue;
    for (ClockOption& option : operation.options) {
      option.time = option.time * 1.03;
      option.energy = option.energy * 1.03;
    }
  }
  Workload now(profile, c.microbatches, std::nullopt);
  for (Workload* workload : {&before, &now}) {
    workload->problem.threads = 1;
    workload->problem.focus = {to_nanoseconds(allowed_time(workload->problem, {}))};
  }
  before.problem.keep_flows = true;
  const auto planner = make_planner("perseus");
  const PlannerResult planned = planner->plan(before.problem, {});
  const Frontier from_new = planner->plan(now.problem, {}).frontier;
  std::optional<PlannerResult> again;
  for (auto unused : state) {
    again = from_before ? replan(before.problem, planned, now.problem) : planner->plan(now.problem, {});
    if (!again) return state.SkipWithError("worse than is allowed");
  }
  const Frontier& frontier = again->frontier;
  const auto more_pct = [&](Nanoseconds time) {
    const std::size_t theirs = from_new.lookup(time);
    const double joules = frontier.points()[frontier.lookup(time)].net_joules - from_new.points()[theirs].net_joules;
    return 100.0 * joules / from_new.energy(theirs).value();
  };
  const Nanoseconds t_min = from_new.points().front().time;
  constexpr int kLookups = 1000;
  double mean = 0.0;
  for (int k = 0; k < kLookups; ++k) {
    mean += more_pct(t_min + (from_new.points().back().time - t_min) / kLookups * k) / kLookups;
  }
  state.counters["points"] = static_cast<double>(frontier.size());
  state.counters["mean_pct"] = mean;
  state.counters["asked_pct"] = more_pct(std::max(t_min, now.problem.focus.front()));
}
BENCHMARK(planned_again)->ArgsProduct({{0, 1, 2}, {0, 1}})->Unit(benchmark::kMillisecond);

// The relaxation alone: every price of the frontier, no rounding.
void relaxation(benchmark::State& state) {
  const Case& c = kCases[state.range(0)];
  state.SetLabel(c.profile);
  const Workload workload(c);
  const std::vector<CostCurve> curves = workload.problem.hulls();
  std::int64_t rounds = 0;
  for (auto unused : state) {
    rounds = solve_relaxation(workload.dag, curves, [](const FrontierStretch&) { return true; }).rounds;
  }
  state.counters["rounds"] = static_cast<double>(rounds);
  state.counters["per_round"] = benchmark::Counter(
      static_cast<double>(rounds), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(relaxation)->DenseRange(0, 2)->Unit(benchmark::kMillisecond);

// One point: event times to clocks.
void round_one_point(benchmark::State& state) {
  const Case& c = kCases[state.range(0)];
  state.SetLabel(c.profile);
  const Workload workload(c);
  const RoundingTables tables(workload.problem);
  ClockRounder rounder(workload.problem);
  bool measured = false;
  const auto status = solve_relaxation(workload.dag, workload.problem.hulls(), [&](const FrontierStretch& stretch) {
                        const GateTimes relaxed = relaxed_times(tables, stretch, stretch.t_high);
                        for (auto unused : state) rounder.round(relaxed, stretch.t_high);
                        measured = true;
                        return false;
                      }).status;
  if (!measured || status != RelaxationStatus::kCancelled) state.SkipWithError("no stretch to round");
}
BENCHMARK(round_one_point)->DenseRange(0, 2)->Unit(benchmark::kMicrosecond);

// A straggler appears: which plan now?
void straggler_lookup(benchmark::State& state) {
  const Workload workload(kCases[1]);
  const Frontier frontier = make_planner("perseus")->plan(workload.problem, {}).frontier;
  const Nanoseconds first = frontier.points().front().time;
  Nanoseconds deadline = first;
  for (auto unused : state) {
    deadline = first + (deadline * 7919) % (first / 4);
    benchmark::DoNotOptimize(frontier.lookup(deadline));
  }
}
BENCHMARK(straggler_lookup);

void rebuild_plan(benchmark::State& state) {
  const Workload workload(kCases[1]);
  const Frontier frontier = make_planner("perseus")->plan(workload.problem, {}).frontier;
  std::size_t index = 0;
  for (auto unused : state) {
    index = (index + 7919) % frontier.size();
    benchmark::DoNotOptimize(frontier.plan(index));
  }
}
BENCHMARK(rebuild_plan)->Unit(benchmark::kMicrosecond);

void other_planners(benchmark::State& state) {
  const char* const names[] = {"envpipe", "envpipe-greedy", "zeus-global", "zeus-per-stage"};
  const char* name = names[state.range(0)];
  state.SetLabel(name);
  const Workload workload(kCases[1]);
  const auto planner = make_planner(name);
  for (auto unused : state) benchmark::DoNotOptimize(planner->plan(workload.problem, {}));
}
BENCHMARK(other_planners)->DenseRange(0, 3)->Unit(benchmark::kMillisecond);

void partition_200_layers(benchmark::State& state) {
  std::vector<Seconds> layers;
  for (int i = 0; i < 200; ++i) layers.push_back(Seconds(0.010 + 0.001 * ((i * 37) % 11)));
  for (auto unused : state) benchmark::DoNotOptimize(partition_layers(layers, 16));
}
BENCHMARK(partition_200_layers)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace flyball

BENCHMARK_MAIN();
