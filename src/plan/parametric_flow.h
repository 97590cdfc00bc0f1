// The parametric flow that solves the relaxation; relaxation.h explains it. Internal to plan/: use solve_relaxation().
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/index.h"
#include "base/units.h"
#include "pipeline/computation_dag.h"
#include "plan/radix_heap.h"
#include "plan/relaxation.h"
#include "profile/cost_curve.h"

namespace flyball {

using Price = std::int64_t;  // price of time, in multiples of the flow's unit

inline constexpr Price kUnlimited = std::numeric_limits<Price>::max() / 4;
inline constexpr Nanoseconds kFar = std::numeric_limits<Nanoseconds>::max() / 4;

// A cost curve as the flow uses it. Vertex k (0 = fastest) takes time[k]. A flow x on the computation makes vertex k
// the best while slope[k + 1] <= x < slope[k]. slope[0] is unlimited, and with K the slowest vertex, slope[K + 1] = 0.
// No slope in between rounds to nothing, so that the fastest and the slowest vertex are those of the curve.
struct PricedCurve {
  struct Vertex {
    double time, net, slope;  // ns, J, J/ns towards the next faster vertex
  };
  std::vector<Nanoseconds> time;
  std::vector<Price> slope;
  std::vector<Vertex> measured;  // all vertices, also those that rounded prices do not tell apart

  PricedCurve(const CostCurve& curve, double price_unit);

  [[nodiscard]] std::size_t slowest() const { return time.size() - 1; }

  // The minimum over all measured vertices of net + x * time, x in J/ns.
  [[nodiscard]] double least(double x) const;
};

// Takes lines that bound the energy below, each steeper than the one before, and returns the pieces of the highest of
// them from `t_star` down to the last one's `from`.
[[nodiscard]] std::vector<BoundCurve::Piece> highest_lines(const std::vector<BoundCurve::Piece>& lines,
                                                           Nanoseconds t_star);

// Finds the parametric flow of a DAG. Events are numbered 2 i (start of operation i) and 2 i + 1 (its finish), then
// source and sink. Not thread-safe. The DAG must outlive this object.
class ParametricFlow {
 public:
  // Prices are multiples of `price_unit`, in J/s.
  ParametricFlow(const ComputationDag& dag, std::span<const CostCurve> curves, double price_unit);

  // Goes from T* to T_min and calls `visit` for each stretch. May be called only once.
  RelaxationResult run(const StretchVisitor& visit);

  // The present flow on a computation, which is the price of its time, in J/s.
  [[nodiscard]] double price(int computation) const { return static_cast<double>(work_[at(computation)].flow) * unit_; }

 private:
  // The arc of a computation: its vertex (level) and flow, with slope[level + 1] <= flow < slope[level].
  struct Work {
    const PricedCurve* curve;
    std::int32_t level;
    Price flow;
  };
  // The arc of a precedence: unlimited capacity, no length.
  struct Link {
    std::int32_t from, to;  // events
    Price flow;
  };
  // An end of a link, as the event at the other end lists it.
  struct Arc {
    std::int32_t event, link;
  };
  // The last arc of a shortest path to an event.
  struct Step {
    std::int32_t from, link;
  };

  static constexpr std::int32_t kOwnArc = -1;  // in place of a link's number: the computation's own arc

  void add_links();
  void place_events();
  bool augment();
  void find_distances();
  void push(std::int32_t from, std::int32_t link_index, Price amount);
  bool visit_stretch(const StretchVisitor& visit, Nanoseconds t_high, Nanoseconds t_low);
  [[nodiscard]] double intercept();
  [[nodiscard]] double price_of_time() const { return static_cast<double>(total_) * unit_ * 1e-9; }  // J/ns
  [[nodiscard]] std::span<const Arc> links_out(std::int32_t v) const {
    return {out_.data() + out_begin_[at(v)], out_.data() + out_begin_[at(v) + 1]};
  }
  [[nodiscard]] std::span<const Arc> links_in(std::int32_t v) const {
    return {in_.data() + in_begin_[at(v)], in_.data() + in_begin_[at(v) + 1]};
  }
  // The slack from `v` along the operation's own arc until the arc's flow can change; kFar if it cannot.
  [[nodiscard]] Nanoseconds own_slack(std::int32_t v) const;
  [[nodiscard]] Price capacity(const Step& step) const;

  const ComputationDag* dag_;
  double unit_;                      // J/s
  std::vector<PricedCurve> curves_;  // per operation type
  std::int32_t source_ = 0, sink_ = 0;
  std::vector<Work> work_;
  std::vector<Link> links_;
  std::vector<std::int32_t> out_begin_, in_begin_;
  std::vector<Arc> out_, in_;  // links by the event they leave, and by the one they enter
  std::vector<Nanoseconds> event_;
  Price total_ = 0;
  // By operation: min_t (c_i(t) + x_i t), in J; recomputed for the operations whose flow has changed since.
  std::vector<double> least_;
  std::vector<std::int32_t> stale_;
  std::vector<char> is_stale_;
  // Scratch space.
  std::vector<Nanoseconds> distance_;
  std::vector<Step> step_;  // by event: the last arc of the path that its distance measures
  RadixHeap<std::int32_t> heap_;
  std::vector<std::int32_t> stack_;
  std::vector<Nanoseconds> start_, finish_, start_shift_, finish_shift_;
};

}  // namespace flyball
