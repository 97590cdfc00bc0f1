#include "server/planning_queue.h"

#include <chrono>
#include <utility>

#include "base/contain.h"

namespace flyball {
namespace {

constexpr double kProgressStep = 0.01;

}  // namespace

PlanningQueue::PlanningQueue(std::function<void(std::function<void()>)> post, unsigned threads)
    : post_(std::move(post)) {
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
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

std::shared_ptr<PlanningTask> PlanningQueue::submit(Order order) {
  auto task = std::make_shared<PlanningTask>();
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(order), task, {}, {}});
  }
  changed_.notify_one();
  return task;
}

void PlanningQueue::run(std::function<void()> work, std::function<void(std::exception_ptr)> done) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_front({{}, nullptr, std::move(work), std::move(done)});
  }
  changed_.notify_one();
}

PlanningQueue::Counts PlanningQueue::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.waiting = waiting_.size();
  return counts;
}

void PlanningQueue::work() {
  while (true) {
    Entry entry;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      entry = std::move(waiting_.front());
      waiting_.pop_front();
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
  post_([done = std::move(entry.done), error] { done(error); });
}

void PlanningQueue::plan(Entry& entry) {
  const auto begin = std::chrono::steady_clock::now();
  const auto task = entry.task;
  double shown = 0.0;
  const auto progress = [&](double share) {
    if (task->cancelled() || stop_planning_) return false;
    if (share >= shown + kProgressStep) {
      shown = share;
      post_([task, share, tell = entry.order.progress] {
        if (!task->cancelled()) tell(share);
      });
    }
    return true;
  };
  std::shared_ptr<const JobPlan> made;
  std::exception_ptr error;
  try {
    // A batch of new measurements may have come while this one waited.
    const Order& order = entry.order;
    if (progress(0.0)) made = JobPlan::make(order.job, order.request, order.ranks, progress, order.adjusted);
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    counts_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    ++(error ? counts_.failed : made ? counts_.finished : counts_.cancelled);
  }
  if (!made && !error) return;
  post_([task, made, error, done = std::move(entry.order.done)] {
    if (!task->cancelled()) done(made, error);
  });
}

}  // namespace flyball
