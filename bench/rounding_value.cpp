// What each search of the rounding brings (src/plan/clock_rounding.h): energy of Perseus' plans with one search left
// out, above that of the plans with all, in per cent of the iteration's energy (points), and the planning time.
//
//   build/bench/bench/rounding_value PROFILE.csv ...
//
// Each profile with 12, 24, 48 and 96 microbatches, 1F1B, unit time 1 ms, 75 W. "frontier": 101 times from T_min to T*,
// nothing asked for. "asked": T_min, all-maximum clocks, 1.05, 1.1 and 1.2 T_min, least total energy and nine tenths of
// the way to T*, all named to the planner. Processor time. Same plans on every machine.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <ctime>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "draw/text_table.h"
#include "pipeline/pipeline_spec.h"
#include "plan/perseus.h"
#include "plan/relaxation.h"
#include "profile/profile.h"

namespace {

using namespace flyball;

struct Variant {
  const char* name;
  Searches searches;
};

std::array<Variant, 7> variants() {
  std::array<Variant, 7> all{{{"all", {}},
                              {"without paths along stages", {}},
                              {"without carrying over", {}},
                              {"without filling", {}},
                              {"without random paths", {}},
                              {"without searching further", {}},
                              {"none: the slowest clocks that fit", {false, false, false, false, false}}}};
  all[1].searches.stage_paths = false;
  all[2].searches.carry = false;
  all[3].searches.fill = false;
  all[4].searches.random_paths = false;
  all[5].searches.further = false;
  return all;
}

struct Outcome {
  std::vector<double> frontier, asked;  // J, by workload and time
  double frontier_seconds = 0.0;
  double asked_seconds = 0.0;
};

// Energy of the plan to run by each of the times.
void plan_for(const PlanProblem& problem, const Searches& searches, const std::vector<Nanoseconds>& times,
              std::vector<double>& joules, double& seconds) {
  const std::clock_t begin = std::clock();
  const Frontier frontier = make_perseus(searches)->plan(problem, {}).frontier;
  seconds += static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  for (const Nanoseconds time : times) {
    const double net = frontier.points()[frontier.lookup(time)].net_joules;
    joules.push_back(net + (problem.total_blocking() * to_seconds(time)).value());
  }
}

void run_workload(const std::string& path, int microbatches, std::array<Outcome, 7>& outcomes) {
  PipelineSpec spec;
  spec.microbatches = microbatches;
  const ComputationDag dag = build_dag(spec, read_profile_file(path));
  PlanProblem problem = make_problem(dag, {kDefaultBlockingPower}, 1'000'000, CostModel::kHull);
  const BoundCurve bound = solve_relaxation(dag, problem.hulls(), [](const FrontierStretch&) { return true; }).bound;
  const Nanoseconds t_min = bound.t_min();
  const Nanoseconds range = bound.t_star() - t_min;
  const Nanoseconds all_maximum = emulate(dag, plan_durations(dag, max_clock_plan(problem))).makespan;
  std::vector<Nanoseconds> along;
  for (int k = 0; k <= 100; ++k) along.push_back(t_min + range * k / 100);
  const std::vector<Nanoseconds> asked{t_min,
                                       all_maximum,
                                       t_min * 21 / 20,
                                       t_min * 11 / 10,
                                       t_min * 6 / 5,
                                       bound.least_total(problem.total_blocking()),
                                       t_min + range * 9 / 10};
  const auto all = variants();
  for (std::size_t v = 0; v < all.size(); ++v) {
    problem.focus.clear();
    plan_for(problem, all[v].searches, along, outcomes[v].frontier, outcomes[v].frontier_seconds);
    problem.focus = asked;
    plan_for(problem, all[v].searches, asked, outcomes[v].asked, outcomes[v].asked_seconds);
  }
}

// Mean and worst, in points.
std::vector<std::string> above(const std::vector<double>& joules, const std::vector<double>& reference) {
  double sum = 0.0;
  double worst = 0.0;
  for (std::size_t k = 0; k < joules.size(); ++k) {
    const double points = 100.0 * (joules[k] / reference[k] - 1.0);
    sum += points;
    worst = std::max(worst, points);
  }
  return {fmt::format("{:.4f}", sum / static_cast<double>(joules.size())), fmt::format("{:.3f}", worst)};
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> paths(argv + 1, argv + argc);
  if (paths.empty()) throw UsageError("name the profiles (rounding_value PROFILE.csv ...)");
  std::array<Outcome, 7> outcomes;
  for (const std::string& path : paths) {
    for (const int microbatches : {12, 24, 48, 96}) run_workload(path, microbatches, outcomes);
  }
  TextTable table({"<searches", "frontier: mean", "worst", "time (s)", "asked: mean", "worst", "time (s)"});
  const auto all = variants();
  for (std::size_t v = 0; v < all.size(); ++v) {
    std::vector<std::string> row{all[v].name};
    const Outcome& outcome = outcomes[v];
    for (std::string& cell : above(outcome.frontier, outcomes[0].frontier)) row.push_back(std::move(cell));
    row.push_back(fmt::format("{:.2f}", outcome.frontier_seconds));
    for (std::string& cell : above(outcome.asked, outcomes[0].asked)) row.push_back(std::move(cell));
    row.push_back(fmt::format("{:.2f}", outcome.asked_seconds));
    table.add_row(std::move(row));
  }
  fmt::print("points of energy above the plans with all searches, {} profiles\n{}", paths.size(), table.str());
  return 0;
} catch (const std::exception& error) {
  std::cerr << "rounding_value: " << error.what() << '\n';
  return 1;
}
