// Successive longest paths: each round finds by Dijkstra's algorithm how far every event can move towards T_min at the
// present price of time, moves the events, and sends flow along the paths that have no slack left, which raises the
// price.
#include "plan/parametric_flow.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace flyball {

PricedCurve::PricedCurve(const CostCurve& curve, double price_unit) {
  slope.push_back(kUnlimited);
  for (const CurveVertex& vertex : curve) {
    measured.push_back({static_cast<double>(vertex.time), vertex.net_joules, 0.0});
    if (!time.empty()) {
      const CurveVertex& faster = *(&vertex - 1);
      const double per_ns = (faster.net_joules - vertex.net_joules) / static_cast<double>(vertex.time - faster.time);
      measured.back().slope = per_ns;
      const auto price = std::max<Price>(1, std::llround(per_ns * 1e9 / price_unit));
      // Slopes that round to the same price leave no arc between them, so that a vertex is left out.
      if (price >= slope.back()) {
        time.back() = vertex.time;
        continue;
      }
      slope.push_back(price);
    }
    time.push_back(vertex.time);
  }
  slope.push_back(0);
}

double PricedCurve::least(double x) const {
  // The best vertex is the slowest one that is worth its time: the slope towards the next faster one is more than x.
  const auto dearer =
      std::partition_point(measured.begin() + 1, measured.end(), [&](const Vertex& v) { return v.slope > x; });
  return (dearer - 1)->net + x * (dearer - 1)->time;
}

// Where prices are coarse, lines do not meet where the price changes.
std::vector<BoundCurve::Piece> highest_lines(const std::vector<BoundCurve::Piece>& lines, Nanoseconds t_star) {
  const Nanoseconds t_min = lines.back().from;
  const auto at_t_min = [&](const BoundCurve::Piece& line) {
    return line.intercept - line.price * static_cast<double>(t_min);
  };
  std::vector<BoundCurve::Piece> pieces;
  for (const BoundCurve::Piece& line : lines) {
    // A steeper line that is not higher at T_min is higher nowhere.
    if (!pieces.empty() && at_t_min(line) <= at_t_min(pieces.back())) continue;
    while (!pieces.empty()) {
      BoundCurve::Piece& last = pieces.back();
      const Nanoseconds end = pieces.size() == 1 ? t_star : (pieces.end() - 2)->from;
      const double meet = (line.intercept - last.intercept) / (line.price - last.price);
      last.from = static_cast<Nanoseconds>(std::ceil(std::min(meet, static_cast<double>(end))));
      if (last.from < end) break;
      pieces.pop_back();
    }
    pieces.push_back(line);
  }
  pieces.back().from = t_min;
  return pieces;
}

ParametricFlow::ParametricFlow(const ComputationDag& dag, std::span<const CostCurve> curves, double price_unit)
    : dag_(&dag), unit_(price_unit) {
  const std::size_t n = at(dag.size());
  for (const CostCurve& curve : curves) curves_.emplace_back(curve, unit_);
  source_ = static_cast<std::int32_t>(2 * n);
  sink_ = source_ + 1;
  for (int i = 0; i < dag.size(); ++i) {
    const PricedCurve& curve = curves_[at(dag[i].type)];
    work_.push_back({&curve, static_cast<std::int32_t>(curve.slowest()), 0});
    stale_.push_back(i);
  }
  least_.assign(n, 0.0);
  is_stale_.assign(n, 1);
  add_links();
  place_events();
  distance_.assign(2 * n + 2, 0);
  step_.assign(2 * n + 2, {});
}

void ParametricFlow::add_links() {
  for (int i = 0; i < dag_->size(); ++i) {
    if (dag_->predecessors(i).empty()) links_.push_back({source_, 2 * i, 0});
    for (const std::int32_t s : dag_->successors(i)) links_.push_back({2 * i + 1, 2 * s, 0});
    if (dag_->successors(i).empty()) links_.push_back({2 * i + 1, sink_, 0});
  }
  const std::size_t events = at(sink_) + 1;
  out_begin_.assign(events + 1, 0);
  in_begin_.assign(events + 1, 0);
  for (const Link& link : links_) {
    ++out_begin_[at(link.from) + 1];
    ++in_begin_[at(link.to) + 1];
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
    const Link& link = links_[e];
    out_[at(out_next[at(link.from)]++)] = {link.to, static_cast<std::int32_t>(e)};
    in_[at(in_next[at(link.to)]++)] = {link.from, static_cast<std::int32_t>(e)};
  }
}

// Sets the earliest times with every operation at its cheapest.
void ParametricFlow::place_events() {
  event_.assign(at(sink_) + 1, 0);
  for (int i = 0; i < dag_->size(); ++i) {
    Nanoseconds start = 0;
    for (const std::int32_t p : dag_->predecessors(i)) start = std::max(start, event_[at(2 * p + 1)]);
    event_[at(2 * i)] = start;
    event_[at(2 * i + 1)] = start + work_[at(i)].curve->time.back();
    event_[at(sink_)] = std::max(event_[at(sink_)], event_[at(2 * i + 1)]);
  }
}

