// Threads take from a multimap ordered by the time at which an order would be done, had it begun when it came. A
// planner is cancelled through its progress function; one that takes longer than it was expected to is put back as a
// long one. The first thread takes no long ones, and the others run at a lower priority.
#include "server/planning_queue.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "base/contain.h"
#include "base/error.h"

namespace flyball {
namespace {

constexpr double kProgressStep = 0.01;
constexpr int kNiceOfLongPlans = 10;
constexpr double kMistaken = 10.0;  // an order mistaken for a short one is expected to take longest_short times this

}  // namespace

PlanningQueue::PlanningQueue(std::function<void(std::function<void()>)> post, const Limits& limits,
                             std::function<Clock::time_point()> now)
    : post_(std::move(post)), limits_(limits), now_(std::move(now)) {
  const unsigned threads = std::max(limits.threads, 2u);
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this, i] { work(i > 0); });
}

PlanningQueue::~PlanningQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    stop_planning_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void PlanningQueue::add(Seconds expected, Entry entry) {
  entry.is_long = expected > limits_.longest_short;
  const auto wait = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(expected.value()));
  {
    const std::lock_guard lock(mutex_);
    counts_.cancelled += std::erase_if(
        waiting_, [](const auto& waiting) { return waiting.second.task && waiting.second.task->cancelled(); });
    waiting_.emplace(now_() + wait, std::move(entry));
  }
  changed_.notify_all();  // all of them, since not every thread may take it
}

std::shared_ptr<PlanningTask> PlanningQueue::submit(Order order) {
  auto task = std::make_shared<PlanningTask>();
  const Seconds expected = expected_planning_time(order.request, any_of(order.limits));
  add(expected, {std::move(order), task, {}, {}});
  return task;
}

void PlanningQueue::run(Seconds expected, std::function<void()> work, std::function<void(std::exception_ptr)> done) {
  add(expected, {{}, nullptr, std::move(work), std::move(done)});
}

PlanningQueue::Counts PlanningQueue::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.waiting = waiting_.size();
  return counts;
}

PlanningQueue::Waiting::iterator PlanningQueue::next(bool takes_long) {
  return std::find_if(waiting_.begin(), waiting_.end(),
                      [&](const auto& waiting) { return takes_long || !waiting.second.is_long; });
}

void PlanningQueue::work(bool takes_long) {
  // Where processors are few, the loop that answers requests goes before a long plan. 0 is the calling thread on Linux.
  if (takes_long) (void)::setpriority(PRIO_PROCESS, 0, kNiceOfLongPlans);
  while (true) {
    Entry entry;
    {
      std::unique_lock lock(mutex_);
      auto found = waiting_.end();
      changed_.wait(lock, [&] { return stopping_ || (found = next(takes_long)) != waiting_.end(); });
      if (stopping_) return;
      entry = std::move(found->second);
      waiting_.erase(found);
    }
    (void)contained("a planner's thread", [&] { entry.work ? run(entry) : plan(entry); });
  }
}

void PlanningQueue::run(Entry& entry) {
  std::exception_ptr error;
  try {
    entry.work();
  } catch (...) {
    error = std::current_exception();
  }
  // Moved, so that the loop's thread alone lets go of the exception.
  post_([done = std::move(entry.done), error = std::move(error)] { done(error); });
}

void PlanningQueue::plan(Entry& entry) {
  const auto begin = now_();
  const auto seconds_since = [&] { return std::chrono::duration<double>(now_() - begin).count(); };
  bool overdue = false;
  bool mistaken = false;  // the order was taken for a short one
  const auto task = entry.task;
  double shown = 0.0;
  const auto progress = [&](double share) {
    if (task->cancelled() || stop_planning_) return false;
    mistaken = !entry.is_long && seconds_since() > limits_.longest_short.value();
    if (mistaken) return false;
    if (share >= shown + kProgressStep) {
      shown = share;
      post_([task, share, tell = entry.order.progress] {
        if (!task->cancelled()) tell(share);
      });
    }
    return true;
  };
  const auto out_of_time = [&] {
    overdue = overdue || seconds_since() > limits_.longest.value();
    return overdue;
  };
  std::shared_ptr<const JobPlan> made;
  std::exception_ptr error;
  try {
    // New measurements may have cancelled the order while it waited.
    const Order& order = entry.order;
    if (progress(0.0))
      made = JobPlan::make(order.job, order.request, order.ranks, progress, order.adjusted, order.fixed, out_of_time,
                           order.asked, order.seen, order.limits, order.previous, order.own_operations);
    if (!made && overdue && !mistaken && !task->cancelled()) {
      throw Error(fmt::format(
          "planning took longer than {} s, the most that this server gives a job (--planning-time), and was "
          "given up; a longer unit_time_s, fewer microbatches or another planner take less time",
          limits_.longest.value()));
    }
  } catch (...) {
    error = std::current_exception();
  }
  const bool again = mistaken && !made && !error && !task->cancelled() && !stop_planning_;
  {
    const std::lock_guard lock(mutex_);
    counts_.seconds += seconds_since();
    if ((error || made) && overdue) ++counts_.overdue;
    if (!again) ++(error ? counts_.failed : made ? counts_.finished : counts_.cancelled);
  }
  if (again) return add(kMistaken * limits_.longest_short, std::move(entry));
  if (!made && !error) return;
  post_([task, made, error, done = std::move(entry.order.done)] {
    if (!task->cancelled()) done(made, error);
  });
}

}  // namespace flyball
