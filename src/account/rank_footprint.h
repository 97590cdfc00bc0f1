// The footprint of a job of several ranks: sums over the ranks, how far they differ, and what each of them took.
#pragma once

#include <span>

#include "account/footprint.h"

namespace flyball {

// Adds up the footprints of a job's nodes, the rows of which are of single ranks.
//
// The result's rows are sums over ranks, by name, phase and kind of device ("GPU", "CPU"). Their deviation is the
// sample standard deviation of the ranks' own energies, of which a rank that lacks the row has 0 J. With several nodes,
// devices are called "n0/GPU:0", "n1/GPU:0". Each rank's share has the energy of its operations, and the idle energy of
// the devices that no other rank used. Joules are conserved: the result's measured, attributed, idle and outside are
// the sums of those given.
[[nodiscard]] Footprint sum_of_ranks(std::span<const Footprint> nodes);

// Returns the index in `ranks` of the rank that computed for the longest time; that of the first if there are several.
[[nodiscard]] std::size_t slowest_rank(std::span<const RankShare> ranks);

}  // namespace flyball
