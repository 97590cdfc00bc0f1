// Reduces each size's speeds to a convex hull, on which the best speed at given prices is found by going along it.
#include "cluster/offers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "base/lower_hull.h"

namespace flyball {
namespace {

// Returns the lower hull of the speeds, with rising energies: each joule buys less time than the one before.
std::vector<Offer> hull_of(std::vector<Offer> speeds) {
  std::sort(speeds.begin(), speeds.end(), [](const Offer& a, const Offer& b) {
    return a.energy != b.energy ? a.energy < b.energy : a.time < b.time;
  });
  const auto slope = [](const Offer& a, const Offer& b) { return (b.time - a.time) / (b.energy - a.energy); };
  std::vector<Offer> hull;
  for (const Offer& next : speeds) {
    if (hull.empty() || next.time < hull.back().time) push_lower_hull(hull, next, slope);
  }
  return hull;
}

// Calls `each` for the sizes at which a kind was measured, as far as the mask has bits for them.
template <class Each>
void for_each_measured(const ClusterState& cluster, std::size_t kind, Each each) {
  const std::vector<int>& sizes = cluster.kinds[kind].sizes;
  for (std::size_t size = 0; size < std::min<std::size_t>(64, sizes.size()); ++size) {
    if ((cluster.measured_sizes[kind] >> size & 1) != 0) each(sizes[size]);
  }
}

double unsure_of(const ClusterState& cluster, std::size_t kind, int gpus) {
  double least = std::numeric_limits<double>::infinity();
  for_each_measured(cluster, kind, [&](int measured) {
    const auto [few, many] = std::minmax(gpus, measured);
    double variance = kUnsure * kUnsure * std::log2(static_cast<double>(many) / few);
    if (few <= cluster.spec.gpus_per_node && many > cluster.spec.gpus_per_node) {
      variance += kUnsureApart * kUnsureApart - kUnsure * kUnsure;
    }
    least = std::min(least, variance);
  });
  return std::isfinite(least) ? std::sqrt(least) : 0.0;
}

int most_offered(const ClusterState& cluster, std::size_t kind) {
  int most = cluster.spec.gpus_per_node;
  for (std::size_t other = 0; other < cluster.kinds.size(); ++other) {
    if (cluster.kinds[other].model != cluster.kinds[kind].model) continue;
    for_each_measured(cluster, other, [&](int measured) { most = std::max(most, kWidening * measured); });
  }
  return most;
}

}  // namespace

std::vector<SizeOffers> offers_of(const ClusterState& cluster, int kind) {
  const auto index = static_cast<std::size_t>(kind);
  const ClusterJobKind& given = cluster.kinds[index];
  const bool learned = given.elastic && !cluster.measured_sizes.empty();
  // The fewest GPUs are always offered.
  const int most =
      learned ? std::max(given.elastic_sizes().front(), most_offered(cluster, index)) : std::numeric_limits<int>::max();
  std::vector<SizeOffers> sizes;
  for (const int gpus : given.elastic_sizes()) {
    if (gpus > most) break;
    SizeOffers one;
    one.gpus = gpus;
    one.size = given.size_index(gpus);
    const auto size = static_cast<std::size_t>(one.size);
    if (learned) one.unsure = unsure_of(cluster, index, gpus);
    one.reach = std::exp(-3.0 * one.unsure);
    for (std::size_t speed = 0; speed < given.speeds; ++speed) {
      const IterationCost& cost = cluster.believed[index].at(size, speed);
      const double watts = cluster.counted(kind, size, speed).value();
      one.speeds.push_back({static_cast<int>(speed), cost.time.value(), cost.energy.value(), 1.0 / cost.time.value(),
                            cost.power().value(), watts});
    }
    one.leanest = *std::min_element(one.speeds.begin(), one.speeds.end(),
                                    [](const Offer& a, const Offer& b) { return a.watts < b.watts; });
    one.speeds = hull_of(std::move(one.speeds));
    sizes.push_back(std::move(one));
  }
  return sizes;
}

double least_cost(const std::vector<SizeOffers>& sizes, const Prices& prices) {
  double least = std::numeric_limits<double>::infinity();
  for (const SizeOffers& size : sizes) {
    const double second = 1.0 + prices.gpu * size.gpus;
    double before = std::numeric_limits<double>::infinity();
    for (const Offer& offer : size.speeds) {
      const double cost = offer.time * second + offer.energy * prices.energy;
      if (cost >= before) break;  // on a hull costs first fall, then rise
      before = cost;
    }
    least = std::min(least, before);
  }
  return least;
}

Gain best_gain(const SizeOffers& size, double worth, const Prices& prices) {
  Gain best{-std::numeric_limits<double>::infinity(), 0};
  for (std::size_t i = 0; i < size.speeds.size(); ++i) {
    const Offer& offer = size.speeds[i];
    const double value = worth * offer.rate - prices.energy * offer.power;
    if (value <= best.value) break;  // on a hull gains first rise, then fall
    best = {value, static_cast<int>(i)};
  }
  best.value -= prices.gpu * size.gpus;
  return best;
}

double value_of_trying(double gross, double unsure, double cost, double sure) {
  const double strike = cost + sure;
  if (strike <= 0.0) return gross - cost;  // never less than `sure`
  const double d = std::log(gross / strike) / unsure;
  const auto normal = [](double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); };
  return sure + gross * normal(d + 0.5 * unsure) - strike * normal(d - 0.5 * unsure);
}

}  // namespace flyball
