// What jobs are counted with against the power limit: what the meters show, where a job has run at that size and speed,
// and what is believed elsewhere. While models are learned, beliefs are some per cent off, and a limit that is kept by
// belief alone is exceeded by as much.
//
// A size that no job of the kind has run at counts with the belief, within what its other sizes bound: with more GPUs
// the same batch draws no less, and each GPU no more. Only where nothing of the kind was metered is there a reserve on
// top, so that no reserve outlasts the first reading. Nor does it keep a job waiting where none runs, for then nothing
// would ever be metered: such a job may run where the belief is within the limit (ClusterState::unmetered).
//
// Costs that are compared with one another stay the smooth beliefs (cost_belief.h); only sums of power come from here.
#pragma once

#include <vector>

#include "cluster/cluster_state.h"

namespace flyball {

// What a job of a kind that has not run draws was up to 1.3 times the belief (on the shipped tables, while little is
// known of its network).
inline constexpr double kUnseenReserve = 0.3;

class PowerBook {
 public:
  // Counts with beliefs, and so much more (a share) for kinds of which nothing was metered yet. `state` must outlive
  // it.
  PowerBook(ClusterState& state, double reserve);

  // Jobs of the kind draw so much now at that size and speed. False: as before.
  bool meter(int kind, int size, int speed, Watts power);

  // Writes the kind's state.counted_power again, after beliefs or readings have changed: what was metered last, and
  // between that the belief, scaled as at the nearest metered speed of the size. O(sizes * speeds^2).
  void recount(int kind);

  // All that was metered, in order. For snapshots.
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
