// The power with which jobs count against the power limit: what the meters showed, where a job has run at that size and
// speed, and what is believed elsewhere. While models are learned, beliefs are some per cent off, and a limit that is
// kept by beliefs alone is exceeded by as much.
//
// A size at which no job of the kind has run counts with the belief, within the bounds that the kind's other sizes
// give: with more GPUs the same batch draws no less in all, and each GPU draws no more. A reserve is added only for
// kinds of which nothing was metered, so that it ends with the first reading. It must not keep a job waiting when no
// job runs, since then nothing would ever be metered: such a job may run if the belief is within the limit
// (ClusterState::unmetered).
//
// Only sums of power come from here. Costs that are compared with one another remain the smooth beliefs
// (cost_belief.h).
#pragma once

#include <vector>

#include "cluster/cluster_state.h"

namespace flyball {

// A job of an unmetered kind drew up to 1.3 times what was believed (on the shipped tables, while little is known of
// its network).
inline constexpr double kUnseenReserve = 0.3;

class PowerBook {
 public:
  // Kinds of which nothing was metered count with beliefs and `reserve`, a share, on top. `state` must outlive it.
  PowerBook(ClusterState& state, double reserve);

  // Notes that jobs of the kind now draw this power at that size and speed. Returns false if that is what was noted
  // before.
  bool meter(int kind, int size, int speed, Watts power);

  // Computes the kind's state.counted_power again, after beliefs or readings have changed: the last reading or, between
  // readings, the belief scaled as at the nearest metered speed of the size. Cost: O(sizes * speeds^2).
  void recount(int kind);

  // All readings, in order, for snapshots.
  struct Place {
    int kind = 0;
    int size = 0;
    int speed = 0;
    Watts power;
  };
  [[nodiscard]] std::vector<Place> metered() const;

 private:
  bool count_metered(int kind, std::size_t size);

  ClusterState* state_;
  double reserve_;
  std::vector<std::vector<Watts>> metered_;  // by kind, then as CostSheet; 0: not metered
};

}  // namespace flyball
