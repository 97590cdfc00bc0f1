// The core of a cluster's scheduler: what there is, what is believed of it, what the policy decides, and which GPUs
// jobs get. Whoever runs the jobs tells it what has happened, asks it to decide, and carries out what follows: the
// simulator does, and a controller of a real cluster can.
//
// The two share ClusterState. The scheduler writes what it decides: GPUs, speed, partner, nodes, and a job's phase
// until it is kStarting. The host writes what then happens: the later phases, and what jobs have done and drawn.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/cost_belief.h"
#include "cluster/placement.h"
#include "cluster/policy.h"
#include "cluster/power_book.h"

namespace flyball {

// What a scheduler asks of whoever runs the jobs. It calls these functions from decide() and finished(), in the order
// in which things are to be done.
class SchedulerHost {
 public:
  virtual ~SchedulerHost() = default;
  SchedulerHost(const SchedulerHost&) = delete;
  SchedulerHost& operator=(const SchedulerHost&) = delete;

  // Brings what the job has done, its energy and its service up to ClusterState::now.
  virtual void settle(int job) = 0;
  // The job's GPUs have been taken away.
  virtual void stopped(int job) = 0;
  // The job is about to be started on other GPUs; if it is being profiled, its profiling will go on there. Of jobs that
  // move in one decision, all are told of before the first is started.
  virtual void moves(int job) = 0;
  // The job is to start on the GPUs that Scheduler::placement() has for it. `resumes`: it was stopped with its memory
  // kept (PolicyTraits::resume).
  virtual void started(int job, bool resumes) = 0;
  // The job, which may still be starting, has another speed.
  virtual void changed_speed(int job) = 0;
  // Another job has come to the job's GPUs, or has left them.
  virtual void changed_partner(int job) = 0;
  // No job has a GPU of the node any more.
  virtual void emptied(int node) = 0;

 protected:
  SchedulerHost() = default;
};

// Not thread-safe.
class Scheduler {
 public:
  // Of an empty cluster, without kinds and jobs. `host` must outlive this object. Throws UsageError for an impossible
  // cluster or an unknown policy.
  Scheduler(const ClusterSpec& spec, Watts limit, std::string policy, const PolicyOptions& options,
            SchedulerHost& host);

  // Kinds and jobs may come at any time. `costs` are what is known of a kind's costs. Both return the index.
  int add_kind(ClusterJobKind kind, CostSheet costs);
  int add_job(const ClusterJob& job);

  // Must be called once, before anything happens, with the kinds and jobs that are known at first.
  struct Knowledge {
    bool profiles = false;              // jobs are profiled at sizes that are new to them
    bool models = false;                // costs are those of models, which replace `believed`
    MeasuredCosts measured_beforehand;  // what the models are fitted to at once, at every size; may be empty
  };
  void begin(const Knowledge& knowledge);

  [[nodiscard]] ClusterState& state() { return state_; }
  [[nodiscard]] const ClusterState& state() const { return state_; }
  [[nodiscard]] const std::string& policy_name() const { return policy_name_; }
  [[nodiscard]] const PolicyTraits& traits() const { return traits_; }
  [[nodiscard]] const Placement& placement() const { return placement_; }
  // Whether costs are those of models.
  [[nodiscard]] bool learns() const { return belief_.has_value(); }

  // What has happened. All but metered() ask for a decision.
  void arrived(int job);
  void finished(int job);   // all its iterations are done
  void cancelled(int job);  // or failed: it ends as far as it is
  void preempted(int job);  // its GPUs are gone, and it waits for others
  // The job, which has not arrived, runs on `gpus` of each of these nodes already, or is on its way there. Only under
  // policies that pack. Returns false where it cannot lie there (Placement::place_on); it has not arrived then.
  [[nodiscard]] bool adopted(int job, const std::vector<int>& nodes, int gpus, int speed);
  // The job, which has not arrived, runs on that many GPUs of nodes that are away, a size of its kind, and keeps them
  // to its end.
  void pinned(int job, int gpus, int speed);
  void limit_changed(Watts limit);
  void woken();  // the time of wake_at() has come
  // The profiling of the job has ended; it stays where it is. `learned`: it has shown what the size costs.
  void profiled(int job, bool learned);
  // The job's meters, at a speed, show ClusterJob::power. A job that lies on more nodes than it needs says nothing
  // about others, unless it is pinned.
  void metered(int job, int speed);
  // Learns what a job that is or was profiled at these speeds has shown, if that is new.
  void learn(int job, const std::vector<int>& speeds, const MeasuredCosts& measured);
  void learn(ProfiledSpeeds what, const MeasuredCosts& measured);
  void set_powered(int node, bool on);
  // The node is out of use (down, drained, held by others), or is back. Jobs that lie on it are stopped and wait.
  void set_away(int node, bool away);

  // Nodes, by job, of which the next decisions leave a job that runs there as many as it is to have, where they leave
  // it whole nodes: the first one, and others as far as they are free. Only for policies that pack.
  void prefer(std::map<int, std::vector<int>> nodes) { preferred_ = std::move(nodes); }

  // Whether something has happened about which the policy has not decided yet.
  [[nodiscard]] bool is_due() const { return due_; }
  // Asks the policy and carries out what it decides. Throws Error where the policy decides what cannot be; what was
  // carried out until then stands, and the next decision is a new policy's, from scratch.
  void decide();
  [[nodiscard]] std::int64_t decisions() const { return decisions_; }
  [[nodiscard]] bool decided_anything() const { return !decision_.assignments.empty(); }
  [[nodiscard]] std::optional<Seconds> wake_at() const { return wake_at_; }

  // Says why a job may not share a GPU with another, by what the policy declared and what fits into the memory; null if
  // it may.
  [[nodiscard]] const char* not_together(int job, int with, int gpus) const;

 private:
  void ask_policy();
  void begin_anew();
  void check_decision() const;
  void apply();
  void place_and_start(const std::vector<Assignment>& to_place, std::set<int>& placed);
  void runs(int job, int gpus, int speed);
  void take_gpus(int job);
  void give_gpus(const Assignment& assignment, std::set<int>& placed);
  [[nodiscard]] bool place_preferred(const Assignment& assignment);
  void join(const Assignment& assignment);
  void free_gpus_of(int job);
  void start(int job);
  void compact(const std::set<int>& placed);
  void believe_in(int kind);
  [[nodiscard]] std::vector<int> jobs_on(int node) const;
  void mark_profiled(int job, bool marked);
  [[nodiscard]] int size_of(int job) const;  // its place in ClusterJobKind::sizes

  SchedulerHost* host_;
  std::string policy_name_;
  PolicyOptions options_;
  std::unique_ptr<Policy> policy_;
  PolicyTraits traits_;
  ClusterState state_;
  Placement placement_;
  std::optional<CostBelief> belief_;
  std::optional<PowerBook> power_book_;
  ClusterEvents happened_;
  bool due_ = false;
  Decision decision_;                          // the last one
  std::map<int, std::vector<int>> preferred_;  // nodes, by job
  std::optional<Seconds> wake_at_;
  std::int64_t decisions_ = 0;
};

}  // namespace flyball
