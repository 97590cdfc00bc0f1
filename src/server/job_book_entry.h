// One job of the book, with the requests and streams that wait for it. Only the book's own files include this.
#pragma once

#include <chrono>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/monotonic_time.h"
#include "base/wall_clock.h"
#include "server/executed_steps.h"
#include "server/handovers.h"
#include "server/job_book.h"
#include "server/last_iteration.h"

namespace flyball {

struct JobBook::Entry : std::enable_shared_from_this<JobBook::Entry> {
  Entry(StoredJob stored, bool durable) : job(std::move(stored), durable) {}

  struct Poll {
    Reply reply;
    RankPlace rank;
    std::int64_t after_version = 0;
    std::chrono::steady_clock::time_point deadline;
  };

  using Clock = std::chrono::steady_clock;

  Job job;
  bool gone = false;  // deleted, or on its way
  // The last time that a rank was heard, or the job registered; it may lie before this server's start.
  Clock::time_point heard = Clock::now();
  Clock::time_point heard_stored = heard;  // the same, as it is stored in the database
  Clock::time_point last_report = heard;   // of measurements
  Clock::time_point waited{};              // when a rank was seen waiting for a schedule
  std::unordered_map<int, std::list<Poll>> polls;
  std::vector<std::shared_ptr<EventStream>> streams;
  std::shared_ptr<PlanningTask> task;
  bool restoring = false;         // whether the task repeats a plan that an earlier server had made
  bool frontier_due = false;      // whether the next schedules are the first of a new frontier
  bool measured_since = false;    // whether reports have come since the task began
  bool profiled_since = false;    // whether ranks have finished since the task began
  bool has_fixed_stages = false;  // whether the plan, or the one being made, has stages without a choice of clocks
  bool patience_over = false;
  EventLoop::Handle patience;
  EventLoop::Handle stall;
  EventLoop::Handle drift;
  EventLoop::Handle notices;
  EventLoop::Handle retry;
  EventLoop::Handle budget;
  JobPowerLimits task_limits;  // for which the task plans
  Clock::time_point task_began;
  // So long before a lower part of a budget begins the job is planned for it: longer than a plan has taken. It only
  // grows, so that what is planned for does not change with it again and again.
  Seconds lead;
  bool preparing = false;      // whether runs of its plan are being prepared in a planner's thread, one batch at a time
  bool prepare_again = false;  // whether other runs may be needed by now
  int versions_in_flight = 0;
  int notices_in_flight = 0;
  ExecutedSteps executed;
  LastIteration iteration;
  Handovers handovers;
  bool state_due = false;
};

}  // namespace flyball
