// A group of points is a std::async() with a rounder of its own: some milliseconds of work, beside which starting a
// thread costs nothing that could be measured.
#include "plan/point_rounding.h"

#include <algorithm>
#include <utility>

namespace flyball {
namespace {

// A group looks at about as many operations, which takes some 5 ms.
constexpr std::size_t kGroupWork = 80'000;

}  // namespace

PointRounding::PointRounding(const PlanProblem& problem, Searches searches, std::int64_t anew_every, unsigned threads,
                             Frontier& frontier)
    : tables_(std::make_shared<const RoundingTables>(problem)),
      searches_(searches),
      anew_every_(static_cast<std::size_t>(anew_every)),
      threads_(threads),
      frontier_(frontier) {
  const std::size_t points = kGroupWork / static_cast<std::size_t>(std::max(1, problem.dag->size()));
  group_size_ = std::max<std::size_t>(1, points / anew_every_) * anew_every_;
}

void PointRounding::add(const FrontierStretch& stretch, Nanoseconds deadline) {
  group_.push_back({relaxed_times(*tables_, stretch, deadline), deadline});
  if (group_.size() == group_size_) start_group();
}

void PointRounding::add_fastest(const FrontierStretch& stretch, Nanoseconds t_min, int trials) {
  GateTimes relaxed = relaxed_times(*tables_, stretch, t_min);
  group_.push_back({relaxed, t_min});
  start_group();
  start([relaxed = std::move(relaxed), t_min, trials](ClockRounder& rounder) {
    rounder.floor(relaxed, t_min);
    rounder.polish(t_min, trials);
    return std::vector{rounded(rounder)};
  });
}

void PointRounding::add(const ClockPlan& plan) {
  ClockRounder rounder(tables_, searches_);
  rounder.load(plan);
  frontier_.add(rounded(rounder).point, plan);
}

void PointRounding::polish(ClockPlan plan, Nanoseconds deadline, int trials) {
  start([plan = std::move(plan), deadline, trials](ClockRounder& rounder) {
    rounder.load(plan);
    rounder.polish(deadline, trials);
    return std::vector{rounded(rounder)};
  });
}

PointRounding::Rounded PointRounding::rounded(ClockRounder& rounder) {
  return {{rounder.makespan(), rounder.net_joules()}, rounder.plan()};
}

void PointRounding::finish_points() {
  start_group();
  while (at_work_.size() > 1) take_oldest();
}

void PointRounding::finish() {
  start_group();
  while (!at_work_.empty()) take_oldest();
}

void PointRounding::start_group() {
  if (group_.empty()) return;
  start([group = std::exchange(group_, {}), anew_every = anew_every_](ClockRounder& rounder) {
    std::vector<Rounded> points;
    points.reserve(group.size());
    for (std::size_t k = 0; k < group.size(); ++k) {
      const auto& [relaxed, deadline] = group[k];
      k % anew_every == 0 ? rounder.round(relaxed, deadline) : rounder.follow(relaxed, deadline);
      points.push_back(rounded(rounder));
    }
    return points;
  });
}

// Twice as many groups as threads are under way, so that a thread has work while the oldest group is waited for.
template <class Work>
void PointRounding::start(Work work) {
  if (at_work_.size() >= 2 * std::size_t{threads_}) take_oldest();
  const auto policy = threads_ > 1 ? std::launch::async : std::launch::deferred;
  at_work_.push_back(std::async(policy, [tables = tables_, searches = searches_, work = std::move(work)] {
    ClockRounder rounder(tables, searches);
    return work(rounder);
  }));
}

void PointRounding::take_oldest() {
  const std::vector<Rounded> points = at_work_.front().get();
  at_work_.pop_front();
  for (const auto& [point, plan] : points) frontier_.add(point, plan);
}

}  // namespace flyball