RelaxationResult ParametricFlow::run(const StretchVisitor& visit) {
  RelaxationResult result;
  std::vector<BoundCurve::Piece> pieces;
  const Nanoseconds t_star = event_[at(sink_)];
  // Flow is sent along paths to the sink that have no slack: those that a shift has left, and those there from the
  // beginning. On a path of unlimited capacity all computations are at their fastest, so that T_min is reached.
  do {
    find_distances();
    const Nanoseconds t_high = event_[at(sink_)];
    const Nanoseconds shift = distance_[at(sink_)];
    assert(shift < kFar);
    if (shift == 0) continue;
    ++result.rounds;
    for (Nanoseconds& d : distance_) d = std::min(d, shift);
    pieces.push_back({t_high - shift, intercept(), price_of_time()});
    if (!visit_stretch(visit, t_high, t_high - shift)) {
      result.status = RelaxationStatus::kCancelled;
      break;
    }
    for (std::size_t v = 0; v < event_.size(); ++v) event_[v] -= distance_[v];
  } while (augment());
  if (pieces.empty()) pieces.push_back({t_star, intercept(), price_of_time()});
  if (unit_ > kFinestPrice.value()) pieces = highest_lines(pieces, t_star);
  result.bound = BoundCurve(std::move(pieces), t_star);
  return result;
}

void ParametricFlow::push(std::int32_t from, std::int32_t link_index, Price amount) {
  if (link_index >= 0) {
    Link& link = links_[at(link_index)];
    link.flow += link.from == from ? amount : -amount;
    return;
  }
  Work& work = work_[at(from >> 1)];
  const PricedCurve& curve = *work.curve;
  if ((from & 1) == 0) {
    work.flow += amount;
    if (work.flow >= curve.slope[at(work.level)]) --work.level;
  } else {
    if (work.flow == curve.slope[at(work.level) + 1]) ++work.level;
    work.flow -= amount;
  }
  if (is_stale_[at(from >> 1)] == 0) {
    is_stale_[at(from >> 1)] = 1;
    stale_.push_back(from >> 1);
  }
}

// Sends as much flow as fits along the shortest path to the sink; returns false if its capacity is unlimited.
bool ParametricFlow::augment() {
  Price amount = kUnlimited;
  for (std::int32_t v = sink_; v != source_; v = step_[at(v)].from) {
    amount = std::min(amount, capacity(step_[at(v)]));
  }
  if (amount >= kUnlimited / 2) return false;
  for (std::int32_t v = sink_; v != source_; v = step_[at(v)].from) {
    push(step_[at(v)].from, step_[at(v)].link, amount);
  }
  total_ += amount;
  return true;
}

Price ParametricFlow::capacity(const Step& step) const {
  if (step.link != kOwnArc) {
    const Link& link = links_[at(step.link)];
    return link.from == step.from ? kUnlimited : link.flow;
  }
  const Work& work = work_[at(step.from >> 1)];
  const PricedCurve& curve = *work.curve;
  const std::size_t k = at(work.level);
  if ((step.from & 1) == 0) return curve.slope[k] - work.flow;
  if (work.flow > curve.slope[k + 1]) return work.flow - curve.slope[k + 1];
  return curve.slope[k + 1] - curve.slope[k + 2];  // a slower vertex exists, or the arc would not have been taken
}

Nanoseconds ParametricFlow::own_slack(std::int32_t v) const {
  const Work& work = work_[at(v >> 1)];
  const PricedCurve& curve = *work.curve;
  const std::size_t k = at(work.level);
  const Nanoseconds apart = event_[at(v ^ 1)] - event_[at(v)];
  if ((v & 1) == 0) return apart - curve.time[k];
  if (work.flow > curve.slope[k + 1]) return apart + curve.time[k];
  return k < curve.slowest() ? apart + curve.time[k + 1] : kFar;
}

// Dijkstra's algorithm from the source, with slacks as lengths. It stops at the sink: the events not settled by then
// are at least as far.
void ParametricFlow::find_distances() {
  std::fill(distance_.begin(), distance_.end(), kFar);
  heap_.clear();
  stack_.clear();
  distance_[at(source_)] = 0;
  stack_.push_back(source_);
  Nanoseconds reach = 0;
  while (true) {
    while (!stack_.empty()) {
      const std::int32_t v = stack_.back();
      stack_.pop_back();
      const Nanoseconds base = reach - event_[at(v)];
      const auto look_at = [&](std::int32_t w, Nanoseconds d, std::int32_t link) {
        if (d >= distance_[at(w)]) return;
        distance_[at(w)] = d;
        step_[at(w)] = {v, link};
        if (d == reach) {
          stack_.push_back(w);
        } else {
          heap_.push(d, w);
        }
      };
      // Links that carry flow have no slack.
      for (const Arc& arc : links_in(v)) {
        if (distance_[at(arc.event)] > reach && links_[at(arc.link)].flow > 0) {
          look_at(arc.event, reach, arc.link);
        }
      }
      if (v < source_) look_at(v ^ 1, reach + own_slack(v), kOwnArc);
      // These are pushed last and so visited first, since they lead towards the sink.
      for (const Arc& arc : links_out(v)) look_at(arc.event, base + event_[at(arc.event)], arc.link);
      if (distance_[at(sink_)] == reach) return;
    }
    do {
      if (heap_.empty()) return;
      const auto [d, v] = heap_.pop();
      if (d != distance_[at(v)]) continue;
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
  return visit({t_high, t_low, price_of_time(), start_, finish_, start_shift_, finish_shift_, this});
}

// sum_i min_t (c_i(t) + x_i t) in J, less what rounding the sum may have added, so that it stays a lower bound.
double ParametricFlow::intercept() {
  for (const std::int32_t i : stale_) {
    const Work& work = work_[at(i)];
    const double price = static_cast<double>(work.flow) * unit_ * 1e-9;
    least_[at(i)] = work.curve->least(price);
    is_stale_[at(i)] = 0;
  }
  stale_.clear();
  double sum = 0.0;
  double magnitude = 0.0;
  for (const double least : least_) {
    sum += least;
    magnitude += std::abs(least);
  }
  return sum - 1e-12 * magnitude;
}

}  // namespace flyball
