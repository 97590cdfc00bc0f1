// The sizes and speeds that a scheduler which pays for joules and GPUs may give a job.
//
// Costs are counted in seconds of one job's time. In this unit a joule costs `energy` and a second of one GPU costs
// `gpu`. An iteration that takes T seconds and E joules on n GPUs then costs T (1 + gpu n) + energy E. Whatever the
// prices, the best speed of a size lies on the lower convex hull of its points (T, E).
//
// While costs are learned, the belief about a size at which the kind was not measured may be far off, and a size that
// is wrongly believed useless would never be tried. value_of_trying() therefore counts how good a size may turn out to
// be, not only how good it is believed to be. Before a network has been measured on several nodes, the belief about
// several nodes is worth nothing. A kind is therefore first offered sizes within a node, then sizes of up to kWidening
// times the GPUs at which its network was measured.
#pragma once

#include <cstddef>
#include <vector>

#include "cluster/cluster_state.h"

namespace flyball {

// One speed of a size, with what is believed of it.
struct Offer {
  int speed = 0;
  double time = 0.0;    // s, of an iteration
  double energy = 0.0;  // J, of an iteration
  double rate = 0.0;    // iterations per second
  double power = 0.0;   // W
  double watts = 0.0;   // the power that counts against the limit (power_book.h)
};

inline constexpr int kLeanest = -1;  // stands for SizeOffers::leanest in place of an index into SizeOffers::speeds

// The speeds of one size that can be the best, thriftiest first: times fall, energies rise.
struct SizeOffers {
  int gpus = 1;
  int size = 0;         // index in the kind's sizes
  double unsure = 0.0;  // standard deviation of the logarithm of the rates; 0: measured, or no size of the kind is
  double reach = 1.0;   // the size is worth trying from this share of its break-even value: three deviations below it
  std::vector<Offer> speeds;
  Offer leanest;  // the speed of least power, on the hull or not; it may be the only one that the limit allows

  [[nodiscard]] const Offer& offer(int index) const {
    return index == kLeanest ? leanest : speeds[static_cast<std::size_t>(index)];
  }
};

struct Prices {
  double energy = 0.0;  // s per J
  double gpu = 0.0;     // s per GPU-second
};

// How far off a prediction is at twice or half the GPUs at which a kind was measured (kUnsure), and between one node
// and several (kUnsureApart): standard deviations of the logarithm of the rate. Predictions of real step times are off
// by as much and more (docs/cluster-results.md, fitted models).
inline constexpr double kUnsure = 0.25;
inline constexpr double kUnsureApart = 0.35;
inline constexpr int kWidening = 4;

// Returns the offers of the sizes that an elastic scheduler may choose (ClusterJobKind::elastic_sizes), by rising size.
// Cost: O(sizes * (kinds + speeds)).
[[nodiscard]] std::vector<SizeOffers> offers_of(const ClusterState& cluster, int kind);

// Returns the least that an iteration costs at these prices, over all sizes and speeds.
[[nodiscard]] double least_cost(const std::vector<SizeOffers>& sizes, const Prices& prices);

// What a job gains per second at one speed of a size.
struct Gain {
  double value = 0.0;
  int offer = 0;  // index into SizeOffers::speeds
};
// Returns the gain at the speed of the size at which a job gains most per second, (worth - energy E) / T - gpu n, where
// `worth` is the worth of an iteration.
[[nodiscard]] Gain best_gain(const SizeOffers& size, double worth, const Prices& prices);

// Returns what it is worth to try a size if going on as before gains `sure` per second: the mean of the greater of
// `sure` and a gain less `cost`. The gain is uncertain: log-normal with mean `gross`, and with `unsure` as the standard
// deviation of its logarithm (Black and Scholes' formula for an option).
[[nodiscard]] double value_of_trying(double gross, double unsure, double cost, double sure);

}  // namespace flyball
