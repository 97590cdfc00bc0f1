#include "plan/parametric_flow.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace flyball {

PricedCurve::PricedCurve(const CostCurve& curve) {
  slope.push_back(kUnlimited);
  for (const CurveVertex& vertex : curve) {
    if (!time.empty()) {
      const double per_second = (net.back() - vertex.net_joules) / static_cast<double>(vertex.time - time.back()) * 1e9;
      const auto price = static_cast<Price>(std::llround(per_second / kPriceUnit));
      // Slopes that round to the same price (or to none) leave no arc between them. A vertex that is so left out may be
      // cheaper than its neighbours by a price unit over the curve's length at most.
      if (price <= 0 || price >= slope.back()) allowance = kPriceUnit * to_seconds(curve.back().time).value();
      if (price <= 0) break;
      if (price >= slope.back()) {
        time.back() = vertex.time;
        net.back() = vertex.net_joules;
        continue;
      }
      slope.push_back(price);
    }
    time.push_back(vertex.time);
    net.push_back(vertex.net_joules);
  }
  slope.push_back(0);
}

double PricedCurve::least(std::size_t k, double x) const {
  double best = net[k] + x * static_cast<double>(time[k]);
  if (k > 0) best = std::min(best, net[k - 1] + x * static_cast<double>(time[k - 1]));
  if (k < slowest()) best = std::min(best, net[k + 1] + x * static_cast<double>(time[k + 1]));
  return best - allowance;
}

ParametricFlow::ParametricFlow(const ComputationDag& dag, std::span<const CostCurve> curves) : dag_(&dag) {
  const std::size_t n = index(dag.size());
  for (const CostCurve& curve : curves) curves_.emplace_back(curve);
  source_ = static_cast<std::int32_t>(2 * n);
  sink_ = source_ + 1;
  for (int i = 0; i < dag.size(); ++i) {
    work_.push_back({dag[i].type, static_cast<std::int32_t>(curves_[index(dag[i].type)].slowest()), 0});
  }
  add_links();
  place_events();
  distance_.assign(2 * n + 2, 0);
  visited_.assign(2 * n + 2, 0);
  next_arc_.assign(2 * n + 2, 0);
}

void ParametricFlow::add_links() {
  for (int i = 0; i < dag_->size(); ++i) {
    if (dag_->predecessors(i).empty()) links_.push_back({source_, 2 * i, 0});
    for (const std::int32_t s : dag_->successors(i)) links_.push_back({2 * i + 1, 2 * s, 0});
    if (dag_->successors(i).empty()) links_.push_back({2 * i + 1, sink_, 0});
  }
  const std::size_t events = index(sink_) + 1;
  out_begin_.assign(events + 1, 0);
  in_begin_.assign(events + 1, 0);
  for (const Link& link : links_) {
    ++out_begin_[index(link.from) + 1];
    ++in_begin_[index(link.to) + 1];
  }
  for (std::size_t v = 0; v < events; ++v) {
    out_begin_[v + 1] += out_begin_[v];
    in_begin_[v + 1] += in_begin_[v];
  }
  std::vector<std::int32_t> out_next(out_begin_.begin(), out_begin_.end() - 1);
  std::vector<std::int32_t> in_next(in_begin_.begin(), in_begin_.end() - 1);
  out_.resize(links_.size());
  in_.resize(links_.size());
  for (std::size_t e = 0; e < links_.size(); ++e) {
    out_[index(out_next[index(links_[e].from)]++)] = static_cast<std::int32_t>(e);
    in_[index(in_next[index(links_[e].to)]++)] = static_cast<std::int32_t>(e);
  }
}

// Earliest times with every operation at its cheapest.
void ParametricFlow::place_events() {
  event_.assign(index(sink_) + 1, 0);
  for (int i = 0; i < dag_->size(); ++i) {
    Nanoseconds start = 0;
    for (const std::int32_t p : dag_->predecessors(i)) start = std::max(start, event_[index(2 * p + 1)]);
    event_[index(2 * i)] = start;
    event_[index(2 * i + 1)] = start + curves_[index(work_[index(i)].curve)].time.back();
    event_[index(sink_)] = std::max(event_[index(sink_)], event_[index(2 * i + 1)]);
  }
}

