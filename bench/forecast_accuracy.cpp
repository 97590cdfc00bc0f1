// How far forecasts are off on simulated runs whose energy is known, MC2 and what it is compared with (its section 3.4).
// Run from the repository's root; the tables of docs/performance.md.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "draw/text_table.h"
#include "forecast/comparators.h"
#include "forecast/forecast.h"
#include "forecast/simulated_cluster.h"

namespace {

using namespace flyball;

constexpr std::size_t kSeenSteps = 500;  // of the series models, as in the paper
constexpr int kSeeds = 10;

RunDescription read_example(const std::string& name) {
  const std::string path = "examples/forecast/" + name + ".toml";
  RunDescription run = read_run(path, read_text_file(path));
  check_complete(run);
  return run;
}

// The paper's stage times are of an epoch of six iterations; what it charges once a run stays so.
RunDescription by_iteration(RunDescription run, int iterations) {
  NodeType& type = run.node_types.front();
  for (StageMeasurement& stage : type.stages) {
    if (!stage.stated || stage.occurrence != Occurrence::kEpoch) continue;
    stage.occurrence = Occurrence::kIteration;
    stage.times.front() = stage.times.front() / iterations;
  }
  for (const TrainingStage which : {TrainingStage::kLoadData, TrainingStage::kPreprocess}) {
    type.stage(which).occurrence = Occurrence::kIteration;
    type.stage(which).times.front() = type.stage(which).times.front() / iterations;
  }
  type.stage(TrainingStage::kWait) = {};  // the simulation makes its own
  run.samples = type.batch * type.count * iterations;
  return run;
}

// Accuracy in per cent of every method on one run.
std::vector<std::pair<std::string, double>> accuracies(const SimulatedRun& run) {
  const std::vector<double>& trace = run.trace_w;
  double energy = 0.0;
  for (const double power : trace) energy += power;
  std::vector<std::pair<std::string, double>> list;
  list.emplace_back("MC2", accuracy_pct(forecast_run(run.measured).energy.value(), run.energy.value()));
  for (const int seconds : {1, 4, 8, 16}) {
    const auto window = static_cast<std::size_t>(std::lround(seconds / run.step.value()));
    list.emplace_back(fmt::format("time, from {} s", seconds),
                      accuracy_pct(proportional_level(trace, window) * static_cast<double>(trace.size()), energy));
  }
  const std::vector<double> seen(trace.begin(), trace.begin() + kSeenSteps);
  const std::size_t rest = trace.size() - seen.size();
  const auto series = [&](const std::string& name, const std::vector<double>& values) {
    double sum = 0.0;
    for (const double value : seen) sum += value;
    for (const double value : values) sum += value;
    list.emplace_back(name, accuracy_pct(sum, energy));
  };
  series("AR(16)", forecast(fit_autoregression(seen, 16), seen, rest));
  series("SES", std::vector<double>(rest, fit_smoothing(seen).last_level));
  series("ARIMA(2,1,1)", forecast(fit_arima(seen, 2, 1), seen, rest));
  return list;
}

void print_table(const std::string& title, const RunDescription& truth, const ClusterBehaviour& behaviour, int measured,
                 Seconds step) {
  std::vector<std::string> names;
  std::vector<std::vector<double>> values;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    ClusterBehaviour own = behaviour;
    own.seed = static_cast<std::uint64_t>(seed);
    const auto one = accuracies(simulate_run(truth, own, measured, step, 1'000'000));
    names.clear();
    values.resize(one.size());
    for (std::size_t k = 0; k < one.size(); ++k) {
      names.push_back(one[k].first);
      values[k].push_back(one[k].second);
    }
  }
  TextTable table(
      {{"method", "", TextTable::Align::kLeft}, {"mean accuracy %", ""}, {"worst %", ""}, {"behind MC2", ""}});
  const auto mean = [](const std::vector<double>& list) {
    double sum = 0.0;
    for (const double value : list) sum += value;
    return sum / static_cast<double>(list.size());
  };
  for (std::size_t k = 0; k < names.size(); ++k) {
    table.add_row({names[k], format_fixed(mean(values[k]), 2),
                   format_fixed(*std::min_element(values[k].begin(), values[k].end()), 2),
                   k == 0 ? "-" : format_fixed(mean(values[0]) - mean(values[k]), 2)});
  }
  std::cout << title << "\n" << table.str() << "\n";
}

// How often the interval holds the truth, out of `runs`.
void print_coverage() {
  constexpr int kRuns = 1000;
  TextTable table(
      {{"measured iterations", ""}, {"correlation of neighbours", ""}, {"held %", ""}, {"half width %", ""}});
  for (const double drift : {0.0, 0.7}) {
    for (const int measured : {3, 5, 10, 20, 60}) {
      RunDescription truth = read_example("two-generations");
      truth.samples = 400 * 2 * 2 * truth.node_types.front().batch;
      for (NodeType& type : truth.node_types) type.count = 2;
      int held = 0;
      double half_widths = 0.0;
      for (int seed = 1; seed <= kRuns; ++seed) {
        ClusterBehaviour behaviour;
        behaviour.node_spread = 0.0;
        behaviour.stall_chance = 0.0;
        behaviour.common_jitter = 0.03;
        behaviour.drift = drift;
        behaviour.seed = static_cast<std::uint64_t>(seed);
        const SimulatedRun run = simulate_run(truth, behaviour, measured, Seconds(1), 0);
        const RunForecast forecast = forecast_run(run.measured, 0.9);
        if (forecast.interval->low <= run.energy && run.energy <= forecast.interval->high) ++held;
        half_widths += 50.0 * ((forecast.interval->high - forecast.interval->low) / forecast.energy);
      }
      table.add_row({fmt::to_string(measured), format_fixed(drift, 1), format_fixed(100.0 * held / kRuns, 1),
                     format_fixed(half_widths / kRuns, 2)});
    }
  }
  std::cout << "90 % intervals of 1,000 runs of 400 iterations each\n" << table.str();
}

}  // namespace

int main() {
  try {
    print_table("two generations of nodes, 20,000 iterations, 1 % measured; steps of 0.1 s",
                read_example("two-generations"), {}, 200, Seconds(0.1));
    ClusterBehaviour still;
    still.stall_chance = 0.0;
    print_table("VGG16 on 128 MT nodes, one epoch of 6 iterations, the first measured; steps of 0.05 s",
                by_iteration(read_example("vgg16-mt128"), 6), still, 1, Seconds(0.05));
    print_coverage();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
