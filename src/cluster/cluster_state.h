// What a scheduler sees: the cluster, its jobs, and what is believed about their costs. The simulator updates this
// state; policies only read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/index.h"
#include "base/units.h"
#include "cluster/job_kind.h"

namespace flyball {

// The properties of a cluster that do not change during a run.
struct ClusterSpec {
  int nodes = 16;
  int gpus_per_node = 4;  // a power of two
  std::string gpu = "v100";
  Megahertz voltage_break;        // f0, the least-energy clock
  std::vector<Megahertz> clocks;  // the speeds of data-parallel jobs, rising, from the voltage break to the maximum
  Watts idle;                     // draw of a GPU that has no work, or whose node wakes or job starts
  Watts busy;                     // draw of a GPU while any kernel runs
  Watts limit;                    // power limit of a board
  double memory_gib = 0.0;        // of a board
  Watts p_max;                    // P_max of PowerFlow 5.2: mean power of a busy GPU at the highest clock
  Seconds restart{30.0};          // how long checkpoint and restart take when a job's GPUs change, unless measured
  Seconds start{0.0};             // how long a job holds its first GPUs idle until it computes
  // From the decision that takes GPUs from a job, or its end, until another can be started on them. A restart includes
  // it.
  Seconds changeover{0.0};
  bool node_shutdown = true;  // whether empty nodes are shut down; if false, all nodes are always on
  Seconds wake{60.0};         // how long a node takes from off to usable
  Seconds off_after{60.0};    // how long a node must be empty before it is shut down
  int nodes_kept_on = 0;      // empty nodes that stay on; no job is moved to empty one of them
  Seconds profiling{240.0};   // how long the profiling of a size that is new to the job takes

  [[nodiscard]] int gpus() const { return nodes * gpus_per_node; }
};

enum class JobPhase : std::uint8_t {
  kFuture,     // not submitted yet
  kWaiting,    // has no GPUs
  kStarting,   // has GPUs, and restarts or waits for nodes to wake
  kProfiling,  // runs while its clock changes from slice to slice
  kRunning,
  kDone
};

// A job: what it is, in the first four members, and what it has and has done.
struct ClusterJob {
  Seconds submit;
  int requested_gpus = 1;
  int kind = 0;
  double iterations = 0.0;  // of the whole job

  JobPhase phase = JobPhase::kFuture;
  int gpus = 0;
  int speed = 0;
  int nodes = 0;                       // on which its GPUs lie
  int partner = -1;                    // the job on the same GPUs; -1: none
  Seconds since;                       // the time to which `done`, `gpu_time` and `energy` are counted
  double done = 0.0;                   // iterations
  Seconds gpu_time;                    // attained service, GPUs times seconds; shared GPUs count half
  double iterations_per_second = 0.0;  // from `since` on
  Watts power;                         // of all its GPUs from `since` on; its part, if they are shared
  double gpu_utilisation = 0.0;        // of its GPUs, as their meters show it; only under policies that share GPUs
  Seconds first_start{-1.0};
  Seconds finish{-1.0};
  Joules energy;  // until `since`
  int restarts = 0;
  std::uint64_t profiled = 0;  // bit i: the kind's size i was profiled by this job
  bool to_profile = false;     // whether it is being profiled, or will be once it has started
  bool in_transition = false;  // whether it keeps its GPUs until what was decided of it has been done
  bool pinned = false;  // whether it keeps its GPUs, of which no placement knows, to its end; its speed may be chosen