RelaxationResult ParametricFlow::run(const StretchVisitor& visit) {
  RelaxationResult result;
  std::vector<BoundCurve::Piece> pieces;
  const Nanoseconds t_star = event_[index(sink_)];
  // At first, and after every shift, some path to the sink is free of slack. Send what fits along such paths until the
  // sink is out of reach; a path of unlimited capacity is all at its fastest: T_min.
  while (augment()) {
    find_distances();
    if (distance_[index(sink_)] == 0) continue;
    ++result.rounds;
    const Nanoseconds t_high = event_[index(sink_)];
    const Nanoseconds shift = distance_[index(sink_)];
    assert(shift > 0 && shift < kFar);
    for (Nanoseconds& d : distance_) d = std::min(d, shift);
    pieces.push_back({t_high - shift, intercept(), static_cast<double>(total_) * kPriceUnit * 1e-9});
    if (!visit_stretch(visit, t_high, t_high - shift)) {
      result.status = RelaxationStatus::kCancelled;
      break;
    }
    for (std::size_t v = 0; v < event_.size(); ++v) event_[v] -= distance_[v];
  }
  if (pieces.empty()) pieces.push_back({t_star, intercept(), static_cast<double>(total_) * kPriceUnit * 1e-9});
  result.bound = BoundCurve(std::move(pieces), t_star);
  return result;
}

// Calls arc(to, slack, capacity, link, next) for each residual arc out of an event, from the `first`th on, where `next` is
// the number to resume from. Stops when arc returns true.
template <class Visit>
bool ParametricFlow::for_each_arc(std::int32_t v, std::int32_t first, Visit arc) const {
  const Nanoseconds here = event_[index(v)];
  // Arcs are numbered: the computation's own, then the links out, then the links in. Resuming must not cost a walk over
  // those already seen, since an event may have many.
  const std::int32_t own = v < source_ ? 1 : 0;
  if (first < own) {
    const Work& work = work_[index(v >> 1)];
    const PricedCurve& curve = curves_[index(work.curve)];
    const std::size_t k = index(work.level);
    const std::int32_t other = v ^ 1;
    const Nanoseconds apart = event_[index(other)] - here;
    if ((v & 1) == 0) {
      if (arc(other, apart - curve.time[k], curve.slope[k] - work.flow, kOwnArc, 1)) return true;
    } else if (work.flow > curve.slope[k + 1]) {
      if (arc(other, apart + curve.time[k], work.flow - curve.slope[k + 1], kOwnArc, 1)) return true;
    } else if (k < curve.slowest()) {
      if (arc(other, apart + curve.time[k + 1], curve.slope[k + 1] - curve.slope[k + 2], kOwnArc, 1)) return true;
    }
  }
  const std::int32_t out_end = out_begin_[index(v) + 1];
  for (std::int32_t e = out_begin_[index(v)] + std::max(0, first - own); e < out_end; ++e) {
    const Link& link = links_[index(out_[index(e)])];
    const std::int32_t next = own + e + 1 - out_begin_[index(v)];
    if (arc(link.to, event_[index(link.to)] - here, kUnlimited, out_[index(e)], next)) return true;
  }
  const std::int32_t before = own + out_end - out_begin_[index(v)];
  const std::int32_t in_end = in_begin_[index(v) + 1];
  for (std::int32_t e = in_begin_[index(v)] + std::max(0, first - before); e < in_end; ++e) {
    const Link& link = links_[index(in_[index(e)])];
    const std::int32_t next = before + e + 1 - in_begin_[index(v)];
    if (link.flow > 0 && arc(link.from, event_[index(link.from)] - here, link.flow, in_[index(e)], next)) return true;
  }
  return false;
}

void ParametricFlow::push(std::int32_t from, std::int32_t link_index, Price amount) {
  if (link_index >= 0) {
    Link& link = links_[index(link_index)];
    link.flow += link.from == from ? amount : -amount;
    return;
  }
  Work& work = work_[index(from >> 1)];
  const PricedCurve& curve = curves_[index(work.curve)];
  if ((from & 1) == 0) {
    work.flow += amount;
    if (work.flow >= curve.slope[index(work.level)]) --work.level;
  } else {
    if (work.flow == curve.slope[index(work.level) + 1]) ++work.level;
    work.flow -= amount;
  }
}

