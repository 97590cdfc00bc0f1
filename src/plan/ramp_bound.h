// A lower bound on the iteration time of plans whose power may change only so fast.
//
// An iteration has a trough where one ends and the next begins: pipelines fill and drain, and most stages wait. Next to
// it, windows may draw only a little more than the trough, yet the operations that must run there need power. Where
// these do not go together, an iteration must be longer, so that less has to be done there.
//
// Derivation, for one GPU on each stage and an iteration of time T, from its moment 0 on, repeated for ever. A(a, b) is
// the mean power from a to b, w the window, R the limit: A(t, t + w) - A(t - w, t) is between -R w and R w for all t.
//   1. Take any x and y with x + y = w. In the window from -y to x, a stage can run an operation only after the
//      earliest moment at which it can begin, or before the end of the iteration by at least the shortest time of all
//      that must follow it. At the highest powers of what can run, the window draws at most U.
//   2. The j-th window after it draws at most U + j R w, and the k windows from x to x + k w take at most
//      k w U + R w^2 k (k + 1) / 2 together; likewise the k windows before it.
//   3. Let work be time at the fastest options, of operations that have a choice; in t seconds a stage does at most t
//      of work. By t, it has done at most the work before any operation and the time since that one's earliest begin,
//      and at least the work up to any operation less the time until the latest end of that one, T less what must
//      follow. Windows from x to x + k w thus do the difference W of the least by x + k w and the most by x. Less must
//      be done, the longer T is.
//   4. Work W in time L takes at least W h(L / W) above the least power of the stage, where h is the convex lower hull
//      of energy per work over time per work of all options of the stage: Jensen's inequality.
// If 4 takes more than 2 allows, no iteration of that T keeps to the limit. It is compared for the windows before the
// trough, for those after it, and for both together, where the work that is put off can be put off but once. All
// iterations that take less, yet as long as these windows together (which must not overlap), do not keep to it either.
//
// It never says more than is true, and often nothing beyond the time of the fastest options: windows that are longer
// than a third of the iteration say nothing, nor do limits that fills and drains keep anyway.
#pragma once

#include <span>

#include "base/units.h"
#include "pipeline/computation_dag.h"

namespace flyball {

// Returns a time that every plan on this order of operations takes whose ramp_of() is at most `ramp_w_per_s`, with one
// GPU on every stage that waits at `blocking`: at least the time of the fastest options. Cost: up to some thousand
// passes over the operations.
[[nodiscard]] Seconds least_time_within_ramp(const ComputationDag& dag, std::span<const Watts> blocking,
                                             double ramp_w_per_s, Seconds window);

}  // namespace flyball
