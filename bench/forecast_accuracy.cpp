// How far forecasts are off on simulated runs whose energy is known, MC2 and what it is compared with (its section
// 3.4). Run from the repository's root; makes the tables of docs/performance.md and docs/forecast-intervals.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "draw/text_table.h"
#include "forecast/forecast.h"
#include "support/comparators.h"
#include "support/simulated_run.h"

namespace {

using namespace flyball;

constexpr std::size_t kSeenSteps = 500;  // of the series models, as in the paper
constexpr int kSeeds = 10;

RunDescription read_example(const std::string& name) {
  const std::string path = "examples/forecast/" + name + ".toml";
  RunDescription run = read_run(path, read_text_file(path));
  check_complete(run);
  for (NodeType& type : run.node_types) type.measured_nodes = type.count;
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
  TextTable table({"<method", "mean accuracy %", "worst %", "behind MC2"});
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

// A world in which intervals are held against runs; everything that is not named is the simulator's default.
struct World {
  const char* name;
  ClusterBehaviour behaviour;
};

std::vector<World> worlds() {
  std::vector<World> list(11);
  const char* const names[] = {"the defaults",
                               "nodes equal, no stalls",
                               "no stalls",
                               "what all share: 3 %",
                               "the same, correlation 0.7",
                               "exponential jitter and nodes",
                               "one node in ten 6 % off",
                               "nodes twice as different",
                               "stalls of 1 in 100",
                               "stalls of five times the time",
                               "5 % slower by the end"};
  for (std::size_t k = 0; k < list.size(); ++k) list[k].name = names[k];
  list[1].behaviour.node_spread = 0.0;
  for (const std::size_t k : {1u, 2u}) list[k].behaviour.stall_chance = 0.0;
  for (const std::size_t k : {3u, 4u}) list[k].behaviour.common_jitter = 0.03;
  list[4].behaviour.drift = 0.7;
  list[5].behaviour.node_noise = Noise::kExponential;
  list[5].behaviour.jitter_noise = Noise::kExponential;
  list[6].behaviour.node_noise = Noise::kTwoPoint;
  list[7].behaviour.node_spread = 0.04;
  list[8].behaviour.stall_chance = 0.01;
  list[9].behaviour.stall_factor = 5.0;
  list[10].behaviour.trend = 0.05;
  return list;
}

// The first of the measured iterations alone, and without the wait if that is not `given`.
RunDescription beginning_of(RunDescription run, std::size_t measured, bool given) {
  for (NodeType& type : run.node_types) {
    for (StageMeasurement& stage : type.stages) {
      if (stage.occurrence == Occurrence::kIteration && stage.times.size() > measured) stage.times.resize(measured);
    }
    if (!given) type.stage(TrainingStage::kWait) = {};
  }
  return run;
}

// How often the interval holds the truth, of `runs` runs of 400 iterations, half of the nodes of either generation.
void print_coverage(const World& world, int runs) {
  constexpr std::size_t kMeasured[] = {1, 2, 3, 5, 10, 20, 40, 60};
  std::vector<std::string> columns = {"nodes", "measured on", "<wait"};
  for (const std::size_t measured : kMeasured) columns.push_back(fmt::to_string(measured));
  TextTable held(columns);
  TextTable widths(columns);
  for (const int nodes : {4, 40}) {
    for (const bool all : {true, false}) {
      RunDescription truth = read_example("two-generations");
      truth.samples = 400.0 * nodes * truth.node_types.front().batch;
      for (NodeType& type : truth.node_types) {
        type.count = nodes / 2;
        type.measured_nodes = all ? type.count : 1;
      }
      std::array<std::array<int, std::size(kMeasured)>, 2> inside{};
      std::array<std::array<double, std::size(kMeasured)>, 2> below{};
      std::array<std::array<double, std::size(kMeasured)>, 2> above{};
      for (int seed = 1; seed <= runs; ++seed) {
        ClusterBehaviour behaviour = world.behaviour;
        behaviour.seed = static_cast<std::uint64_t>(seed);
        const SimulatedRun run = simulate_run(truth, behaviour, 60, Seconds(1), 0);
        for (const bool given : {false, true}) {
          for (std::size_t k = 0; k < std::size(kMeasured); ++k) {
            const RunForecast forecast = forecast_run(beginning_of(run.measured, kMeasured[k], given), 0.9);
            const EnergyInterval& interval = forecast.interval;
            if (interval.low <= run.energy && run.energy <= interval.high) ++inside[given ? 1 : 0][k];
            below[given ? 1 : 0][k] += 100.0 * ((forecast.energy - interval.low) / forecast.energy) / runs;
            above[given ? 1 : 0][k] += 100.0 * ((interval.high - forecast.energy) / forecast.energy) / runs;
          }
        }
      }
      for (const std::size_t given : {1u, 0u}) {
        std::vector<std::string> row = {fmt::to_string(nodes), all ? "all" : "one a type",
                                        given == 1 ? "given" : "not"};
        std::vector<std::string> width = row;
        for (std::size_t k = 0; k < std::size(kMeasured); ++k) {
          row.push_back(format_fixed(100.0 * inside[given][k] / runs, 1));
          width.push_back(fmt::format("-{} +{}", format_fixed(below[given][k], 1), format_fixed(above[given][k], 1)));
        }
        held.add_row(row);
        widths.add_row(width);
      }
    }
  }
  std::cout << fmt::format("{}: 90 % intervals of {} runs; held %, by measured iterations\n{}\n", world.name, runs,
                           held.str());
  std::cout << fmt::format("their width, % of the total\n{}\n", widths.str()) << std::flush;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int runs = argc > 1 ? std::stoi(argv[1]) : 300;  // for the intervals
    print_table("two generations of nodes, 20,000 iterations, 1 % measured; steps of 0.1 s",
                read_example("two-generations"), {}, 200, Seconds(0.1));
    ClusterBehaviour still;
    still.stall_chance = 0.0;
    print_table("VGG16 on 128 MT nodes, one epoch of 6 iterations, the first measured; steps of 0.05 s",
                by_iteration(read_example("vgg16-mt128"), 6), still, 1, Seconds(0.05));
    for (const World& world : worlds()) print_coverage(world, runs);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
