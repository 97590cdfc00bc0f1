// Plans jobs one after the other in threads of its own, so that whoever serves requests never waits for a planner.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "server/job_plan.h"

namespace flyball {

// One plan that is being made. Any thread may cancel it; neither function is then called any more, but for calls
// already posted.
class PlanningTask {
 public:
  void cancel() { cancelled_ = true; }
  [[nodiscard]] bool cancelled() const { return cancelled_; }

 private:
  std::atomic<bool> cancelled_{false};
};

class PlanningQueue {
 public:
  struct Order {
    std::string job;
    JobRequest request;
    std::vector<RankMeasurements> ranks;
    std::function<void(double share)> progress;
    // The plan, or why there is none.
    std::function<void(std::shared_ptr<const JobPlan>, std::exception_ptr)> done;
    std::optional<AdjustedPlan> adjusted = std::nullopt;  // see JobPlan::make
  };

  // `post` brings a call to the owner's thread; both functions of an order are called there.
  PlanningQueue(std::function<void(std::function<void()>)> post, unsigned threads);
  ~PlanningQueue();  // cancels everything and waits until planners have noticed
  PlanningQueue(const PlanningQueue&) = delete;
  PlanningQueue& operator=(const PlanningQueue&) = delete;

  std::shared_ptr<PlanningTask> submit(Order order);

  // Something shorter than a plan, before all plans that wait: `work` in a planner's thread, then `done` in the owner's,
  // with what `work` threw.
  void run(std::function<void()> work, std::function<void(std::exception_ptr)> done);

  struct Counts {
    std::uint64_t finished = 0;
    std::uint64_t cancelled = 0;
    std::uint64_t failed = 0;
    double seconds = 0.0;  // spent planning
    std::size_t waiting = 0;
  };
  [[nodiscard]] Counts counts() const;

 private:
  struct Entry {
    Order order;
    std::shared_ptr<PlanningTask> task;
    std::function<void()> work;  // instead of an order, as is `done`
    std::function<void(std::exception_ptr)> done;
  };

  void work();
  void plan(Entry& entry);
  void run(Entry& entry);

  std::function<void(std::function<void()>)> post_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> waiting_;  // guarded by mutex_, as are the next two
  Counts counts_;
  bool stopping_ = false;
  std::atomic<bool> stop_planning_{false};
  std::vector<std::thread> threads_;
};

}  // namespace flyball
