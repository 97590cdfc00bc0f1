// The relaxed frontier: the least net energy for every iteration time when computations may run at any point of their
// convex cost curves. No discrete plan takes less than this optimum, and its event times guide the rounding to clocks.
//
// Problem (Perseus eq. 5, relaxed): minimise sum_i c_i(t_i) subject to event times pi with pi(finish_i) - pi(start_i)
// >= t_i along the computation DAG and pi(end) <= T, for all T from T* (all at least cost) down to T_min (all fastest).
//
// Idea. This is the time-cost trade-off problem of Fulkerson and Kelley (1961); Phillips and Dessouky's minimum cuts
// with lower bounds (Perseus appendix D) are one step of its dual. The dual is a parametric maximum-cost flow, in which
// the flow on a computation is the price of its time in J/s. A curve with slopes s_1 > s_2 > ... (fastest piece first)
// is a bundle of parallel arcs, longest first, with capacities s_K, s_{K-1} - s_K, ..., and infinity at the fastest
// vertex. Sending flow along longest paths (successive longest paths, primal-dual) visits the frontier from T* to
// T_min. A round has two steps:
//   - Dijkstra's algorithm on slacks finds for every event v how much earlier it can be at the present price, d(v). At
//     iteration time T - delta the events are at pi(v) - min(d(v), delta). One round thus covers every cut of equal
//     price at once, however many unit steps, hull vertices or similar microbatches that includes.
//   - Flow is sent along the path to the end that this search has found. The flow of earlier rounds is kept.
// There are as many rounds as distinct prices, whatever the unit of time is.
//
// Numbers. Times are whole nanoseconds and prices whole multiples of a step, so that the search is exact integer
// arithmetic. Rounding a price never breaks the bound: it is evaluated with the measured costs as
// sum_i min_t (c_i(t) + x_i t) - F T for flows x_i that add up to F, which weak duality makes a lower bound for every
// flow. Slopes may be at most 1e9 W, which make_problem() checks.
//
// Up to 2,000 operations the step is so fine that the bound is the optimum. In larger pipelines the flow splits so
// often that prices are many and all but alike; there the step is coarse, price_step_of(), which saves rounds and costs
// little (docs/decisions/0055-coarse-prices-of-large-pipelines.md).
//
// Cost: O(nodes log nodes + edges) for each path along which flow is sent, which are about one per round for pipelines;
// docs/performance.md has counts. Memory: O(nodes + edges).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/units.h"
#include "pipeline/computation_dag.h"
#include "profile/cost_curve.h"

namespace flyball {

// Net energy (Perseus eq. 4) in J over iteration time in ns: convex and falling, one straight piece per price of time.
class BoundCurve {
 public:
  struct Piece {
    Nanoseconds from = 0;    // the piece reaches from `from` up to the next piece's `from`
    double intercept = 0.0;  // bound(T) = intercept - price * T
    double price = 0.0;      // J/ns
  };

  BoundCurve() = default;
  // Takes the pieces in falling order of time, as the solver finds them. The first one ends at `t_star`.
  BoundCurve(std::vector<Piece> pieces, Nanoseconds t_star);

  // Returns the least net energy, in J, of any plan, relaxed or discrete, that ends by `time` >= t_min(). Above
  // t_star() it is constant.
  [[nodiscard]] double at(Nanoseconds time) const;

  [[nodiscard]] Nanoseconds t_min() const { return pieces_.front().from; }
  [[nodiscard]] Nanoseconds t_star() const { return t_star_; }
  // Returns the time T at which bound + total_blocking * T is least (T_least_total of the relaxation).
  [[nodiscard]] Nanoseconds least_total(Watts total_blocking) const;
  [[nodiscard]] std::span<const Piece> pieces() const { return pieces_; }

 private:
  std::vector<Piece> pieces_;  // in rising order of time
  Nanoseconds t_star_ = 0;
};

class ParametricFlow;

// A part of the frontier with one price of time. Event times at any T in [t_low, t_high] are
//   start(i, T) = start[i] - min(start_shift[i], t_high - T),
// and finish(i, T) likewise. The spans refer to the solver's state and are valid only during the visit.
struct FrontierStretch {
  Nanoseconds t_high = 0;
  Nanoseconds t_low = 0;
  double price = 0.0;                                      // J/ns
  std::span<const Nanoseconds> start, finish;              // at t_high
  std::span<const Nanoseconds> start_shift, finish_shift;  // at most t_high - t_low
  const ParametricFlow* flow = nullptr;                    // whose price() is that of each operation
};

enum class RelaxationStatus {
  kOptimal,    // the whole frontier, T* to T_min
  kCancelled,  // the visitor said stop; the curve covers what was visited
};

struct RelaxationResult {
  RelaxationStatus status = RelaxationStatus::kOptimal;
  BoundCurve bound;
  std::int64_t rounds = 0;
};

// A function that is called for each stretch, from T* downwards, and returns false to stop the solver.
using StretchVisitor = std::function<bool(const FrontierStretch&)>;

// The step of prices that tells apart whatever was measured.
inline constexpr Watts kFinestPrice{0x1p-24};

// Returns the step of prices that solve_relaxation() takes by default: the finest one for up to 2,000 operations, and
// otherwise a share of what a second saves on the mean of the curves, which grows with the operations.
[[nodiscard]] Watts price_step_of(const ComputationDag& dag, std::span<const CostCurve> curves);

// Returns the step that is this share of what a second saves on the mean of the curves, or the finest one.
[[nodiscard]] Watts price_step_of_share(std::span<const CostCurve> curves, double share);

// Solves the relaxation and shows its stretches to `visit` on the way. `curves` holds one cost curve per operation type
// of the DAG; `price_step`, which is positive, is price_step_of() unless it is given. Deterministic.
[[nodiscard]] RelaxationResult solve_relaxation(const ComputationDag& dag, std::span<const CostCurve> curves,
                                                const StretchVisitor& visit,
                                                std::optional<Watts> price_step = std::nullopt);

// Returns the price of the time of each computation, in J/s, for each of `times`, which must fall. The prices are the
// flow of an optimum; where several flows are optimal, they are those of the one that the search finds. Below T_min
// they are those of T_min. Cost: that of solve_relaxation().
[[nodiscard]] std::vector<std::vector<double>> prices_at(const ComputationDag& dag, std::span<const CostCurve> curves,
                                                         std::span<const Nanoseconds> times);

}  // namespace flyball
