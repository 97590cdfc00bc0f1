// What the controller sees of a cluster engine such as Slurm, and the few things that it asks of one. The engine owns
// nodes, jobs, queues, users and accounting, and goes on without the controller. Another engine is one more
// implementation of ClusterEngine.
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/names.h"
#include "base/units.h"

namespace flyball {

enum class EngineJobState {
  kPending,
  kRunning,
  kChanging,   // it is being started, ended or put back into the queue
  kCompleted,  // ended with status 0
  kFailed,     // ended otherwise, or lost its time or its node
  kCancelled,
};
template <>
inline constexpr auto kNamesOf<EngineJobState> = name_list("pending", "running", "changing", "completed", "failed",
                                                           "cancelled");

// Nodes, by rising name, with the same number of GPUs on each.
struct GpuShape {
  std::vector<std::string> nodes;
  int gpus_per_node = 0;

  [[nodiscard]] int gpus() const { return static_cast<int>(nodes.size()) * gpus_per_node; }
  bool operator==(const GpuShape&) const = default;
};

// GPUs of one node.
struct NodeGpus {
  std::string node;
  int count = 0;
  std::vector<std::size_t> indices;  // as the node numbers them; empty where the engine does not tell

  bool operator==(const NodeGpus&) const = default;
};

[[nodiscard]] inline int gpu_count(const std::vector<NodeGpus>& places) {
  return std::accumulate(places.begin(), places.end(), 0, [](int all, const NodeGpus& one) { return all + one.count; });
}

struct EngineJob {
  std::int64_t id = 0;
  std::int64_t user = -1;  // uid
  std::string user_name;
  std::string name;
  std::string comment;
  std::string partition;  // whose nodes it may have; several, with commas, while the engine may choose among these
  EngineJobState state = EngineJobState::kPending;
  bool held = false;      // pending until start()
  bool put_back = false;  // held since it was put back into the queue, and by that
  bool depends = false;   // it waits for other jobs, held or not
  bool for_nodes = true;  // it waits for nodes, or its turn at them, and not for a time, a limit or a licence
  // It is held, or has failed, by the engine's own doing: it could not be launched, or its node was lost.
  bool engine_failed = false;
  bool failed_at_once = false;  // it has failed within seconds of its start
  std::string reason;           // why it is pending or has failed, in the engine's words
  std::string shown;            // the words for people that it has, ours and others'
  int restarts = 0;             // how often it was put back into the queue
  bool resizable = true;        // false: its GPUs were asked for in a way that resize() does not change
  // Processors for each task, and tasks for each node (one, unless it asks for more), which a change of size keeps.
  int cpus_per_task = 1;
  int tasks_per_node = 1;
  GpuShape wanted;             // what it asks for; its nodes are those that it must have, often none
  int wanted_nodes = 1;        // how many nodes it asks for
  std::vector<NodeGpus> gpus;  // what it has, by rising name of the node; empty unless it runs
  std::string first_node{};    // of a job that runs: where its script does, which it cannot give back
  bool changeable = true;      // whether keep_nodes() and explain() can be expected to work, of a job that runs

  [[nodiscard]] int gpu_count() const { return flyball::gpu_count(gpus); }
};

enum class NodePower {
  kOn,
  kGoingOff,  // an order to wake it would be lost
  kOff,
  kWaking
};

struct EngineNode {
  std::string name;
  bool usable = true;    // neither down, drained nor reserved for maintenance; a node that is off may be
  std::string state;     // in the engine's words
  bool doubled = false;  // drained by the engine, since a job was started there of which it had forgotten a start
  int gpus = 0;
  NodePower power = NodePower::kOn;
  // Since when (Unix time) nothing has run there and no job is about to come; none: it is not so, or not known.
  std::optional<Seconds> idle_since{};
  std::vector<std::string> partitions{};  // to which it belongs
};

// What the engine tells of a job or a node and cannot be read.
struct OddEntry {
  std::int64_t job = 0;  // 0: not a job's, or of a job without a number
  std::string words;
};

struct EngineView {
  std::vector<EngineJob> jobs;    // by rising id
  std::vector<EngineNode> nodes;  // by rising name
  std::vector<OddEntry> odd;      // which are in neither
};

// Every call blocks, has a time limit of its own and throws SystemError where the engine refuses, cannot be reached or
// does not answer in time; it may have done what it was asked then. Not thread-safe.
class ClusterEngine {
 public:
  virtual ~ClusterEngine() = default;
  ClusterEngine(const ClusterEngine&) = delete;
  ClusterEngine& operator=(const ClusterEngine&) = delete;

  // Returns the jobs that wait, run or have ended a short while ago, and all nodes.
  [[nodiscard]] virtual EngineView observe() = 0;

  virtual void hold(const EngineJob& job) = 0;          // a pending job does not start
  virtual void requeue_held(const EngineJob& job) = 0;  // a running or ended job is pending again, and held
  // Changes what a pending job asks for. The job may be left half changed where this fails; calling it again mends it.
  virtual void resize(const EngineJob& job, const GpuShape& shape) = 0;
  virtual void start(const EngineJob& job) = 0;  // a held job may start
  // Takes a running job's other nodes from it; what of it still runs there is ended. It goes on with those that it
  // keeps, the first one among them.
  virtual void keep_nodes(const EngineJob& job, const std::vector<std::string>& kept) = 0;
  virtual void resume(const EngineNode& node) = 0;  // a drained node may be used again
  // Switches nodes off that have no jobs, or on again, which takes its time. One that has got a job meanwhile goes off
  // after it.
  virtual void set_power(const std::vector<std::string>& nodes, bool on) = 0;
  // Shows words for people with the job, in the place of those that were shown before; words of others stay.
  virtual void explain(const EngineJob& job, const std::string& words) = 0;

 protected:
  ClusterEngine() = default;
};

}  // namespace flyball
