// What a planning server tells of the nodes whose agents it asks, of all jobs and nodes together, and of their past, as
// values. fleet_messages.cpp describes each once (base/record.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/described.h"
#include "base/names.h"
#include "base/units.h"
#include "wire/agent_messages.h"
#include "wire/cluster_messages.h"

namespace flyball {

// A GPU as its agent told it last. A reading is empty where the device does not give it.
struct WatchedGpu {
  std::size_t index = 0;
  std::string uuid;
  std::string name;
  GpuHealth health = GpuHealth::kWell;
  std::string trouble;
  std::optional<Watts> power;
  std::optional<Joules> energy;
  std::optional<Megahertz> clock;
  std::optional<Megahertz> clock_maximum;
  std::optional<Megahertz> asked_clock;  // the highest that its lease lets it have; none: it sets none
  std::optional<double> temperature_celsius;
  std::optional<double> utilisation;
  std::optional<Watts> power_limit;
  std::vector<std::string> throttle_reasons;
  std::string lease;   // its identifier; empty: nobody has leased it, or the agent does not show it
  std::string holder;  // of its lease, in words; empty: nobody has leased it
  std::string purpose;
  std::string job;                    // whose training that lease is for; empty: of none
  std::optional<std::int64_t> rank;   // of that job, as the holder says
  std::optional<Seconds> leased_for;  // by when its agent told it; none: nobody has leased it
  std::optional<Watts> cap;
  std::string cap_holder;
};

// One of GET /v1/nodes.
struct WatchedNode {
  std::string node;              // as the server's administrator calls it
  std::string address;           // of its agent
  bool silent = true;            // there is no answer, or none that is new
  std::optional<Seconds> age;    // of the last answer
  std::string trouble;           // why the last question was not answered; empty: it was
  std::string version;           // of the agent
  std::vector<WatchedGpu> gpus;  // by the last answer, whatever its age
};
struct WatchedNodes {
  std::vector<WatchedNode> nodes;
};

// GET /v1/fleet. GPUs are those of nodes that are not silent.
struct FleetStatus {
  std::int64_t jobs = 0;
  std::int64_t jobs_running = 0;   // that have schedules and were heard lately
  std::int64_t promises_kept = 0;  // jobs by what their ranks say of the plan
  std::int64_t promises_missed = 0;
  std::int64_t slow_ranks = 0;
  std::int64_t nodes = 0;
  std::int64_t nodes_silent = 0;
  std::int64_t gpus = 0;
  std::int64_t gpus_leased = 0;
  std::int64_t gpus_unwell = 0;
  std::int64_t gpus_unrestored = 0;
  std::int64_t gpus_capped = 0;  // by a holder that was lost
  std::int64_t gpus_without_power = 0;
  Watts power;  // of all GPUs that tell it
  // Of all iterations whose energy is compared with that of maximum clocks, by the jobs' ledgers.
  Joules compared;
  Joules compared_at_maximum;
  Joules compared_promised;
  std::optional<double> price_per_kwh;  // in the operator's currency; none: the operator has not said
  std::optional<double> carbon_g_per_kwh;
};

// Event "power" of GET /v1/events. Sources without any GPU that tells its power are left out.
struct PowerNow {
  struct OfNode {
    std::string node;
    Watts power;
  };
  struct OfJob {
    std::string job;
    std::int64_t gpus = 0;  // whose lease names the job
    Watts power;            // of those
  };
  Seconds time;  // Unix time
  std::vector<OfNode> nodes;
  std::vector<OfJob> jobs;
};

// GET /v1/jobs/{job}/ranks: where the ranks of a job are and what their GPUs do. Only ranks that have registered.
struct JobRankStatus {
  int rank = 0;
  int dp_rank = 0;
  int pp_rank = 0;
  int tp_rank = 0;
  bool profiled = false;
  double slowdown = 1.0;  // its computing time over the usual, as it has reported
  std::optional<Seconds> iteration_time;
  std::optional<Seconds> heard;  // Unix time
  std::string node;              // of the GPU whose lease names the rank; empty: none is known
  std::int64_t gpu = 0;          // its index there; this and what follows count only where there is a node
  bool silent = false;           // the node is, and this is what it told last
  std::optional<Watts> power;
  std::optional<Megahertz> clock;
  std::optional<Megahertz> asked_clock;
  std::optional<double> temperature_celsius;
  std::vector<std::string> throttle_reasons;
};
struct JobRanks {
  // A job with more ranks tells these first ones only.
  static constexpr std::size_t kMost = 4096;
  std::string job;
  std::int64_t ranks_registered = 0;
  std::vector<JobRankStatus> ranks{};
};

// GET /v1/fleet/allocations. What no allocation covers is not known.
struct GpuAllocation {
  std::string node;
  std::int64_t gpu = 0;  // the agent's number
  Seconds from;          // Unix time, as is `until`
  Seconds until;         // of one that has not ended: when its node was heard last
  bool ended = false;
  std::string job;                   // of the lease, or in words the cluster's; empty: of none
  std::optional<std::int64_t> rank;  // of that job, as the holder said
  std::string holder;                // of the lease, in words; empty: nobody had leased the GPU
};
struct FleetAllocations {
  Seconds complete_from;  // those that ended before are left out
  std::vector<GpuAllocation> allocations{};
};

// GET /v1/cluster
struct WatchedController {
  std::string address;                     // as the server's administrator wrote it; empty: none is asked
  bool silent = true;                      // there is no answer, or none that is new
  std::optional<Seconds> age;              // of the last answer
  std::string trouble;                     // why the last question was not answered; empty: it was
  std::optional<ClusterRunStatus> status;  // by the last answer, whatever its age
};

// How far apart rows of a history are; the finest that reaches back far enough is told.
enum class HistoryStep { kSeconds, kMinutes, kHours };
template <>
inline constexpr auto kNamesOf<HistoryStep> = name_list("second", "minute", "hour");
[[nodiscard]] constexpr Seconds length_of(HistoryStep step) {
  return Seconds(step == HistoryStep::kSeconds ? 1.0 : step == HistoryStep::kMinutes ? 60.0 : 3600.0);
}

// Rows of GET /v1/nodes/{node}/history and GET /v1/jobs/{job}/history, the oldest first. A time in which nothing was
// known of the node or the job has no row.
struct NodeHistoryRow {
  Seconds time;  // Unix time of the row's begin
  std::optional<Watts> power;
  std::optional<Megahertz> clock;
  std::optional<Megahertz> asked_clock;
  std::optional<double> temperature_celsius;
  std::optional<double> gpus_leased;
  std::optional<double> gpus_throttled;
};
// Something that happened to a node or a job.
struct HistoryEvent {
  Seconds time;       // Unix time
  std::string event;  // of a node "state" or "gpu", of a job "state", "schedule", "promise" or "straggler"
  std::string text;
};
struct NodeHistory {
  std::string node;
  HistoryStep step = HistoryStep::kSeconds;
  std::vector<NodeHistoryRow> rows{};
  std::vector<HistoryEvent> events{};
};

struct FleetHistoryRow {
  Seconds time;
  std::optional<Watts> power;
  std::optional<double> gpus;
  std::optional<double> gpus_leased;
  std::optional<double> nodes_silent;
  std::optional<double> jobs_running;
  std::optional<Watts> budget;  // of the cluster, by its controller
};
struct FleetHistory {
  HistoryStep step = HistoryStep::kSeconds;
  std::vector<FleetHistoryRow> rows{};
};

// GET /v1/fleet/energy
struct FleetEnergy {
  Seconds from;  // Unix time, as is `until`
  Seconds until;
  std::optional<Joules> energy;  // none: nothing was read
  Seconds read;                  // for how long some GPUs' power was read
  Seconds complete;              // of that, for how long every GPU's was
};

struct JobHistoryRow {
  Seconds time;
  std::optional<Watts> power;
  std::optional<Seconds> iteration;
  std::optional<Seconds> promised;
  std::optional<Seconds> at_maximum;
  std::optional<Joules> saved;
  std::optional<Joules> promised_saved;
  std::optional<double> slow_ranks;
  std::optional<double> version;
  std::optional<Megahertz> clock;
  std::optional<Megahertz> asked_clock;
};
struct JobHistory {
  std::string job;
  HistoryStep step = HistoryStep::kSeconds;
  std::vector<JobHistoryRow> rows{};
  std::vector<HistoryEvent> events{};
};

// Returns what is told of a GPU in place of all that its agent says.
[[nodiscard]] WatchedGpu watched(const GpuStatus& gpu);
// Returns what is known of a GPU of which that was told.
[[nodiscard]] GpuStatus status_of(const WatchedGpu& told);

[[nodiscard]] Record<WatchedGpu> description_of(const WatchedGpu*);
[[nodiscard]] Record<WatchedNode> description_of(const WatchedNode*);
[[nodiscard]] Record<WatchedNodes> description_of(const WatchedNodes*);
[[nodiscard]] Record<FleetStatus> description_of(const FleetStatus*);
[[nodiscard]] Record<PowerNow> description_of(const PowerNow*);
[[nodiscard]] Record<PowerNow::OfNode> description_of(const PowerNow::OfNode*);
[[nodiscard]] Record<PowerNow::OfJob> description_of(const PowerNow::OfJob*);
[[nodiscard]] Record<JobRankStatus> description_of(const JobRankStatus*);
[[nodiscard]] Record<JobRanks> description_of(const JobRanks*);
[[nodiscard]] Record<GpuAllocation> description_of(const GpuAllocation*);
[[nodiscard]] Record<FleetAllocations> description_of(const FleetAllocations*);
[[nodiscard]] Record<WatchedController> description_of(const WatchedController*);
[[nodiscard]] Record<FleetHistoryRow> description_of(const FleetHistoryRow*);
[[nodiscard]] Record<FleetHistory> description_of(const FleetHistory*);
[[nodiscard]] Record<FleetEnergy> description_of(const FleetEnergy*);
[[nodiscard]] Record<NodeHistoryRow> description_of(const NodeHistoryRow*);
[[nodiscard]] Record<NodeHistory> description_of(const NodeHistory*);
[[nodiscard]] Record<JobHistoryRow> description_of(const JobHistoryRow*);
[[nodiscard]] Record<HistoryEvent> description_of(const HistoryEvent*);
[[nodiscard]] Record<JobHistory> description_of(const JobHistory*);

}  // namespace flyball
