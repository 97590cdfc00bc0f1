// The sizes and speeds that a scheduler which pays for joules and GPUs may give a job.
//
// Let a second of one job's time be worth 1, a joule cost `energy` and a second of one GPU cost `gpu` in this unit. An
// iteration that takes T seconds and E joules on n GPUs then costs T (1 + gpu n) + energy E. Whatever the prices, the
// best speed of a size lies on the lower convex hull of its points (T, E).
//
// While costs are learned, the belief about a size at which the kind was not measured may be far off, and a size that
// is wrongly believed useless would never be tried. Hence value_of_trying(): what a size may turn out to be counts, not
// only what is believed of it. Before anything of a network has been measured on several nodes, the belief about that
// says nothing. A kind is therefore first offered sizes within a node, then up to kWidening times those at which its
// network was measured.
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
  double watts = 0.0;   // what counts against the limit
};

inline constexpr int kLeanest = -1;  // as an index into SizeOffers::speeds: SizeOffers::leanest

// The speeds of one size that can be the best, thriftiest first: times fall, energies rise.
struct SizeOffers {
  int gpus = 1;
  int size = 0;         // index in the kind's sizes
  double unsure = 0.0;  // standard deviation of the logarithm of the rates; 0: measured, or no size of the kind is
  double reach = 1.0;   // the least share of its break-even value at which it is worth trying: three deviations less
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

// How far off a prediction is at twice or half the GPUs at which a kind was measured, and between one node and several:
// standard deviations of the logarithm of the rate. Predictions of real step times are off by as much and more
// (docs/cluster-results.md, fitted models).
inline constexpr double kUnsure = 0.25;
inline constexpr double kUnsureApart = 0.35;
inline constexpr int kWidening = 4;

// The offers of the sizes that an elastic scheduler may choose (ClusterJobKind::elastic_sizes), by rising size. Cost:
// O(sizes * (kinds + speeds)).
[[nodiscard]] std::vector<SizeOffers> offers_of(const ClusterState& cluster, int kind);

// The least that an iteration costs at these prices, over all sizes and speeds.
[[nodiscard]] double least_cost(const std::vector<SizeOffers>& sizes, const Prices& prices);

// For one size: the speed at which work that is worth `worth` per iteration gains most per second, and that gain,
// (worth - energy E) / T - gpu n.
struct Gain {
  double value = 0.0;
  int offer = 0;  // index into SizeOffers::speeds
};
[[nodiscard]] Gain best_gain(const SizeOffers& size, double worth, const Prices& prices);

// What it is worth to try a size if going on as before gains `sure` per second: the mean of the greater of `sure` and
// (gross - cost). gross is uncertain: log-normal with this mean, and `unsure` as the deviation of its logarithm (Black
// and Scholes' formula for an option).
[[nodiscard]] double value_of_trying(double gross, double unsure, double cost, double sure);

}  // namespace flyball
