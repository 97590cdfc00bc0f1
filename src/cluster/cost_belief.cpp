// Believed costs are those of the fitted model, scaled to the measurements at sizes that were measured. A network's
// model is fitted to its measurements and, where it has none, to guesses of little weight.
#include "cluster/cost_belief.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "base/index.h"

namespace flyball {
namespace {

constexpr int kMostGuessed = 64;  // GPUs
// Weight of a guessed point beside a measured one.
constexpr double kGuessWeight = 0.05;
// A network is fitted anew when what was measured of it has grown by this factor.
constexpr double kGrowth = 1.3;
constexpr std::size_t kFittedClocks = 5;  // of each size, at most
// A refit with a mean error of more than this started at a bad point, and is repeated from the default start.
constexpr double kPoorFit = 0.05;

// The factor by which a guess expects a job's time to fall between these numbers of GPUs.
double guessed_speedup(const ClusterSpec& spec, int from, int to) {
  const auto doublings = [&](int gpus) {  // within a node, and beyond
    const double inside = std::log2(std::min(gpus, spec.gpus_per_node));
    return std::pair(inside, std::log2(gpus) - inside);
  };
  const auto [inside_from, apart_from] = doublings(from);
  const auto [inside_to, apart_to] = doublings(to);
  return std::pow(2.0 * kGuessedScaling, inside_to - inside_from) *
         std::pow(2.0 * kGuessedScalingApart, apart_to - apart_from);
}

// The factor by which a guess expects the power of all GPUs of a job to rise between these numbers of them.
double guessed_power_rise(int from, int to) { return std::pow(2.0 * 0.97, std::log2(static_cast<double>(to) / from)); }

// The cost of an iteration of a network of which nothing is known: half of the computation waits for the SM clock, and
// two thirds of the power fall as V^2 f.
IterationCost guessed_cost(const ClusterSpec& spec, int gpus, double clock_ratio, Seconds one_gpu, Watts one_power) {
  const double slower = 0.5 + 0.5 / clock_ratio;
  const Seconds time = one_gpu * slower / guessed_speedup(spec, 1, gpus);
  const double draw = 0.5 + 0.5 * clock_ratio * clock_ratio * clock_ratio;
  const Watts power = (spec.idle + (one_power - spec.idle) * draw) * guessed_power_rise(1, gpus);
  return {time, power * time};
}

}  // namespace

int packed_nodes(const ClusterSpec& spec, int gpus) { return (gpus + spec.gpus_per_node - 1) / spec.gpus_per_node; }

void CostBelief::add_kind(int kind, CostSheet& sheet) {
  network_of_.push_back(0);
  const ClusterJobKind& added = (*kinds_)[at(kind)];
  if (!added.elastic) return;
  auto network = std::ranges::find(networks_, added.model, &Network::model);
  if (network == networks_.end()) {
    networks_.push_back({added.model, {}, {}, 0, 0, {}});
    network = std::prev(networks_.end());
  }
  network_of_.back() = static_cast<std::size_t>(network - networks_.begin());
  network->kinds.push_back(kind);
  write_sheet(*network, kind, sheet);
}

bool CostBelief::knows(const ProfiledSize& what, int speed) const {
  const Network& network = networks_[network_of_[at(what.kind)]];
  const auto known = network.known.find(what);
  return known != network.known.end() && known->second.count(speed) != 0;
}

std::vector<int> CostBelief::learn(const ProfiledSpeeds& what, const MeasuredCosts& measured,
                                   std::vector<CostSheet>& believed) {
  Network& network = networks_[network_of_[at(what.at.kind)]];
  SpeedCosts& known = network.known[what.at];
  network.points -= std::min(known.size(), kFittedClocks);
  for (const int speed : what.speeds) known[speed] = measured(what.at, speed);
  network.points += std::min(known.size(), kFittedClocks);
  if (static_cast<double>(network.points) < kGrowth * static_cast<double>(network.fitted_to)) {
    write_size(network, what.at.kind, what.at.size, believed[at(what.at.kind)]);
    return {what.at.kind};
  }
  refit(network);
  for (const int each : network.kinds) write_sheet(network, each, believed[at(each)]);
  return network.kinds;
}

// The models are smooth in the clock: a few clocks of a size tell as much as all, and are fitted faster.
std::vector<JobMeasurement> CostBelief::measurements(const Network& network) const {
  std::vector<JobMeasurement> points;
  for (const auto& [what, costs] : network.known) {
    const ClusterJobKind& kind = (*kinds_)[at(what.kind)];
    const std::size_t count = std::min(costs.size(), kFittedClocks);
    for (std::size_t i = 0; i < count; ++i) {
      const auto& [speed, cost] =
          *std::next(costs.begin(), static_cast<std::ptrdiff_t>(count == 1 ? 0 : i * (costs.size() - 1) / (count - 1)));
      points.push_back({{kind.sizes[at(what.size)], what.nodes, kind.batch_size, kind.clocks[at(speed)]}, cost});
    }
  }
  return points;
}

// Adds guessed points for numbers of GPUs at which the network was not measured, from the nearest at which it was.
void CostBelief::add_guesses(std::vector<JobMeasurement>& points) const {
  std::set<int> seen;
  for (const JobMeasurement& point : points) seen.insert(point.configuration.gpus);
  const std::size_t measured = points.size();
  for (int gpus = 1; gpus <= std::min(kMostGuessed, spec_->gpus()); gpus *= 2) {
    if (seen.count(gpus) != 0) continue;
    const int nearest = *std::min_element(seen.begin(), seen.end(), [&](int a, int b) {
      return std::abs(std::log2(static_cast<double>(a) / gpus)) < std::abs(std::log2(static_cast<double>(b) / gpus));
    });
    for (std::size_t i = 0; i < measured; ++i) {
      JobMeasurement made = points[i];
      if (made.configuration.gpus != nearest || made.configuration.batch_size < gpus) continue;
      const Watts power = made.cost.power() * guessed_power_rise(nearest, gpus);
      made.configuration.gpus = gpus;
      made.configuration.nodes = packed_nodes(*spec_, gpus);
      made.cost.time = made.cost.time / guessed_speedup(*spec_, nearest, gpus);
      made.cost.energy = power * made.cost.time;
      made.weight = kGuessWeight;
      points.push_back(made);
    }
  }
}

void CostBelief::refit(Network& network) {
  const std::vector<JobMeasurement> measured = measurements(network);
  std::vector<JobMeasurement> points = measured;
  add_guesses(points);
  const auto error = [&](const JobModel& model) { return model_error(model, measured).time; };
  JobModel fitted = fit_job_model(points, spec_->voltage_break, network.fitted_to == 0 ? nullptr : &network.fitted);
  if (network.fitted_to > 0 && error(fitted) > kPoorFit) {
    const JobModel fresh = fit_job_model(points, spec_->voltage_break);
    if (error(fresh) < error(fitted)) fitted = fresh;
    ++fits_;
  }
  network.fitted = fitted;
  network.fitted_to = network.points;
  ++fits_;
}

void CostBelief::write_sheet(const Network& network, int kind, CostSheet& sheet) const {
  const int sizes = static_cast<int>((*kinds_)[at(kind)].sizes.size());
  for (int size = 0; size < sizes; ++size) write_size(network, kind, size, sheet);
}

void CostBelief::write_size(const Network& network, int kind_index, int size_index, CostSheet& sheet) const {
  const ClusterJobKind& kind = (*kinds_)[at(kind_index)];
  const std::size_t size = at(size_index);
  const int gpus = kind.sizes[size];
  const int nodes = packed_nodes(*spec_, gpus);
  for (std::size_t speed = 0; speed < kind.speeds; ++speed) {
    sheet.at(size, speed) =
        network.fitted_to > 0
            ? network.fitted.predict({gpus, nodes, kind.batch_size, kind.clocks[speed]})
            : guessed_cost(*spec_, gpus, kind.clocks[speed] / kind.clocks.back(), Seconds(0.5), spec_->p_max);
  }
  const auto known = network.known.find({kind_index, size_index, nodes});
  if (known == network.known.end()) return;
  double time = 0.0;
  double energy = 0.0;
  for (const auto& [speed, cost] : known->second) {
    time += std::log(cost.time / sheet.at(size, at(speed)).time);
    energy += std::log(cost.energy / sheet.at(size, at(speed)).energy);
  }
  const auto count = static_cast<double>(known->second.size());
  const double times = std::exp(time / count);
  const double energies = std::exp(energy / count);
  for (std::size_t speed = 0; speed < kind.speeds; ++speed) {
    IterationCost& cost = sheet.at(size, speed);
    cost.time = cost.time * times;
    cost.energy = cost.energy * energies;
  }
}

}  // namespace flyball