// One depth-first search along slack-free arcs, in which an event that led nowhere is not entered again. False when it
// found a path of unlimited capacity.
bool ParametricFlow::augment() {
  ++visit_mark_;
  path_.clear();
  std::int32_t v = source_;
  visited_[index(v)] = visit_mark_;
  next_arc_[index(v)] = 0;
  while (true) {
    if (v == sink_) {
      Price amount = kUnlimited;
      for (const PathStep& step : path_) amount = std::min(amount, step.capacity);
      if (amount >= kUnlimited / 2) return false;
      for (const PathStep& step : path_) push(step.from, step.link, amount);
      total_ += amount;
      // Falls back to just before the first arc that is now full; what lies behind it may be entered again.
      std::size_t keep = 0;
      while (path_[keep].capacity > amount) path_[keep++].capacity -= amount;
      for (std::size_t k = keep + 1; k < path_.size(); ++k) visited_[index(path_[k].from)] = 0;
      visited_[index(sink_)] = 0;
      v = path_[keep].from;
      path_.resize(keep);
      continue;
    }
    PathStep step{v, 0, 0};
    std::int32_t to = -1;
    const auto take_first_open = [&](std::int32_t w, Nanoseconds slack, Price capacity, std::int32_t link,
                                     std::int32_t position) {
      if (slack != 0 || visited_[index(w)] == visit_mark_) return false;
      step.link = link;
      step.capacity = capacity;
      to = w;
      next_arc_[index(v)] = position;
      return true;
    };
    if (for_each_arc(v, next_arc_[index(v)], take_first_open)) {
      path_.push_back(step);
      v = to;
      visited_[index(v)] = visit_mark_;
      next_arc_[index(v)] = 0;
      continue;
    }
    if (path_.empty()) return true;
    v = path_.back().from;
    path_.pop_back();
  }
}

// Dijkstra over slacks from the source. Stops at the sink; events not settled by then hold at least its distance.
void ParametricFlow::find_distances() {
  std::fill(distance_.begin(), distance_.end(), kFar);
  heap_.clear();
  stack_.clear();
  distance_[index(source_)] = 0;
  stack_.push_back(source_);
  Nanoseconds reach = 0;
  while (true) {
    while (!stack_.empty()) {
      const std::int32_t v = stack_.back();
      stack_.pop_back();
      for_each_arc(v, 0, [&](std::int32_t w, Nanoseconds slack, Price, std::int32_t, std::int32_t) {
        const Nanoseconds d = reach + slack;
        if (d >= distance_[index(w)]) return false;
        distance_[index(w)] = d;
        if (slack == 0) {
          stack_.push_back(w);
        } else {
          heap_.push(d, w);
        }
        return false;
      });
    }
    do {
      if (heap_.empty()) return;
      const auto [d, v] = heap_.pop();
      if (d != distance_[index(v)]) continue;
      reach = d;
      stack_.push_back(v);
    } while (stack_.empty());
    if (stack_.back() == sink_) return;
  }
}

bool ParametricFlow::visit_stretch(const StretchVisitor& visit, Nanoseconds t_high, Nanoseconds t_low) {
  const std::size_t n = work_.size();
  for (auto* values : {&start_, &finish_, &start_shift_, &finish_shift_}) values->resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    start_[i] = event_[2 * i];
    finish_[i] = event_[2 * i + 1];
    start_shift_[i] = distance_[2 * i];
    finish_shift_[i] = distance_[2 * i + 1];
  }
  return visit({t_high, t_low, start_, finish_, start_shift_, finish_shift_});
}

// sum_i min_t (c_i(t) + x_i t), J, less what the rounding of the sum may have added: the bound must stay a bound.
double ParametricFlow::intercept() const {
  double sum = 0.0;
  double magnitude = 0.0;
  for (const Work& work : work_) {
    const double price = static_cast<double>(work.flow) * kPriceUnit * 1e-9;
    const double least = curves_[index(work.curve)].least(index(work.level), price);
    sum += least;
    magnitude += std::abs(least);
  }
  return sum - 1e-12 * magnitude;
}

}  // namespace flyball
