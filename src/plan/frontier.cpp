// Stores plans as chains of edits that start at a plan stored in full, and keeps the points that no other beats.
#include "plan/frontier.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

namespace flyball {
namespace {

// A plan is stored in full again when the edits since the last one exceed this many times its operations, which bounds
// the cost of rebuilding a plan.
constexpr std::size_t kEditsPerFullCopy = 4;

}  // namespace

void Frontier::add(const FrontierPoint& point, const ClockPlan& plan) {
  const std::size_t run_begin = stored_.empty() ? 0 : stored_.back().begin;
  if (last_.size() != plan.size() || edits_.size() - run_begin > kEditsPerFullCopy * plan.size()) {
    full_plans_.push_back(plan);
    stored_.push_back({full_plans_.size() - 1, edits_.size(), edits_.size()});
    last_ = plan;
  } else {
    for (std::size_t i = 0; i < plan.size(); ++i) {
      if (plan[i] == last_[i]) continue;
      edits_.push_back({static_cast<std::int32_t>(i), plan[i]});
      last_[i] = plan[i];
    }
    stored_.push_back({full_plans_.size() - 1, run_begin, edits_.size()});
  }
  points_.push_back(point);
  waits_alike_ = waits_alike_ && point.waiting_above == Watts(0);
  stored_of_point_.push_back(stored_.size() - 1);
}

void Frontier::finish() {
  std::vector<std::size_t> order(points_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return points_[a].time != points_[b].time ? points_[a].time < points_[b].time
                                              : points_[a].net_joules < points_[b].net_joules;
  });
  std::vector<FrontierPoint> points;
  std::vector<std::size_t> stored;
  for (const std::size_t i : order) {
    if (!points.empty() && points_[i].net_joules >= points.back().net_joules) continue;
    points.push_back(points_[i]);
    stored.push_back(stored_of_point_[i]);
  }
  points_ = std::move(points);
  stored_of_point_ = std::move(stored);
  edits_.shrink_to_fit();  // the edits are most of what a server's jobs keep
}

Joules Frontier::energy(std::size_t index) const {
  return Joules(points_[index].net_joules) + total_blocking_ * time(index);
}

Joules Frontier::lower_bound(std::size_t index) const {
  return Joules(points_[index].net_lower_bound) + total_blocking_ * time(index);
}

bool Frontier::bounds_are_open() const {
  return std::any_of(points_.begin(), points_.end(),
                     [](const FrontierPoint& point) { return std::isnan(point.net_lower_bound); });
}

ClockPlan Frontier::plan(std::size_t index) const {
  const StoredPlan& stored = stored_[stored_of_point_[index]];
  ClockPlan plan = full_plans_[stored.base];
  for (std::size_t e = stored.begin; e < stored.end; ++e)
    plan[static_cast<std::size_t>(edits_[e].node)] = edits_[e].option;
  return plan;
}

std::size_t Frontier::lookup(Nanoseconds deadline) const {
  assert(!points_.empty());
  const auto after = std::upper_bound(points_.begin(), points_.end(), deadline,
                                      [](Nanoseconds t, const FrontierPoint& point) { return t < point.time; });
  if (after == points_.begin()) return 0;
  const auto until = [&](const FrontierPoint& point) {
    return point.net_joules + (point.waiting_above * to_seconds(deadline - point.time)).value();
  };
  const auto best = waits_alike_ ? after - 1
                                 : std::min_element(points_.begin(), after,
                                                    [&](const auto& a, const auto& b) { return until(a) < until(b); });
  return static_cast<std::size_t>(best - points_.begin());
}

std::size_t Frontier::cheapest_by(Nanoseconds deadline) const {
  assert(!points_.empty());
  std::size_t best = 0;
  for (std::size_t i = 1; i < points_.size() && points_[i].time <= deadline; ++i) {
    if (energy(i) < energy(best)) best = i;
  }
  return best;
}

std::vector<std::size_t> worthwhile_points(const Frontier& frontier) {
  std::vector<std::size_t> kept;
  if (frontier.empty()) return kept;
  const std::size_t least = frontier.least_total_energy();
  Joules lowest(std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i <= least; ++i) {
    if (frontier.energy(i) < lowest) kept.push_back(i);
    lowest = std::min(lowest, frontier.energy(i));
  }
  const auto beyond = static_cast<std::ptrdiff_t>(kept.size());
  lowest = Joules(std::numeric_limits<double>::infinity());
  for (std::size_t i = frontier.size(); i-- > least + 1;) {
    if (frontier.energy(i) < lowest) kept.push_back(i);
    lowest = std::min(lowest, frontier.energy(i));
  }
  std::reverse(kept.begin() + beyond, kept.end());
  return kept;
}

}  // namespace flyball
