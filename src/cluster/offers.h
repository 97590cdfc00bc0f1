// What a scheduler that pays for joules and GPUs chooses a job's size and speed from.
//
// Let a second of one job's time be worth 1, a joule cost `energy` of that, and a second of one GPU `gpu`. An iteration
// that takes T seconds and E joules on n GPUs then costs T (1 + gpu n) + energy E, and only speeds on the lower convex hull
// of the points (T, E) of a size can be the best one, whatever the prices.
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

// The speeds of one size that can be the best, thriftiest first: falling times, rising energies.
struct SizeOffers {
  int gpus = 1;
  int size = 0;  // index in the kind's sizes
  std::vector<Offer> speeds;
  double profile_watts = 0.0;  // while all speeds are gone through
};

struct Prices {
  double energy = 0.0;  // s per J
  double gpu = 0.0;     // s per GPU-second
};

// Of the sizes that an elastic scheduler may choose (ClusterJobKind::elastic_sizes), rising. O(sizes * speeds).
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

}  // namespace flyball
