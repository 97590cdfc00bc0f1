// Plans jobs in threads of its own, so that requests never wait for a planner, and no job makes the others wait for
// long. The order with the shortest expected time is planned first, but orders move up while they wait; long orders
// never have all threads; and each order has a time limit.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "server/job_plan.h"

namespace flyball {

// One plan that is being made. Any thread may cancel it; after that, neither function of its order is called, except
// for calls already posted.
class PlanningTask {
 public:
  void cancel() { cancelled_ = true; }
  [[nodiscard]] bool cancelled() const { return cancelled_; }

 private:
  std::atomic<bool> cancelled_{false};
};

// Thread-safe.
class PlanningQueue {
 public:
  using Clock = std::chrono::steady_clock;

  struct Order {
    std::string job;
    JobRequest request;
    std::vector<RankMeasurements> ranks;
    std::function<void(double share)> progress;
    // Is called with the plan, or with the error for which there is none.
    std::function<void(std::shared_ptr<const JobPlan>, std::exception_ptr)> done;
    std::optional<AdjustedPlan> adjusted = std::nullopt;  // as JobPlan::make() takes it, like the next
    std::vector<FixedStage> fixed = {};
    ClocksAsked asked = ClocksAsked::kWhenFree;
    OrderSeen seen = OrderSeen::kAsTold;
    JobPowerLimits limits = {};
    std::shared_ptr<const JobPlan> previous = nullptr;
    std::int64_t own_operations = kMostServerOperations;
  };

  struct Limits {
    unsigned threads =
        1;  // at least two run; one is kept for short plans, and the others yield to the rest of the server
    Seconds longest{
        600.0};  // the longest that one plan may take in its thread; then it ends, incomplete or with an error
    // An order that is expected to take longer than this is a long one, which the thread kept for short orders does not
    // take. An order that turns out to take longer begins again, as a long one.
    Seconds longest_short{5.0};
  };

  // `post` brings a call to the owner's thread, in which both functions of an order are called. `now` may be called
  // from any thread.
  PlanningQueue(std::function<void(std::function<void()>)> post, const Limits& limits,
                std::function<Clock::time_point()> now = Clock::now);
  ~PlanningQueue();  // cancels everything and waits until planners have noticed
  PlanningQueue(const PlanningQueue&) = delete;
  PlanningQueue& operator=(const PlanningQueue&) = delete;

  std::shared_ptr<PlanningTask> submit(Order order);

  // Runs work other than planning that takes about `expected`: `work` in a planner's thread, then `done` in the owner's
  // thread, with what `work` threw.
  void run(Seconds expected, std::function<void()> work, std::function<void(std::exception_ptr)> done);

  struct Counts {
    std::uint64_t finished = 0;
    std::uint64_t cancelled = 0;
    std::uint64_t failed = 0;
    std::uint64_t overdue = 0;  // ran out of time: failed, or finished with an incomplete plan
    double seconds = 0.0;       // spent planning
    std::size_t waiting = 0;
  };
  [[nodiscard]] Counts counts() const;

 private:
  struct Entry {
    Order order;
    std::shared_ptr<PlanningTask> task;
    std::function<void()> work;  // instead of an order, as is `done`
    std::function<void(std::exception_ptr)> done;
    bool is_long = false;
  };
  // Orders by the time at which they would be done if they had begun when they came. A short order overtakes a long one
  // until the long one has waited for as long as their expected times differ.
  using Waiting = std::multimap<Clock::time_point, Entry>;

  void add(Seconds expected, Entry entry);
  [[nodiscard]] Waiting::iterator next(bool takes_long);  // the next order to begin; the end where there is none
  void work(bool takes_long);
  void plan(Entry& entry);
  void run(Entry& entry);

  std::function<void(std::function<void()>)> post_;
  const Limits limits_;
  const std::function<Clock::time_point()> now_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Waiting waiting_;  // guarded by mutex_, as are the next two
  Counts counts_;
  bool stopping_ = false;
  std::atomic<bool> stop_planning_{false};
  std::vector<std::thread> threads_;
};

}  // namespace flyball
