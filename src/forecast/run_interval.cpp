// Each source of error gives half a width at the wanted confidence. Independent sources add up by their squares.
#include "forecast/run_interval.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <boost/math/distributions/beta.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/tools/toms748_solve.hpp>

#include "forecast/sum_interval.h"

namespace flyball {
namespace {

using Normal = boost::math::normal;

double squared(Joules energy) { return energy.value() * energy.value(); }

double measured_nodes(const NodeType& type) { return std::min(type.measured_nodes, type.count); }

Watts idle_power(const RunDescription& run) {
  Watts sum(0);
  for (const NodeType& type : run.node_types) sum += type.count * idle_power(type);
  return sum;
}

// Splits times into phases that end at the same time on all nodes: one phase if the wait was measured, else one until
// the barrier and one after it.
std::vector<std::vector<Seconds>> phases_of(const Samples& samples, bool wait_measured) {
  if (wait_measured) return {samples.whole};
  std::vector<Seconds> rest = samples.whole;
  for (std::size_t k = 0; k < rest.size(); ++k) rest[k] -= samples.local[k];
  return {samples.local, rest};
}

// Energies of all nodes of each type in the measured iterations: what they draw themselves and, for the type that is
// the last on average, what all others draw idly meanwhile. The average decides, since the mean is what is asked for.
std::vector<std::vector<double>> energy_sequences(const RunDescription& run, const std::vector<Samples>& samples,
                                                  bool wait_measured) {
  const std::size_t phases = wait_measured ? 1 : 2;
  std::vector<std::size_t> last(phases, 0);
  for (std::size_t p = 0; p < phases; ++p) {
    Seconds longest(-1);
    for (std::size_t t = 0; t < samples.size(); ++t) {
      const Seconds mean = mean_of(phases_of(samples[t], wait_measured)[p]);
      if (mean > longest) last[p] = t;
      longest = std::max(longest, mean);
    }
  }
  std::vector<std::vector<double>> sequences;
  for (std::size_t t = 0; t < samples.size(); ++t) {
    const NodeType& type = run.node_types[t];
    const auto own = phases_of(samples[t], wait_measured);
    std::vector<double> values;
    for (std::size_t k = 0; k < samples[t].energy.size(); ++k) {
      Joules energy = type.count * (samples[t].energy[k] - idle_power(type) * samples[t].whole[k]);
      for (std::size_t p = 0; p < phases; ++p) {
        if (last[p] == t) energy += idle_power(run) * own[p][k];
      }
      values.push_back(energy.value());
    }
    sequences.push_back(std::move(values));
  }
  return sequences;
}

// Square of how far the iterations' sum may be off.
double iterations_squared(const RunDescription& run, const MeasuredPart& part, bool wait_measured, double confidence,
                          const AssumedSpread& assumed) {
  std::vector<std::vector<double>> sequences = energy_sequences(run, part.samples, wait_measured);
  std::vector<double> spreads;
  for (std::size_t t = 0; t < sequences.size(); ++t) {
    spreads.push_back(assumed.iteration_spread * run.node_types[t].count * mean_of(part.samples[t].energy).value());
  }
  // Types that were measured in the same iterations are summed first: what they share is then counted as shared.
  const bool together = std::all_of(sequences.begin(), sequences.end(),
                                    [&](const auto& one) { return one.size() == sequences.front().size(); });
  while (together && sequences.size() > 1) {
    for (std::size_t k = 0; k < sequences.front().size(); ++k) sequences.front()[k] += sequences.back()[k];
    spreads.front() += spreads.back();
    sequences.pop_back();
    spreads.pop_back();
  }
  double sum = 0.0;
  for (std::size_t t = 0; t < sequences.size(); ++t) {
    const auto half =
        sum_half_width(sequences[t], part.repeats, confidence, {}, {spreads[t], assumed.iteration_weight});
    if (half) sum += *half * *half;
  }
  return sum;
}

// The longest mean of a type's nodes, which they all wait for at the least.
Seconds longest_mean(const std::vector<Samples>& samples) {
  Seconds longest(0);
  for (const Samples& own : samples) longest = std::max(longest, mean_of(own.local));
  return longest;
}

// The quantile of the greatest of all nodes' local times.
Seconds greatest_draw(const RunDescription& run, const std::vector<Samples>& samples, double quantile,
                      const AssumedSpread& assumed) {
  struct Draws {
    double mean;
    double deviation;
    int count;
  };
  std::vector<Draws> draws;
  double high = 0.0;
  for (std::size_t t = 0; t < samples.size(); ++t) {
    const NodeType& type = run.node_types[t];
    const double mean = mean_of(samples[t].local).value();
    if (mean <= 0.0) continue;
    // The times are means over the measured nodes; single nodes differ by as much more.
    double squares = assumed.iteration_weight * assumed.iteration_spread * assumed.iteration_spread;
    for (const Seconds time : samples[t].local) {
      squares += measured_nodes(type) * (time.value() / mean - 1.0) * (time.value() / mean - 1.0);
    }
    const double spread = type.spread.value_or(assumed.node_spread);
    const double variance =
        squares / (assumed.iteration_weight + static_cast<double>(samples[t].local.size()) - 1.0) + spread * spread;
    draws.push_back({mean, mean * std::sqrt(std::max(variance, 1e-18)), type.count});
    high = std::max(high, mean + 12.0 * draws.back().deviation);
  }
  if (draws.empty()) return Seconds(0);
  const auto beyond = [&](double time) {
    double below = 1.0;
    for (const Draws& one : draws) {
      below *= std::pow(boost::math::cdf(Normal(one.mean, one.deviation), time), one.count);
    }
    return below - quantile;
  };
  std::uintmax_t rounds = 100;
  const auto [low, found] =
      boost::math::tools::toms748_solve(beyond, 0.0, high, boost::math::tools::eps_tolerance<double>(30), rounds);
  return Seconds(0.5 * (low + found));
}

// The energy that stalls which were not seen may add to the run.
Joules unseen_stalls(const RunDescription& run, const std::vector<Samples>& samples, bool wait_measured, double repeats,
                     double quantile, const AssumedSpread& assumed) {
  double none = 1.0;
  Joules works(0);  // the stalled node itself does not idle
  for (std::size_t t = 0; t < samples.size(); ++t) {
    const NodeType& type = run.node_types[t];
    const double seen = (wait_measured ? measured_nodes(type) : 1.0) * static_cast<double>(samples[t].local.size());
    const double rate =
        boost::math::quantile(boost::math::beta_distribution(0.5, assumed.stall_weight + seen), quantile);
    none *= std::pow(1.0 - rate, type.count);
    works = std::max(works, mean_of(samples[t].energy) - idle_power(type) * mean_of(samples[t].whole));
  }
  return repeats * (1.0 - none) * (works + idle_power(run) * longest_mean(samples));
}

}  // namespace

double normal_quantile(double quantile) { return boost::math::quantile(Normal(), quantile); }

IntervalHalves interval_halves(const RunDescription& run, const std::vector<MeasuredPart>& parts,
                               const std::vector<Joules>& energies, double confidence, const AssumedSpread& assumed,
                               const std::vector<double>& power_variances) {
  const bool wait_measured = std::any_of(run.node_types.begin(), run.node_types.end(),
                                         [](const NodeType& type) { return type.stage(TrainingStage::kWait).stated; });
  const double quantile = 0.5 + 0.5 * confidence;
  const double deviations = normal_quantile(quantile);
  double both = 0.0;
  for (std::size_t t = 0; t < run.node_types.size(); ++t) {
    const NodeType& type = run.node_types[t];
    const double measured = measured_nodes(type);
    // The first part is of the power of so many nodes, the second of the speed of those that were not measured.
    const double power_variance = power_variances.empty() ? 1.0 / measured : power_variances[t];
    const double variance = power_variance + (1.0 / measured - 1.0 / type.count);
    const double spread = type.spread.value_or(assumed.node_spread);
    both += squared(deviations * spread * energies[t]) * variance;
  }
  double below = 0.0;
  double above = 0.0;
  for (const MeasuredPart& part : parts) {
    both += iterations_squared(run, part, wait_measured, confidence, assumed);
    if (part.occurrence == Occurrence::kIteration) {
      above += squared(unseen_stalls(run, part.samples, wait_measured, part.repeats, quantile, assumed));
    }
    if (wait_measured || run.nodes() == 1) continue;
    const Seconds most = greatest_draw(run, part.samples, quantile, assumed);
    above += squared(part.repeats * (idle_power(run) * std::max(Seconds(0), most - part.slowest)));
    below += squared(part.repeats * (idle_power(run) * (part.slowest - longest_mean(part.samples))));
  }
  return {Joules(std::sqrt(both + below)), Joules(std::sqrt(both + above))};
}

}  // namespace flyball
