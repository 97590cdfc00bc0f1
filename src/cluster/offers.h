// What a scheduler that pays for joules and GPUs chooses a job's size and speed from.
//
// Let a second of one job's time be worth 1, a joule cost `energy` of that, and a second of one GPU `gpu`. An iteration
// that takes T seconds and E joules on n GPUs then costs T (1 + gpu n) + energy E, and only speeds on the lower convex
// hull of the points (T, E) of a size can be the best one, whatever the prices.
//
// While costs are learned, a belief about a size that the kind has not been measured at may be far off, and a size that
// wrongly seems useless would never be tried. So a size is worth trying by what it may turn out to be, not only by what
// is believed of it (value_of_trying). Before anything of a network has been seen on several nodes, the belief about
// that is no guide at all: a kind is first offered sizes within a node, then up to kWidening times what its network was
// measured at.
#pragma once

#include <cstddef>
#include <vector>

#include "cluster/cluster_state.h"

namespace flyball {

struct Offer {
  int speed = 0;
  double time = 0.0;    // s, of an iteration
  double energy = 0.0;  // J, of an iteration
  double rate = 0.0;    // iterations per second
  double power = 0.0;   // W
  double watts = 0.0;   // what the limit counts
};

inline constexpr int kLeanest = -1;  // in place of an index in SizeOffers::speeds: SizeOffers::leanest

// The speeds of one size that can be the best, thriftiest first: falling times, rising energies.
struct SizeOffers {
  int gpus = 1;
  int size = 0;         // index in the kind's sizes
  double unsure = 0.0;  // standard deviation of the logarithm of the rates; 0: measured, or nothing of the kind is
  double reach = 1.0;  // of what it would have to be worth, the least that makes it worth trying: three deviations less
  std::vector<Offer> speeds;
  Offer leanest;  // of all speeds, on the hull or not: that may be the only one that the limit allows

  [[nodiscard]] const Offer& offer(int index) const {
    return index == kLeanest ? leanest : speeds[static_cast<std::size_t>(index)];
  }
};

struct Prices {
  double energy = 0.0;  // s per J
  double gpu = 0.0;     // s per GPU-second
};

// How far off a prediction is at twice or half the GPUs that a kind was measured at, and from one node to several: the
// standard deviation of the logarithm of the rate. Predictions on real step times are off by as much and more
// (docs/cluster-results.md, fitted models).
inline constexpr double kUnsure = 0.25;
inline constexpr double kUnsureApart = 0.35;
inline constexpr int kWidening = 4;

// Of the sizes that an elastic scheduler may choose (ClusterJobKind::elastic_sizes), rising. O(sizes * (kinds +
// speeds)).
[[nodiscard]] std::vector<SizeOffers> offers_of(const ClusterState& cluster, int kind);

// The least that an iteration costs at these prices.
[[nodiscard]] double least_cost(const std::vector<SizeOffers>& sizes, const Prices& prices);

// Of one size: the speed at which work that is worth `worth` per iteration leaves most per second, and what it leaves:
// (worth - energy E) / T - gpu n.
struct Gain {
  double value = 0.0;
  int offer = 0;  // index in SizeOffers::speeds
};
[[nodiscard]] Gain best_gain(const SizeOffers& size, double worth, const Prices& prices);

// What trying is worth where going on as before leaves `sure` per second: the mean of the greater of `sure` and
// (gross - cost), gross being uncertain: log-normal with that mean and `unsure` as the deviation of its logarithm (the
// formula of Black and Scholes for an option).
[[nodiscard]] double value_of_trying(double gross, double unsure, double cost, double sure);

}  // namespace flyball
