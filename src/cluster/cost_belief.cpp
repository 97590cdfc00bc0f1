#include "cluster/cost_belief.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace flyball {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Weight of a guessed point beside a measured one.
constexpr double kGuessWeight = 0.05;
// A network is fitted anew when its profiled sizes have grown by this factor.
constexpr double kGrowth = 1.3;
constexpr std::size_t kFittedClocks = 4;
// A refit that leaves a mean error of more than this began at a bad place, and is done again from the beginning.
constexpr double kPoorFit = 0.05;

// A GPU's clock against its time and power, roughly, for networks of which nothing is known: half of the computation
// waits for the SM clock, and power falls as V^2 f to two thirds.
IterationCost guessed_cost(const ClusterSpec& spec, int gpus, double clock_ratio, Seconds one_gpu, Watts one_power) {
  const double doublings = std::log2(gpus);
  const double slower = 0.5 + 0.5 / clock_ratio;
  const Seconds time = one_gpu * slower * std::pow(2.0 * kGuessedScaling, -doublings);
  const double draw = 0.5 + 0.5 * clock_ratio * clock_ratio * clock_ratio;
  const Watts power = (spec.idle + (one_power - spec.idle) * draw * std::pow(0.97, doublings)) * gpus;
  return {time, power * time};
}

}  // namespace

int packed_nodes(const ClusterSpec& spec, int gpus) { return (gpus + spec.gpus_per_node - 1) / spec.gpus_per_node; }

CostBelief::CostBelief(const ClusterSpec& spec, const std::vector<ClusterJobKind>& kinds,
                       std::vector<CostSheet>& believed)
    : spec_(&spec), kinds_(&kinds), network_of_(kinds.size()), measured_(kinds.size()) {
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    measured_[kind].resize(kinds[kind].sizes.size());
    if (!kinds[kind].elastic) continue;  // a pipeline's frontier is known
    auto network = std::find_if(networks_.begin(), networks_.end(),
                                [&](const Network& one) { return one.model == kinds[kind].model; });
    if (network == networks_.end()) {
      networks_.push_back({kinds[kind].model, {}, {}, {}, 0, {}});
      network = std::prev(networks_.end());
    }
    network_of_[kind] = static_cast<std::size_t>(network - networks_.begin());
    network->kinds.push_back(static_cast<int>(kind));
    write_sheet(*network, static_cast<int>(kind), believed[kind]);
  }
}

bool CostBelief::knows(const ProfiledSize& what) const {
  const std::vector<ProfiledSize>& known = networks_[network_of_[at(what.kind)]].known;
  return std::find(known.begin(), known.end(), what) != known.end();
}

std::vector<int> CostBelief::learn(const ProfiledSize& what, const std::vector<IterationCost>& measured,
                                   std::vector<CostSheet>& believed) {
  const ClusterJobKind& kind = (*kinds_)[at(what.kind)];
  Network& network = networks_[network_of_[at(what.kind)]];
  if (knows(what)) return {};
  network.known.push_back(what);
  // The models are smooth in the clock: a few of them say as much as all, and are fitted in a fraction of the time.
  const std::size_t stride = std::max<std::size_t>(1, (measured.size() - 1) / kFittedClocks);
  for (std::size_t speed = 0; speed < measured.size(); speed += stride) {
    network.measurements.push_back(
        {{kind.sizes[at(what.size)], what.nodes, kind.batch_size, kind.clocks[speed]}, measured[speed]});
  }
  if (what.nodes == packed_nodes(*spec_, kind.sizes[at(what.size)])) measured_[at(what.kind)][at(what.size)] = measured;
  if (static_cast<double>(network.known.size()) < kGrowth * static_cast<double>(network.fitted_to)) {
    write_sheet(network, what.kind, believed[at(what.kind)]);
    return {what.kind};
  }
  refit(network);
  for (const int each : network.kinds) write_sheet(network, each, believed[at(each)]);
  return network.kinds;
}

void CostBelief::refit(Network& network) {
  std::vector<JobMeasurement> points = network.measurements;
  // What was never seen is guessed from the largest size that was.
  int largest = 1;
  bool several_nodes = false;
  const JobMeasurement* base = nullptr;
  for (const JobMeasurement& point : network.measurements) {
    several_nodes = several_nodes || point.configuration.nodes > 1;
    if (base == nullptr || point.configuration.gpus > largest) base = &point;
    largest = std::max(largest, point.configuration.gpus);
  }
  const auto guess = [&](int gpus) {
    for (const JobMeasurement& point : network.measurements) {
      const JobConfiguration& seen = point.configuration;
      if (seen.gpus != base->configuration.gpus || seen.batch_size != base->configuration.batch_size) continue;
      const double doublings = std::log2(static_cast<double>(gpus) / seen.gpus);
      JobMeasurement made = point;
      made.configuration.gpus = gpus;
      made.configuration.nodes = packed_nodes(*spec_, gpus);
      made.cost.time = point.cost.time * std::pow(2.0 * kGuessedScaling, -doublings);
      made.cost.energy = point.cost.power() * std::pow(2.0 * 0.97, doublings) * made.cost.time;
      made.weight = kGuessWeight;
      points.push_back(made);
    }
  };
  if (largest < spec_->gpus_per_node) guess(spec_->gpus_per_node);
  if (!several_nodes && spec_->gpus() > spec_->gpus_per_node) {
    guess(2 * spec_->gpus_per_node);
    guess(4 * spec_->gpus_per_node);
  }
  const auto error = [&](const JobModel& model) { return model_error(model, network.measurements).time; };
  JobModel fitted = fit_job_model(points, spec_->voltage_break, network.fitted_to == 0 ? nullptr : &network.fitted);
  if (network.fitted_to > 0 && error(fitted) > kPoorFit) {
    const JobModel fresh = fit_job_model(points, spec_->voltage_break);
    if (error(fresh) < error(fitted)) fitted = fresh;
    ++fits_;
  }
  network.fitted = fitted;
  network.fitted_to = network.known.size();
  ++fits_;
}

void CostBelief::write_sheet(const Network& network, int kind_index, CostSheet& sheet) const {
  const ClusterJobKind& kind = (*kinds_)[at(kind_index)];
  for (std::size_t size = 0; size < kind.sizes.size(); ++size) {
    const int gpus = kind.sizes[size];
    for (std::size_t speed = 0; speed < kind.speeds; ++speed) {
      sheet.at(size, speed) =
          network.fitted_to > 0
              ? network.fitted.predict({gpus, packed_nodes(*spec_, gpus), kind.batch_size, kind.clocks[speed]})
              : guessed_cost(*spec_, gpus, kind.clocks[speed] / kind.clocks.back(), Seconds(0.5), spec_->p_max);
    }
    const std::vector<IterationCost>& known = measured_[at(kind_index)][size];
    if (known.empty()) continue;
    double time = 0.0;
    double energy = 0.0;
    for (std::size_t speed = 0; speed < kind.speeds; ++speed) {
      time += std::log(known[speed].time / sheet.at(size, speed).time);
      energy += std::log(known[speed].energy / sheet.at(size, speed).energy);
    }
    const auto count = static_cast<double>(kind.speeds);
    for (std::size_t speed = 0; speed < kind.speeds; ++speed) {
      IterationCost& cost = sheet.at(size, speed);
      cost.time = cost.time * std::exp(time / count);
      cost.energy = cost.energy * std::exp(energy / count);
    }
  }
}

}  // namespace flyball