  [[nodiscard]] bool active() const { return phase != JobPhase::kFuture && phase != JobPhase::kDone; }
  // Kinds have few sizes. From the 65th on, a size counts as profiled.
  [[nodiscard]] bool was_profiled(int size) const { return size >= 64 || (profiled >> size & 1) != 0; }
  [[nodiscard]] bool has_gpus() const { return gpus > 0; }
  // The GPUs that it counts as having: half of those that it shares.
  [[nodiscard]] double own_gpus() const { return partner < 0 ? gpus : 0.5 * gpus; }
};

// The state of a cluster at the simulated time `now`.
struct ClusterState {
  ClusterSpec spec;
  std::vector<ClusterJobKind> kinds;
  std::vector<CostSheet> believed;                // by kind; with learned models these change, see ClusterEvents
  std::vector<std::vector<Watts>> counted_power;  // by kind, size, speed: what counts against the limit (power_book.h)
  std::vector<bool> unmetered;   // by kind: whether no job of it was metered, so that a reserve is added
  std::vector<ClusterJob> jobs;  // in order of submission
  std::vector<int> active;       // submitted and not done, rising
  std::vector<int> holding;      // the active jobs that have GPUs, rising
  Seconds now;
  Watts power_limit;  // eta * G * P_max, the bound on the sum of the jobs' power (PowerFlow eq. 19)
  int free_gpus = 0;
  int nodes_away = 0;      // out of use: down, drained, or held by others
  int pinned_gpus = 0;     // of pinned jobs, on nodes that are away
  int nodes_on = 0;        // of those in use; including those that wake
  bool profiling = false;  // whether costs are learned by profiling; see to_be_profiled()
  // By kind: bit i says that size i has been or is being profiled, so that no other job of the kind is profiled at it.
  // Empty where every job is profiled.
  std::vector<std::uint64_t> profiled_sizes;
  // By kind: bit i says that profiling has shown what size i costs. Empty where nothing is profiled.
  std::vector<std::uint64_t> measured_sizes;
  int done = 0;  // jobs

  // The most that the jobs' power may add up to: the limit and a billionth more, so that rounding never decides whether
  // a sum is within the limit.
  [[nodiscard]] Watts spendable_power() const { return power_limit * (1.0 + 1e-9); }
  [[nodiscard]] int nodes() const { return spec.nodes - nodes_away; }  // in use
  [[nodiscard]] int gpus() const { return nodes() * spec.gpus_per_node + pinned_gpus; }
  // The free GPUs for which no node has to be woken.
  [[nodiscard]] int free_gpus_on() const { return free_gpus - (nodes() - nodes_on) * spec.gpus_per_node; }
  [[nodiscard]] const ClusterJobKind& kind_of(int job) const;
  // What an iteration of the job is believed to take on this number of GPUs, a size of its kind, at this speed.
  [[nodiscard]] const IterationCost& believed_cost(int job, int gpus, int speed) const;
  // The power with which jobs of a kind count against the limit (power_book.h).
  [[nodiscard]] Watts counted(int kind, std::size_t size, std::size_t speed) const {
    return counted_power[at(kind)][size * kinds[at(kind)].speeds + speed];
  }
  // What a change of their GPUs costs jobs of a kind.
  [[nodiscard]] Seconds restart_of(int kind) const;
  // The same of a change from one number of GPUs to another.
  [[nodiscard]] Seconds change_of(int kind, int from, int to) const;
  // The power with which a job that has GPUs counts now: while it is profiled, at the fastest speed of its profiling.
  [[nodiscard]] Watts counted_now(int job) const;
  // Whether the job would be profiled if it now started at that size of its kind.
  [[nodiscard]] bool to_be_profiled(int job, int size) const;
  // Whether the job keeps its GPUs: it is being profiled or is about to be, or is in transition.
  [[nodiscard]] bool is_held(int job) const;
  [[nodiscard]] double remaining_iterations(int job) const;   // now
  [[nodiscard]] Seconds attained_gpu_seconds(int job) const;  // now
  [[nodiscard]] Seconds remaining_time(int job, int gpus, int speed) const;
  // The job's fastest speed, or the fastest whose clock is at most `clock`.
  [[nodiscard]] int top_speed(int job) const;
  [[nodiscard]] int speed_of_clock(int job, Megahertz clock) const;
};

}  // namespace flyball
