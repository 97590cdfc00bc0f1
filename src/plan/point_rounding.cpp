// Jobs wait in one line, and each thread, which has a rounder of its own, takes the first one. What comes of them is
// taken in the order in which they were started.
#include "plan/point_rounding.h"

#include <algorithm>
#include <utility>

namespace flyball {
namespace {

// A group looks at about as many operations, which takes some 1 ms: threads end at the same time.
constexpr std::size_t kGroupWork = 20'000;
// The relaxation may be so far ahead, in the same unit: it is the sooner at T_min, whose plan takes longest.
constexpr std::size_t kWorkAhead = 500'000;

}  // namespace

PointRounding::PointRounding(const PlanProblem& problem, Searches searches, std::int64_t anew_every, unsigned threads,
                             Frontier& frontier)
    : tables_(std::make_shared<const RoundingTables>(problem)),
      searches_(searches),
      anew_every_(static_cast<std::size_t>(anew_every)),
      frontier_(frontier),
      rounder_(tables_, searches) {
  const auto operations = static_cast<std::size_t>(std::max(1, problem.dag->size()));
  group_size_ = std::max<std::size_t>(1, kGroupWork / operations / anew_every_) * anew_every_;
  most_under_way_ = std::max<std::size_t>(2 * std::size_t{threads}, kWorkAhead / (group_size_ * operations));
  if (threads < 2) return;
  for (unsigned k = 0; k < threads; ++k) threads_.emplace_back([this] { work(); });
}

PointRounding::~PointRounding() {
  const std::scoped_lock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void PointRounding::add(const FrontierStretch& stretch, Nanoseconds deadline) {
  group_.push_back({relaxed_times(*tables_, stretch, deadline), deadline});
  if (group_.size() == group_size_) start_group();
}

void PointRounding::add_polished(const FrontierStretch& stretch, Nanoseconds deadline, bool both) {
  if (!both) add(stretch, deadline);
  start_group();
  const Target target{relaxed_times(*tables_, stretch, deadline), deadline};
  polish(target, &ClockRounder::floor, {}, Turn::kFirst);
  if (both) polish(target, &ClockRounder::round, {}, Turn::kFirst);
  if (both) asked_.push_back(target);
  last_searches_ = both ? 2 : 1;
}

void PointRounding::polish(const Target& target, Beginning begin, const ClockRounder::Polish& how, Turn turn) {
  start(Job([target, begin, how](ClockRounder& rounder) {
          (rounder.*begin)(target.relaxed, target.deadline);
          rounder.polish(target.deadline, how);
          return std::vector{rounded(rounder)};
        }),
        turn);
}

std::vector<Nanoseconds> PointRounding::asked() const {
  std::vector<Nanoseconds> times;
  for (const Target& target : asked_) times.push_back(target.deadline);
  return times;
}

void PointRounding::search_further(Nanoseconds asked, int plans, int disturbances) {
  const auto target = std::ranges::find(asked_, asked, &Target::deadline);
  for (int k = 0; k < plans; ++k) {
    ClockRounder::Polish how;
    how.disturbances = disturbances;
    how.seed = static_cast<std::uint64_t>(k) + 1;
    polish(*target, k % 2 == 0 ? &ClockRounder::floor : &ClockRounder::round, how, Turn::kLast);
  }
}

void PointRounding::add(const ClockPlan& plan) {
  rounder_.load(plan);
  frontier_.add(rounded(rounder_).point, plan);
}

void PointRounding::polish(ClockPlan plan, Nanoseconds deadline) {
  start(Job([plan = std::move(plan), deadline](ClockRounder& rounder) {
    ClockRounder::Polish how;
    how.slots = PathSearch::Slots::kFew;
    rounder.load(plan);
    rounder.polish(deadline, how);
    return std::vector{rounded(rounder)};
  }));
}

PointRounding::Rounded PointRounding::rounded(ClockRounder& rounder) {
  return {{rounder.makespan(), rounder.net_joules()}, rounder.plan()};
}

void PointRounding::finish_points() {
  start_group();
  while (under_way_.size() > last_searches_) take_oldest();
}

void PointRounding::finish() {
  start_group();
  while (!under_way_.empty()) take_oldest();
}

void PointRounding::start_group() {
  if (group_.empty()) return;
  start(Job([group = std::exchange(group_, {}), anew_every = anew_every_](ClockRounder& rounder) {
    std::vector<Rounded> points;
    points.reserve(group.size());
    for (std::size_t k = 0; k < group.size(); ++k) {
      const auto& [relaxed, deadline] = group[k];
      k % anew_every == 0 ? rounder.round(relaxed, deadline) : rounder.follow(relaxed, deadline);
      points.push_back(rounded(rounder));
    }
    return points;
  }));
}

void PointRounding::start(Job job, Turn turn) {
  if (under_way_.size() >= most_under_way_) take_oldest();
  under_way_.push_back(job.get_future());
  if (threads_.empty()) return job(rounder_);
  const std::scoped_lock lock(mutex_);
  waiting_.insert(turn == Turn::kFirst ? waiting_.begin() : waiting_.end(), std::move(job));
  changed_.notify_one();
}

void PointRounding::take_oldest() {
  const std::vector<Rounded> points = under_way_.front().get();
  under_way_.pop_front();
  for (const auto& [point, plan] : points) frontier_.add(point, plan);
}

void PointRounding::work() {
  ClockRounder rounder(tables_, searches_);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
    if (ended_) return;
    Job job = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    job(rounder);
    lock.lock();
  }
}

}  // namespace flyball
