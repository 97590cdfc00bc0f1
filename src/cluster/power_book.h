// The power with which jobs count against the power limit. It is the power that the meters showed where a job of the
// kind has run at that size and speed, and the believed power elsewhere. While models are learned, beliefs are some per
// cent off, and a limit that is kept by beliefs alone would be exceeded by as much.
//
// A size at which no job of the kind has run counts with the belief, within the bounds that the kind's other sizes
// give: with more GPUs the same batch draws no less in all, and each GPU draws no more. A reserve is added only for
// kinds of which nothing was metered, and so ends with their first reading. The reserve must not keep a job waiting
// when no other job runs, since nothing would then ever be metered: such a job may run if the belief is within the
// limit (ClusterState::unmetered).
//
// These powers serve only to add up the jobs' power. Costs that are compared with one another remain the smooth beliefs
// (cost_belief.h).
#pragma once

#include <vector>

#include "cluster/cluster_state.h"

namespace flyball {

// The reserve, as a share of the belief. On the shipped tables a job of an unmetered kind drew up to 1.3 times what was
// believed while little was known of its network.
inline constexpr double kUnseenReserve = 0.3;

// Not thread-safe.
class PowerBook {
 public:
  // Of no kind yet. Kinds of which nothing was metered count with the belief plus the share `reserve` of it. `state`
  // must outlive this object, which writes counted_power and unmetered.
  PowerBook(ClusterState& state, double reserve) : state_(&state), reserve_(reserve) {}

  // Must be called once for each kind, in their order, when its costs are believed.
  void add_kind(int kind);

  // Notes that jobs of the kind now draw this power at that size and speed. Returns false if the same was noted before.
  bool meter(int kind, int size, int speed, Watts power);

  // Computes the kind's counted_power again, after beliefs or readings have changed. It is the last reading or, at
  // speeds without one, the belief scaled as at the nearest metered speed of the size. Cost: O(sizes * speeds).
  void recount(int kind);

 private:
  bool count_metered(int kind, std::size_t size);

  ClusterState* state_;
  double reserve_;
  std::vector<std::vector<Watts>> metered_;  // by kind, then as CostSheet; 0: not metered
};

}  // namespace flyball
