// The messages between the controller of a cluster, the elastic jobs on it and its operators, as values.
// cluster_messages.cpp describes each once (base/record.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/described.h"
#include "base/units.h"
#include "wire/job_messages.h"

namespace flyball {

inline constexpr const char* kClusterAddress = "127.0.0.1:4942";
// In the environment of a job: the controller's address, a file of the authorities that may have issued the certificate
// that it shows, and the job's own token.
inline constexpr const char* kClusterVariable = "FLYBALL_CLUSTER";
inline constexpr const char* kClusterCaVariable = "FLYBALL_CLUSTER_CA";
inline constexpr const char* kJobTokenVariable = "FLYBALL_JOB_TOKEN";

// POST /v1/cluster/jobs/{job}/report, by a running elastic job.
struct ElasticReport {
  double iteration = 0.0;   // done
  double iterations = 0.0;  // in all; 0: as it was submitted
  Seconds step;             // of one iteration; 0: not known yet
  int gpus = 1;
};
struct ElasticAnswer {
  bool stop = false;
  std::vector<std::string> keeps{};  // nodes with which the job goes on in place of ending; none: it ends
};

// PUT /v1/cluster/budget
struct BudgetOrder {
  Watts budget;                              // 0: `periods` are ordered
  std::optional<Seconds> until;              // Unix time, when the budget before it counts again
  std::vector<JobLimits::Period> periods{};  // rising in time, not overlapping; between them the budget before counts
};

// GET /v1/cluster/status
struct ClusterJobPlace {
  std::string node;
  std::vector<std::size_t> gpus;  // as the node numbers them; empty where the cluster engine does not tell
};
struct ClusterJobStatus {
  std::int64_t job = 0;
  std::string user;
  std::string kind;
  std::string state;  // "waiting", "running", "stopping", "shrinking", "starting", "left alone"
  std::vector<std::string> nodes;
  std::vector<ClusterJobPlace> places{};
  int gpus = 0;
  int to_gpus = 0;                // once what is under way is done
  Megahertz clock;                // 0: not set
  Watts power;                    // counted against the budget
  std::optional<Watts> expected;  // at that clock; without agents, neither is known
  std::optional<Watts> measured;
  Joules energy;          // by the meters, since the controller has seen it run
  bool pipeline = false;  // its GPUs are its own, and its speed a point of its frontier
  double iteration = 0.0;
  double iterations = 0.0;
  Seconds step;
  std::string why;
};
struct ClusterNodeStatus {
  std::string node;
  std::string state;
  int gpus = 0;
  int gpus_used = 0;
  bool ours = true;     // false: down, drained, or jobs that are not elastic are on it
  std::string agent{};  // its address; empty: the node has none
  std::string agent_trouble{};
  std::optional<Watts> power{};  // of its GPUs; none: the agent is silent
  std::optional<Seconds> age{};  // of the agent's last answer
  bool off = false;              // it is switched off; its GPUs draw nothing
  Seconds wake{};                // that it takes to wake; 0: it was not measured
  int wakes = 0;                 // how many times that is the mean of
  int wakes_failed = 0;          // how often the engine has given it up
};
struct ClusterKindStatus {
  std::string kind;
  Seconds restart;       // that a change of GPUs costs a job, as decisions count it
  int measured = 0;      // how many changes that is the mean of; 0: it is what the controller was told
  Seconds stop{};        // from the order to give up its GPUs until the engine shows a job of it without
  int stops = 0;         // how many of these that is the mean of; 0: it was not measured
  Seconds changeover{};  // from the order to start a job of it on GPUs in use until it could be started there
  int changeovers = 0;   // how many of these that is the mean of; 0: it was not measured
  Seconds shrink{};      // that a job loses which gives nodes back while it runs; 0: not measured
  int shrinks = 0;       // how many times that is the mean of
};
// What was decided for a job. Powers are those of the whole decision, by which others may have changed, too.
struct ClusterDecision {
  Seconds time;  // Unix time
  std::int64_t job = 0;
  std::string change;  // "from no GPUs to 2 GPUs on n1", "clocks of at most 1005 MHz"
  std::string cause;
  int from_gpus = 0;
  int to_gpus = 0;
  std::optional<Megahertz> clock;  // the highest that it may have; none: nobody sets it, or the job is to stop
  Watts planned{};                 // with which all jobs that the scheduler has count as decided
  Watts limit{};                   // what the budget left for them
  Watts budget{};
};
struct ClusterRunStatus {
  static constexpr std::size_t kMostDecisions = 100;  // told
  std::string policy;
  std::string mode;       // "acts", "observes"
  std::string partition;  // whose nodes and jobs the controller has; empty: all
  Watts budget;
  std::optional<Seconds> until;  // Unix time; none: for good
  Watts next;                    // the budget from then on
  Watts others;                  // of the budget, for GPUs without elastic jobs
  Watts limit;                   // what is left for elastic jobs
  Watts power;                   // that these count with
  std::int64_t decisions = 0;
  Seconds cycle;        // that the last cycle took
  std::string trouble;  // why the last cycle failed
  std::vector<ClusterJobStatus> jobs;
  std::vector<ClusterKindStatus> kinds;
  std::vector<ClusterNodeStatus> nodes;
  std::vector<ClusterDecision> last_decisions{};  // since the controller started, the newest first
};

[[nodiscard]] Record<ElasticReport> description_of(const ElasticReport*);
[[nodiscard]] Record<ElasticAnswer> description_of(const ElasticAnswer*);
[[nodiscard]] Record<BudgetOrder> description_of(const BudgetOrder*);
[[nodiscard]] Record<ClusterJobPlace> description_of(const ClusterJobPlace*);
[[nodiscard]] Record<ClusterJobStatus> description_of(const ClusterJobStatus*);
[[nodiscard]] Record<ClusterNodeStatus> description_of(const ClusterNodeStatus*);
[[nodiscard]] Record<ClusterKindStatus> description_of(const ClusterKindStatus*);
[[nodiscard]] Record<ClusterDecision> description_of(const ClusterDecision*);
[[nodiscard]] Record<ClusterRunStatus> description_of(const ClusterRunStatus*);

}  // namespace flyball
