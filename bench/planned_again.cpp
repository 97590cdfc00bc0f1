// Planning from the plan before (src/plan/replan.h) against planning from new, in processor time of one thread each:
// 27 shipped profiles with the microbatches of their published runs, after the second stage's forward takes 3 % more
// time and energy, and after the third's takes 2 % less.
//
//   build/bench/bench/planned_again examples/profiles/*.csv
//
// "worst" and "mean": what the plans that are looked up take more than those from new, over 1,000 times from T_min to
// T*, in per cent of the iteration's energy; "asked": the same at the time of maximum clocks. "above the bound": of the
// plan that was asked for. Times are of one run each.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <exception>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "draw/text_table.h"
#include "pipeline/pipeline_spec.h"
#include "plan/planner.h"
#include "plan/replan.h"
#include "plan/summary.h"
#include "profile/profile.h"

namespace {

using namespace flyball;

constexpr int kLookups = 1000;
constexpr int kRepeats = 3;  // of planning from the plan before, which takes too little to be measured once

// Holds a DAG and the problem that refers to it.
struct Workload {
  Workload(const Profile& profile, int microbatches) : dag(build_dag(spec(microbatches), profile)) {
    problem = make_problem(dag, {kDefaultBlockingPower}, std::nullopt, CostModel::kHull);
    problem.threads = 1;
    problem.focus = {to_nanoseconds(allowed_time(problem, {}))};
  }
  static PipelineSpec spec(int microbatches) {
    PipelineSpec spec;
    spec.microbatches = microbatches;
    return spec;
  }

  ComputationDag dag;
  PlanProblem problem;
};

// The comment of each shipped profile names them.
int published_microbatches(const std::string& path) {
  std::ifstream file(path);
  const std::string key = "# Published run: ";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return std::stoi(line.substr(key.size()));
  }
  throw InputError({path}, "has no line \"# Published run: M microbatches\"", "name shipped profiles");
}

template <class Work>
double processor_ms(const Work& work) {
  const std::clock_t begin = std::clock();
  work();
  return 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

class Table {
 public:
  // Plans after the forward of `stage` takes `factor` times as long, and as much energy.
  void add(const std::string& path, int stage, double factor) {
    const int microbatches = published_microbatches(path);
    Profile profile = read_profile_file(path);
    Workload before(profile, microbatches);
    for (OperationProfile& operation : profile.operations) {
      if (operation.stage != stage || operation.instruction != "forward") continue;
      for (ClockOption& option : operation.options) {
        option.time = option.time * factor;
        option.energy = option.energy * factor;
      }
    }
    const Workload now(profile, microbatches);
    before.problem.keep_flows = true;
    const auto planner = make_planner("perseus");
    const PlannerResult planned = planner->plan(before.problem, {});
    PlannerResult from_new;
    std::optional<PlannerResult> again;
    const double new_ms = processor_ms([&] { from_new = planner->plan(now.problem, {}); });
    const double again_ms = processor_ms([&] {
                              for (int r = 0; r < kRepeats; ++r) again = replan(before.problem, planned, now.problem);
                            }) /
                            kRepeats;
    std::vector<std::string> row{path.substr(path.rfind('/') + 1), fmt::format("{}", now.dag.size()),
                                 fmt::format("{} x {:.2f}", stage, factor), fmt::format("{:.1f}", new_ms)};
    if (again) {
      ratios_.push_back(new_ms / again_ms);
      row.push_back(fmt::format("{:.1f}", again_ms));
      row.push_back(fmt::format("{:.1f}", ratios_.back()));
      for (std::string& cell : energies(again->frontier, from_new.frontier, now.problem.focus.front())) {
        row.push_back(std::move(cell));
      }
    } else {
      row.resize(10, "refused");
    }
    table_.add_row(std::move(row));
  }

  [[nodiscard]] std::string str() {
    std::ranges::sort(ratios_);
    if (ratios_.empty()) return table_.str();
    return table_.str() +
           fmt::format("{} changes planned from the plan before; ratio {:.1f} in the middle, {:.1f} at least\n",
                       ratios_.size(), ratios_[ratios_.size() / 2], ratios_.front());
  }

 private:
  static std::vector<std::string> energies(const Frontier& again, const Frontier& from_new, Nanoseconds max_clocks) {
    const auto more_pct = [&](Nanoseconds time) {
      const std::size_t theirs = from_new.lookup(time);
      const double joules = again.points()[again.lookup(time)].net_joules - from_new.points()[theirs].net_joules;
      return 100.0 * joules / from_new.energy(theirs).value();
    };
    const Nanoseconds t_min = from_new.points().front().time;
    const Nanoseconds range = from_new.points().back().time - t_min;
    double mean = 0.0;
    double worst = 0.0;
    for (int k = 0; k < kLookups; ++k) {
      const double more = more_pct(t_min + range / kLookups * k);
      mean += more / kLookups;
      worst = std::max(worst, more);
    }
    const Nanoseconds asked = std::max(t_min, max_clocks);
    const std::size_t point = again.lookup(asked);
    return {fmt::format("{:.3f}", mean), fmt::format("{:.3f}", worst), fmt::format("{:.3f}", more_pct(asked)),
            fmt::format("{:.3f}", 100.0 * (again.energy(point) / again.lower_bound(point) - 1.0))};
  }

  TextTable table_{{"<profile", "operations", "<change", "from new (ms)", "again (ms)", "ratio", "mean (%)",
                    "worst (%)", "asked (%)", "above the bound (%)"}};
  std::vector<double> ratios_;
};

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> paths(argv + 1, argv + argc);
  if (paths.empty()) throw UsageError("name the profiles (planned_again examples/profiles/*.csv)");
  Table table;
  for (const std::string& path : paths) {
    table.add(path, 1, 1.03);
    table.add(path, 2, 0.98);
  }
  fmt::print("{}", table.str());
  return 0;
} catch (const std::exception& error) {
  std::cerr << "planned_again: " << error.what() << '\n';
  return 1;
}
