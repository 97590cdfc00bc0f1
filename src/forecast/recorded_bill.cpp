// A forecast of fewer nodes and components is the forecast of a run whose components draw so much less: the times, and
// with them the waits, stay those of the whole run.
#include "forecast/recorded_bill.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/error.h"
#include "forecast/samples.h"

namespace flyball {
namespace {

// By type and component.
using RecordedShares = std::vector<PerComponent<double>>;

RunDescription with_shares(RunDescription run, const RecordedShares& shares) {
  for (std::size_t t = 0; t < run.node_types.size(); ++t) {
    NodeType& type = run.node_types[t];
    for (std::size_t c = 0; c < kComponents; ++c) {
      const double share = shares[t][c];
      if (type.components[c]) {
        type.components[c] = ComponentPower{share * type.components[c]->active, share * type.components[c]->idle};
      }
      for (StageMeasurement& stage : type.stages) {
        if (stage.power[c]) stage.power[c] = share * *stage.power[c];
        for (Joules& joules : stage.recorded[c]) joules = share * joules;
      }
    }
  }
  return run;
}

Compared<Joules> energy_of(const RunForecast& forecast) {
  return {forecast.energy, forecast.interval.low, forecast.interval.high, std::nullopt};
}

// The duration is the energy of 1 W that the slowest type's nodes draw together.
Compared<Seconds> duration_of(const RunDescription& run, const RunPart& part, double confidence) {
  const RunForecast forecast = forecast_part(run, part, confidence);
  std::size_t slowest = 0;
  for (std::size_t t = 0; t < run.node_types.size(); ++t) {
    if (forecast.node_types[t].local_time > forecast.node_types[slowest].local_time) slowest = t;
  }
  RunDescription clock = run;
  for (std::size_t t = 0; t < clock.node_types.size(); ++t) {
    NodeType& type = clock.node_types[t];
    for (StageMeasurement& stage : type.stages) {
      stage.power = {};
      stage.recorded = {};
    }
    type.components = {};
    const Watts power(t == slowest ? 1.0 / type.count : 0.0);
    type.components[index_of(Component::kProcessor)] = ComponentPower{power, power};
  }
  const std::vector<double> no_variance(run.node_types.size(), 0.0);
  const RunForecast time = forecast_part(clock, part, confidence, no_variance);
  return {forecast.duration, Seconds(time.interval.low.value()), Seconds(time.interval.high.value()), std::nullopt};
}

RunPart part_of(const RunDescription& run, std::optional<double> iterations, bool begin) {
  const double all = run.epochs * run.iterations_per_epoch();
  if (!iterations) return {all, begin};
  // The last, smaller batch counts its share in the forecast, and is an iteration to people.
  if (*iterations > std::ceil(all - 1e-9)) {
    throw UsageError(fmt::format("--iterations {:.0f}: the run has {:.6g} iterations; say with --epochs how long it is",
                                 *iterations, all));
  }
  return {std::min(*iterations, all), begin};
}

Seconds length_of(const RecordedNode& node) {
  const auto [begin, end] = node.recording.common_span();
  if (end > begin) return end - begin;
  throw InputError({node.recording.source}, "no two readings of a GPU:n, CPU:n or DRAM:n device at the same time",
                   "record with flyball record -o power.csv -- ./train");
}

void say_what_is_doubtful(RecordedBill& bill, Seconds shortest, Seconds iteration, bool whole) {
  if (shortest < 0.95 * *bill.duration.measured) {
    bill.notes.push_back(
        fmt::format("the recordings are {:.4g} to {:.4g} s long: were they made of the same iterations?",
                    shortest.value(), bill.duration.measured->value()));
  }
  const double ratio = *bill.duration.measured / *bill.duration.forecast;
  if (ratio > 0.5 && ratio < 2.0) return;
  if (whole && ratio <= 0.5 && iteration > Seconds(0)) {
    bill.notes.push_back(
        fmt::format("the recording is much shorter than the run: if it has a part of it, write --iterations N; it is "
                    "as long as {:.3g} iterations",
                    *bill.duration.measured / iteration));
    return;
  }
  bill.notes.push_back(
      fmt::format("the recording is {:.3g} times as long as forecast: does it have the iterations that --iterations "
                  "and RUN.toml say?",
                  ratio));
}

}  // namespace

std::optional<Joules> RecordedBill::run_at_this_rate() const {
  if (!total.both() || *total.forecast <= Joules(0)) return std::nullopt;
  return *total.measured / *total.forecast * run_forecast;
}

RecordedBill recorded_bill(const RunDescription& run, const std::vector<RecordedNode>& nodes,
                           std::optional<double> iterations, bool begin, double confidence) {
  RecordedBill bill;
  bill.confidence = confidence;
  bill.run_iterations = run.epochs * run.iterations_per_epoch();
  bill.part = part_of(run, iterations, begin);
  for (const NodeType& type : run.node_types) bill.node_types.push_back({type.name, type.count, 0});

  RecordedShares shares(run.node_types.size(), PerComponent<double>{});
  PerComponent<Joules> not_forecast{};
  PerComponent<bool> measured{};
  Seconds longest(0);
  Seconds shortest(std::numeric_limits<double>::infinity());
  for (const RecordedNode& node : nodes) {
    const NodeType& type = run.node_types[node.type];
    const Seconds length = length_of(node);
    longest = std::max(longest, length);
    shortest = std::min(shortest, length);
    bill.files.push_back(node.recording.source);
    bill.node_types[node.type].recorded += 1;
    if (bill.node_types[node.type].recorded > type.count) {
      throw UsageError(fmt::format("--against: more recordings of '{}' than its {} node{}", type.name, type.count,
                                   type.count == 1 ? "" : "s"));
    }
    const auto [from, to] = node.recording.common_span();
    for (std::size_t c = 0; c < kComponents; ++c) {
      const auto component = static_cast<Component>(c);
      if (!node.recording.has(component)) continue;
      const Joules energy = node.recording.between(component, from, to);
      if (!type.has(component)) {
        not_forecast[c] += energy;
        measured[c] = true;
        continue;
      }
      shares[node.type][c] += 1.0 / type.count;
      Compared<Joules>& own = bill.components[c];
      own.measured = own.measured.value_or(Joules(0)) + energy;
    }
  }

  std::vector<double> variances;
  for (std::size_t t = 0; t < run.node_types.size(); ++t) {
    const NodeType& type = run.node_types[t];
    const double recorded = std::max(1, bill.node_types[t].recorded);
    variances.push_back(1.0 / std::min(type.measured_nodes, type.count) + 1.0 / recorded - 1.0 / type.count);
  }
  bool any = false;
  for (std::size_t c = 0; c < kComponents; ++c) {
    Compared<Joules>& own = bill.components[c];
    RecordedShares alone(run.node_types.size(), PerComponent<double>{});
    bool known = false;
    for (std::size_t t = 0; t < run.node_types.size(); ++t) {
      known = known || (run.node_types[t].components[c] && bill.node_types[t].recorded > 0);
      // What no recording has is forecast for the recorded nodes all the same.
      const double all = static_cast<double>(bill.node_types[t].recorded) / run.node_types[t].count;
      alone[t][c] = own.measured ? shares[t][c] : all;
    }
    if (known) {
      const std::optional<Joules> taken = own.measured;
      own = energy_of(forecast_part(with_shares(run, alone), bill.part, confidence, variances));
      own.measured = taken;
      any = any || own.both();
    }
    if (!measured[c]) continue;
    if (!known) {
      own.measured = not_forecast[c];
    } else {
      bill.notes.push_back(
          fmt::format("{}: {:.4g} kWh were measured on nodes for which RUN.toml has no such power; "
                      "they are left out",
                      kNamesOf<Component>[c], kilowatt_hours(not_forecast[c])));
    }
  }
  const RunForecast whole = forecast_run(run, confidence);
  bill.run_forecast = whole.energy;
  bill.duration = duration_of(run, bill.part, confidence);
  bill.duration.measured = longest;
  if (any) {
    bill.total = energy_of(forecast_part(with_shares(run, shares), bill.part, confidence, variances));
    Joules sum(0);
    for (const Compared<Joules>& own : bill.components) {
      if (own.both()) sum += *own.measured;
    }
    bill.total.measured = sum;
  } else {
    bill.notes.emplace_back("no component is both forecast and measured: the energies cannot be compared");
  }
  say_what_is_doubtful(bill, shortest, whole.node_types.front().iteration, !iterations);
  return bill;
}

}  // namespace flyball
