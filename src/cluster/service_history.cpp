// Sums over the sorted services give an index in O(log jobs). The line of jobs is a treap. Each node knows the least
// and the most service below it, so that a walk opens only nodes that may hold the next job.
#include "cluster/service_history.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace flyball {
namespace {

// Relative to the sum of all services: far more than its rounding.
constexpr double kRounding = 1e-9;

// The priorities of jobs are evenly spread, and the same in every run.
std::uint32_t priority_of(int job) {
  std::uint64_t mixed = (static_cast<std::uint64_t>(job) + 1) * 0x9e3779b97f4a7c15u;
  mixed ^= mixed >> 29;
  mixed *= 0xbf58476d1ce4e5b9u;
  return static_cast<std::uint32_t>(mixed >> 32);
}

}  // namespace

void ServiceHistory::add(double service) {
  const std::size_t place = up_to(service);
  services_.insert(services_.begin() + static_cast<std::ptrdiff_t>(place), service);
  sums_.resize(services_.size() + 1);
  for (std::size_t i = place; i < services_.size(); ++i) sums_[i + 1] = sums_[i] + services_[i];
}

std::size_t ServiceHistory::up_to(double service) const {
  if (std::isinf(service)) return services_.size();
  return static_cast<std::size_t>(std::upper_bound(services_.begin(), services_.end(), service) - services_.begin());
}

double ServiceHistory::expected(std::size_t from, std::size_t to, double had, double quantum) const {
  double sum = sums_[to] - sums_[from] - had * static_cast<double>(to - from);
  if (to < services_.size()) sum += quantum * static_cast<double>(services_.size() - to);
  return sum;
}

double ServiceHistory::index_of(std::size_t from, std::size_t to, double had, double quantum) const {
  return from == services_.size() ? 0.0 : static_cast<double>(to - from) / expected(from, to, had, quantum);
}

double ServiceHistory::gittins_index(double had, double quantum) const {
  return index_of(up_to(had), up_to(had + quantum), had, quantum);
}

// Between two finished services, and between two that would be reached within the quantum, the index rises with the
// service had, also when rounded. Over wider ranges, the most that may finish is divided by the least that is expected.
double ServiceHistory::most_index(double low, double high, double quantum) const {
  const std::size_t from = up_to(low);
  const std::size_t to = up_to(high + quantum);
  if (from == to) return 0.0;
  if (low == high) return index_of(from, to, high, quantum);
  const bool none_between = services_[from] > high;
  const std::size_t last_from = none_between ? from : up_to(high);
  const double rounding = kRounding * sums_.back();
  const double least = last_from == services_.size() ? 0.0 : expected(last_from, to, high, quantum);
  if (least <= rounding) return std::numeric_limits<double>::infinity();
  if (none_between && services_[to - 1] <= low + quantum) return static_cast<double>(to - from) / least;
  return static_cast<double>(to - from) / (least - rounding);
}

void AttainedLine::sum_up(int node) {
  Node& one = at(node);
  one.least = one.most = one.had;
  one.first = one.job;
  if (one.left >= 0) {
    one.least = at(one.left).least;
    one.first = std::min(one.first, at(one.left).first);
  }
  if (one.right >= 0) {
    one.most = at(one.right).most;
    one.first = std::min(one.first, at(one.right).first);
  }
}

int AttainedLine::merge(int left, int right) {
  if (left < 0) return right;
  if (right < 0) return left;
  const int top = at(left).priority > at(right).priority ? left : right;
  if (top == left) {
    const int below = merge(at(left).right, right);
    at(left).right = below;
  } else {
    const int below = merge(left, at(right).left);
    at(right).left = below;
  }
  sum_up(top);
  return top;
}

void AttainedLine::split(int node, double had, int job, int& before, int& others) {
  if (node < 0) {
    before = others = -1;
    return;
  }
  int rest = -1;
  if (std::pair(at(node).had, at(node).job) < std::pair(had, job)) {
    split(at(node).right, had, job, rest, others);
    at(node).right = rest;
    before = node;
  } else {
    split(at(node).left, had, job, before, rest);
    at(node).left = rest;
    others = node;
  }
  sum_up(node);
}

void AttainedLine::add(double had, int job) {
  int node = static_cast<int>(nodes_.size());
  if (unused_.empty()) {
    nodes_.emplace_back();
  } else {
    node = unused_.back();
    unused_.pop_back();
  }
  at(node) = Node{.had = had, .job = job, .priority = priority_of(job)};
  sum_up(node);
  int before = -1;
  int others = -1;
  split(root_, had, job, before, others);
  root_ = merge(merge(before, node), others);
}

void AttainedLine::remove(double had, int job) {
  int before = -1;
  int found = -1;
  int others = -1;
  split(root_, had, job, before, others);
  split(others, had, job + 1, found, others);
  root_ = merge(before, others);
  if (found >= 0) unused_.push_back(found);
}

AttainedLine::Walk::Walk(const AttainedLine& line, const ServiceHistory& history, double quantum)
    : line_(&line), history_(&history), quantum_(quantum) {
  push_range(line.root_);
}

void AttainedLine::Walk::push_range(int node) {
  if (node < 0) return;
  ++looked_at_;
  const Node& one = line_->at(node);
  const bool range = one.left >= 0 || one.right >= 0;
  heads_.push({{-history_->most_index(one.least, one.most, quantum_), one.first}, node, range});
}

const AttainedLine::Walk::Place* AttainedLine::Walk::front() {
  while (!heads_.empty() && heads_.top().range) {
    const int node = heads_.top().node;
    heads_.pop();
    const Node& one = line_->at(node);
    ++looked_at_;
    heads_.push({{-history_->gittins_index(one.had, quantum_), one.job}, node, false});
    push_range(one.left);
    push_range(one.right);
  }
  return heads_.empty() ? nullptr : &heads_.top().place;
}

}  // namespace flyball
