// What a scheduler sees: the cluster, its jobs, and what is believed about their costs. The simulator keeps it up to
// date; policies only read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "cluster/job_kind.h"

namespace flyball {

// What does not change during a run.
struct ClusterSpec {
  int nodes = 16;
  int gpus_per_node = 4;  // a power of two
  std::string gpu = "v100";
  Megahertz voltage_break;        // f0, the least-energy clock
  std::vector<Megahertz> clocks;  // the speeds of data-parallel jobs, rising, from the voltage break to the maximum
  Watts idle;                     // of a GPU that waits, is woken, or has its job started
  Watts busy;                     // of a GPU while any kernel runs
  Watts limit;                    // of a board
  double memory_gib = 0.0;        // of a board
  Watts p_max;                    // P_max of PowerFlow 5.2: mean power of a busy GPU at the highest clock
  Seconds restart{30.0};          // checkpoint and start again, when a job changes its GPUs
  bool node_shutdown = true;      // empty nodes are shut down; without it all are on from the beginning
  Seconds wake{60.0};             // from off to usable
  Seconds off_after{60.0};        // how long a node is empty before it is shut down
  Seconds profiling{240.0};       // of a size that the job has not had before

  [[nodiscard]] int gpus() const { return nodes * gpus_per_node; }
};

enum class JobPhase : std::uint8_t {
  kFuture,     // not submitted yet
  kWaiting,    // has no GPUs
  kStarting,   // has GPUs; restarts, or waits for nodes to wake
  kProfiling,  // runs, its clock changing from slice to slice
  kRunning,
  kDone
};

struct ClusterJob {
  Seconds submit;
  int requested_gpus = 1;
  int kind = 0;
  double iterations = 0.0;  // whole work

  JobPhase phase = JobPhase::kFuture;
  int gpus = 0;
  int speed = 0;
  int nodes = 0;                       // that its GPUs lie on
  int partner = -1;                    // the job on the same GPUs; -1: none, it has them alone
  Seconds since;                       // when what follows was true
  double done = 0.0;                   // iterations
  Seconds gpu_time;                    // attained service, GPUs times seconds; shared GPUs count half
  double iterations_per_second = 0.0;  // from `since` on
  Watts power;                         // of all its GPUs, from `since` on; of shared ones its part
  double gpu_utilisation = 0.0;        // of its GPUs, as their meters show it; only under policies that share GPUs
  Seconds first_start{-1.0};
  Seconds finish{-1.0};
  Joules energy;  // until `since`
  int restarts = 0;
  std::uint64_t profiled = 0;  // bit i: the kind's size i was profiled by this job
  bool to_profile = false;     // is being profiled, or will be once it has started

  [[nodiscard]] bool active() const { return phase != JobPhase::kFuture && phase != JobPhase::kDone; }
  // Kinds have few sizes; what would be the 65th counts as known.
  [[nodiscard]] bool was_profiled(int size) const { return size >= 64 || (profiled >> size & 1) != 0; }
  [[nodiscard]] bool has_gpus() const { return gpus > 0; }
  // What it counts as having, of its GPUs.
  [[nodiscard]] double own_gpus() const { return partner < 0 ? gpus : 0.5 * gpus; }
};

struct ClusterState {
  ClusterSpec spec;
  std::vector<ClusterJobKind> kinds;
  std::vector<CostSheet> believed;                // by kind; with learned models these change, see ClusterEvents
  std::vector<std::vector<Watts>> counted_power;  // by kind, size, speed: what the limit counts (power_book.h)
  std::vector<bool> unmetered;   // by kind: nothing of it was metered, so that it counts with a reserve
  std::vector<ClusterJob> jobs;  // in order of submission
  std::vector<int> active;       // submitted and not done, rising
  std::vector<int> holding;      // of these, those that have GPUs, rising
  Seconds now;
  Watts power_limit;  // eta * G * P_max, for the sum of the jobs' power (PowerFlow eq. 19)
  int free_gpus = 0;
  int nodes_on = 0;        // those that wake included
  bool profiling = false;  // costs are learned by profiling, see to_be_profiled()
  // By kind, bit i: size i was profiled or is just being; no other job of the kind is. Empty: every job is profiled.
  std::vector<std::uint64_t> profiled_sizes;
  // By kind, bit i: profiling has shown what size i costs. Empty where nothing is profiled.
  std::vector<std::uint64_t> measured_sizes;
  int done = 0;  // jobs

  // What the jobs' power may add up to: the limit, and a billionth more, so that it is never rounding that decides
  // whether a sum is within it.
  [[nodiscard]] Watts spendable_power() const { return power_limit * (1.0 + 1e-9); }
  // Of the free GPUs, those for which no node needs to be woken.
  [[nodiscard]] int free_gpus_on() const { return free_gpus - (spec.nodes - nodes_on) * spec.gpus_per_node; }
  [[nodiscard]] const ClusterJobKind& kind_of(int job) const;
  // What a job's iteration is believed to take with these GPUs, a size of its kind, at this speed.
  [[nodiscard]] const IterationCost& believed_cost(int job, int gpus, int speed) const;
  // What jobs of a kind count with against the limit; of what runs, what is metered.
  [[nodiscard]] Watts counted(int kind, std::size_t size, std::size_t speed) const;
  // Whether the job would be profiled if it began to run at that size of its kind now.
  [[nodiscard]] bool to_be_profiled(int job, int size) const;
  // Keeps its GPUs for as long as it is profiled, and until then.
  [[nodiscard]] bool is_held(int job) const;
  [[nodiscard]] double remaining_iterations(int job) const;   // now
  [[nodiscard]] Seconds attained_gpu_seconds(int job) const;  // now
  [[nodiscard]] Seconds remaining_time(int job, int gpus, int speed) const;
  // The job's fastest speed, or the fastest whose clock is at most `clock`.
  [[nodiscard]] int top_speed(int job) const;
  [[nodiscard]] int speed_of_clock(int job, Megahertz clock) const;
};

}  // namespace flyball
