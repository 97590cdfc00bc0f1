// The runs are independent simulations. Threads take them one after the other from a list.
#include "cluster/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <limits>
#include <numeric>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/processors.h"

namespace flyball {
namespace {

constexpr std::chrono::milliseconds kBetweenReports(20);

std::vector<double> settings_of(PolicySetting setting, const SimulationSetup& setup, const PolicyOptions& options,
                                const ComparisonRequest& request) {
  switch (setting) {
    case PolicySetting::kClock: {
      std::vector<double> clocks;
      for (const Megahertz clock : request.clocks) clocks.push_back(clock.value());
      if (clocks.empty()) clocks.push_back(options.clock.value_or(setup.spec.clocks.back()).value());
      return clocks;
    }
    case PolicySetting::kBudget: return request.etas.empty() ? std::vector{setup.eta} : request.etas;
    case PolicySetting::kZeusEta: return request.zeus_etas.empty() ? std::vector{options.zeus_eta} : request.zeus_etas;
  }
  return {};
}

std::vector<ComparedRun> runs_of(const SimulationSetup& setup, const PolicyOptions& options,
                                 const ComparisonRequest& request) {
  std::vector<ComparedRun> runs;
  for (const std::string& name : request.policies) {
    if (std::count(request.policies.begin(), request.policies.end(), name) > 1) {
      throw UsageError(fmt::format("policy {} is to be compared with itself; name it once", name));
    }
    const PolicySetting setting = find_policy(name).setting;
    for (const double value : settings_of(setting, setup, options, request)) {
      runs.push_back({name, setting, value, {}, {}, {}});
    }
  }
  if (runs.empty()) throw UsageError("no policy to compare; name one at least");
  return runs;
}

// Calls `progress` with the share of jobs done, and returns false if it does.
bool run_one(SimulationSetup setup, const GroundTruth& truth, const JobTrace& trace, PolicyOptions options,
             ComparedRun& run, const std::function<bool(double)>& progress) {
  switch (run.setting) {
    case PolicySetting::kClock: options.clock = Megahertz(run.value); break;
    case PolicySetting::kBudget: setup.eta = run.value; break;
    case PolicySetting::kZeusEta: options.zeus_eta = run.value; break;
  }
  Simulation simulation(setup, truth, trace, run.policy, options);
  if (!simulation.run(progress)) return false;
  run.result = simulation.result();
  if (setup.record) {
    run.usage = simulation.history().power;
    run.jcts_s = sorted_jcts(simulation.state());
  }
  return true;
}

}  // namespace

std::string setting_text(const ComparedRun& run) {
  switch (run.setting) {
    case PolicySetting::kClock: return fmt::format("{:g} MHz", run.value);
    case PolicySetting::kBudget: return fmt::format("eta {:g}", run.value);
    case PolicySetting::kZeusEta: return fmt::format("Zeus eta {:g}", run.value);
  }
  return "";
}

std::vector<ComparedRun> compare_policies(const SimulationSetup& given, const GroundTruth& truth, const JobTrace& trace,
                                          const PolicyOptions& options, const ComparisonRequest& request,
                                          const std::function<bool(double)>& keep_going) {
  SimulationSetup setup = given;
  complete_spec(setup.spec, truth);
  setup.record = request.record;
  for (const Megahertz clock : request.clocks) check_clock(setup.spec, clock);
  std::vector<ComparedRun> runs = runs_of(setup, options, request);

  std::atomic<std::size_t> next = 0;
  std::atomic<std::size_t> at_work = std::min<std::size_t>(usable_processors(), runs.size());
  std::atomic<bool> stop = false;
  std::vector<std::atomic<double>> shares(runs.size());
  std::vector<std::exception_ptr> failures(runs.size());
  const auto work = [&] {
    for (std::size_t run = next++; run < runs.size() && !stop; run = next++) {
      try {
        const auto progress = [&](double share) {
          shares[run] = share;
          return !stop;
        };
        if (!run_one(setup, truth, trace, options, runs[run], progress)) break;
        shares[run] = 1.0;
      } catch (...) {
        failures[run] = std::current_exception();
        stop = true;
      }
    }
    --at_work;
  };
  std::vector<std::jthread> workers(at_work);
  for (std::jthread& worker : workers) worker = std::jthread(work);
  bool wanted = true;
  const auto report = [&] {
    if (!keep_going || stop) return;
    const double done = std::accumulate(shares.begin(), shares.end(), 0.0);
    wanted = keep_going(done / static_cast<double>(runs.size()));
    if (!wanted) stop = true;
  };
  while (at_work > 0) {
    std::this_thread::sleep_for(kBetweenReports);
    report();
  }
  workers.clear();
  if (wanted) report();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return wanted ? std::move(runs) : std::vector<ComparedRun>();
}

std::optional<double> jct_at_energy(const std::vector<ComparedRun>& runs, std::string_view policy, double energy_j) {
  std::vector<std::pair<double, double>> curve;  // energy, JCT
  for (const ComparedRun& run : runs) {
    if (run.policy == policy) curve.emplace_back(run.result.energy_j, run.result.avg_jct_s);
  }
  std::sort(curve.begin(), curve.end());
  std::optional<std::pair<double, double>> below;  // the last run that was faster than all before it
  for (const auto& [energy, jct] : curve) {
    if (below && jct >= below->second) continue;
    if (energy > energy_j) {
      if (!below) return std::nullopt;
      const double share = (energy_j - below->first) / (energy - below->first);
      return below->second + share * (jct - below->second);
    }
    below = {energy, jct};
  }
  return below ? std::optional(below->second) : std::nullopt;
}

const ComparedRun& reference_run(const std::vector<ComparedRun>& runs) {
  const auto main =
      std::find_if(runs.begin(), runs.end(), [](const auto& run) { return run.policy == kDefaultPolicy; });
  return main == runs.end() ? runs.front() : *main;
}

std::optional<double> jct_ratio_at_equal_energy(const std::vector<ComparedRun>& runs, const ComparedRun& run) {
  const auto jct = jct_at_energy(runs, reference_run(runs).policy, run.result.energy_j);
  return jct ? std::optional(run.result.avg_jct_s / *jct) : std::nullopt;
}

std::vector<const ComparedRun*> runs_of_like_energy(const std::vector<ComparedRun>& runs) {
  std::vector<const ComparedRun*> best;
  double best_apart = std::numeric_limits<double>::infinity();
  for (const ComparedRun& middle : runs) {
    const auto apart = [&](const ComparedRun& run) {
      return std::abs(std::log(run.result.energy_j / middle.result.energy_j));
    };
    std::vector<const ComparedRun*> nearest;
    for (const ComparedRun& run : runs) {
      const auto same = std::find_if(nearest.begin(), nearest.end(),
                                     [&](const ComparedRun* one) { return one->policy == run.policy; });
      if (same == nearest.end()) {
        nearest.push_back(&run);
      } else if (apart(run) < apart(**same)) {
        *same = &run;
      }
    }
    double furthest = 0.0;
    for (const ComparedRun* run : nearest) furthest = std::max(furthest, apart(*run));
    if (furthest >= best_apart) continue;
    best_apart = furthest;
    best = std::move(nearest);
  }
  return best;
}

}  // namespace flyball
