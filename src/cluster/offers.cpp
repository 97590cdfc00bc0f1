#include "cluster/offers.h"

#include <algorithm>
#include <limits>

namespace flyball {
namespace {

// Keeps the lower hull of speeds that come with rising energies.
void keep_hull(std::vector<Offer>& speeds) {
  std::sort(speeds.begin(), speeds.end(), [](const Offer& a, const Offer& b) {
    return a.energy != b.energy ? a.energy < b.energy : a.time < b.time;
  });
  std::size_t kept = 0;
  for (const Offer& next : speeds) {
    if (kept > 0 && next.time >= speeds[kept - 1].time) continue;
    while (kept >= 2) {
      const Offer& a = speeds[kept - 2];
      const Offer& b = speeds[kept - 1];
      // b stays where a joule buys more from a to b than from b on.
      if ((a.time - b.time) * (next.energy - b.energy) > (b.time - next.time) * (b.energy - a.energy)) break;
      --kept;
    }
    speeds[kept++] = next;
  }
  speeds.resize(kept);
}

}  // namespace

std::vector<SizeOffers> offers_of(const ClusterState& cluster, int kind) {
  const auto index = static_cast<std::size_t>(kind);
  const ClusterJobKind& given = cluster.kinds[index];
  std::vector<SizeOffers> sizes;
  for (const int gpus : given.elastic_sizes()) {
    SizeOffers one;
    one.gpus = gpus;
    one.size = given.size_index(gpus);
    const auto size = static_cast<std::size_t>(one.size);
    double sum = 0.0;
    for (std::size_t speed = 0; speed < given.speeds; ++speed) {
      const IterationCost& cost = cluster.believed[index].at(size, speed);
      const double watts = cluster.counted(kind, size, speed).value();
      one.speeds.push_back({static_cast<int>(speed), cost.time.value(), cost.energy.value(), 1.0 / cost.time.value(),
                            cost.power().value(), watts});
      sum += watts;
    }
    keep_hull(one.speeds);
    one.profile_watts = sum / static_cast<double>(given.speeds);
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
      if (cost >= before) break;  // on a hull costs fall, then rise
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
    if (value <= best.value) break;  // on a hull what is left rises, then falls
    best = {value, static_cast<int>(i)};
  }
  best.value -= prices.gpu * size.gpus;
  return best;
}

}  // namespace flyball
