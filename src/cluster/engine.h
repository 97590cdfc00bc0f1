// The inside of the simulator: events, power, and what becomes of decisions. Only the files of the simulator include
// it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/compensated_sum.h"
#include "cluster/scheduler.h"
#include "cluster/simulator.h"

namespace flyball {

// Powers are added in whole microwatts, so that sums never drift and an idle cluster is exactly idle.
using Microwatts = std::int64_t;

struct Simulation::Engine final : SchedulerHost {
  Engine(const SimulationSetup& setup, const GroundTruth& truth, const JobTrace& trace, std::string policy_name,
         const PolicyOptions& options);

  // Goes on to the next instant at which anything happens, and handles all that happens then and the decision about it.
  // Returns false when nothing is left to happen.
  bool step();
  [[nodiscard]] std::optional<Seconds> next_time();
  [[nodiscard]] bool finished() const { return state.done == static_cast<int>(state.jobs.size()); }
  void check() const;
  void check_pair(int job) const;
  void must_hold(bool holds, const char* what) const;
  [[noreturn]] void fail_waiting() const;

  // The profiling that a job goes through, or that a restart has interrupted: one slice of time at each of some speeds,
  // from the thriftiest up.
  struct Profiling {
    int top = -1;            // the fastest speed; -1: not begun yet
    int slice = 0;           // slices that are done
    Seconds left;            // of the present slice
    Microwatts allowed = 0;  // the power that the policy counted for the job
  };
  // What the engine knows of a job beyond what policies see.
  struct JobRun {
    int version = 0;      // of its pending event; events of older versions are ignored
    Seconds event{-1.0};  // when the job's phase or a slice of its profiling ends; negative: never
    Microwatts power = 0;
    Profiling profiling;
    // While GPUs take time to change hands:
    std::vector<GpuBlock> held;        // those that it was started on
    Seconds launch;                    // when these had all been handed over, so that it could be started
    Seconds stopped;                   // when its last stop was over
    Seconds way_in;                    // from its launch until it computes
    std::size_t span_open = SIZE_MAX;  // index into the history
  };
  struct NodeRun {
    Seconds usable;                    // the time from which the node can be used, while it is on
    std::vector<Seconds> handed_over;  // by GPU: from when a job can be started on it; empty: there was no change
    Seconds off_at{-1.0};              // when the node will be shut down if it stays empty
    bool on = true;
  };
  struct Event {
    Seconds at;
    int job;
    int version;

    // By time, then by job, so that the order of events never depends on the order in which they were queued.
    bool operator<(const Event& other) const {
      return std::tie(other.at, other.job, other.version) < std::tie(at, job, version);
    }
  };

  // -- set-up (simulator.cpp)
  void make_kinds(const JobTrace& trace);
  void fill_truth();
  [[nodiscard]] IterationCost true_cost(int kind, int size, int nodes, int speed) const;
  [[nodiscard]] IterationCost measured_cost(const ProfiledSize& what, int speed) const;
  [[nodiscard]] double true_utilisation(int kind, int size, int nodes, int speed) const;

  // -- time and events (engine.cpp)
  void advance(Seconds to);
  void set_pace(int job, double rate, Microwatts power);
  void end_pace(int job);
  void schedule(int job, Seconds at);
  void decide();
  void correct();
  void arrive();
  [[nodiscard]] Seconds completion(int job) const;
  void phase_ends(int job);
  void begin_work(int job);
  void begin_run(int job);
  void go_on(int job);
  [[nodiscard]] IterationCost cost_now(int job);
  [[nodiscard]] Microwatts idle_part(int job) const;
  void complete(int job);
  [[nodiscard]] Seconds slice_time(int job) const;
  [[nodiscard]] int profiled_speed(int top, int slice) const;
  [[nodiscard]] int slices_up_to(int top) const;
  void begin_slice(int job);
  void end_slice(int job);
  void end_profiling(int job);
  void end_all_profiling();
  bool learn(int job);
  [[nodiscard]] bool over_limit() const;

  // -- what becomes of decisions (engine_changes.cpp)
  void settle(int job) override;
  void stopped(int job) override;
  void moves(int job) override;
  void started(int job, bool resumes) override;
  void changed_speed(int job) override;
  void changed_partner(int job) override;
  void emptied(int node) override;
  void give_up(int job);
  [[nodiscard]] Seconds ready_at(int job);
  void follow_moves();
  void shut_down_nodes();
  void record_span(int job);
  void record_power();

  SimulationSetup setup;
  const GroundTruth* truth;
  Scheduler scheduler;
  ClusterState& state;
  const PolicyTraits& traits;
  const Placement& placement;
  std::vector<CostSheet> packed_truth;                                                   // by kind, for packed jobs
  std::vector<int> truth_model;                                                          // by kind; -1: a pipeline
  mutable std::map<std::tuple<int, int, int>, std::vector<IterationCost>> spread_truth;  // by kind, size, nodes
  mutable std::map<std::tuple<int, int, int>, std::vector<double>> utilisations;  // by the same keys, then by speed

  std::vector<JobRun> runs;
  std::vector<NodeRun> nodes;
  std::priority_queue<Event> events;
  std::set<std::pair<double, int>> shut_downs;  // time, node
  std::size_t next_arrival = 0;
  std::size_t next_budget = 0;

  // -- accounts
  Microwatts job_power = 0;
  CompensatedSum energy;
  CompensatedSum busy_energy;
  CompensatedSum profiling_energy;
  CompensatedSum gpu_seconds;
  Microwatts peak_power = 0;
  Microwatts peak_job_power = 0;
  Microwatts idle_each = 0;
  Microwatts profiling_power = 0;
  std::int64_t restarts = 0;
  Seconds begun;  // the first submission
  Seconds last_finish;
  SimulationHistory history;

  [[nodiscard]] Microwatts idle_power() const;
};

}  // namespace flyball
