// The agents of a cluster's nodes, as its controller uses them: one lease for each node, the highest clocks that its
// GPUs may have, and the watts that they draw.
//
// Each node has a thread that talks to its agent, with a time limit for every call, so that no agent holds up the
// controller or another agent. What is wanted is handed over and what is known read out without waiting. A lease that
// is lost is taken again, with the clocks that are wanted then. GPUs that somebody else has leased stay theirs.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace flyball {

struct NodeAgentsOptions {
  std::string pattern;                             // "https://{node}:4938"; empty: only `addresses`
  std::map<std::string, std::string> addresses{};  // by node, in place of the pattern
  std::string token{};
  std::string ca_file{};           // of the authorities that issued the agents' certificates; empty: the system's
  Seconds call_limit{2.0};         // for one call
  Seconds period{1.0};             // between two readings; a tenth of a second for a while after clocks were changed
  Seconds silent_after{3.0};       // without an answer
  Seconds heartbeat_timeout{5.0};  // after which an agent takes a controller that is stopped but alive for lost
};

// What a GPU is to have.
struct GpuWish {
  Megahertz bound;  // its highest clock; 0: whatever it was before
  Watts
      lost_limit;  // its power limit from when the controller is lost, until another one sets its clocks; 0: as before

  bool operator==(const GpuWish&) const = default;
};

struct AgentGpu {
  std::optional<Watts> power;
  std::optional<Joules> energy;  // by its counter
  Megahertz bound;               // highest clock that our lease lets it have; 0: it sets none
  Nanoseconds bound_since = 0;   // monotonic time at which the agent had set that
};

struct AgentReading {
  std::string address;         // empty: the node has no agent
  bool answers = false;        // there is a reading, and it is not old
  std::optional<Seconds> age;  // of the reading
  Nanoseconds asked = 0;       // monotonic time at which the reading was asked for
  std::string trouble;         // what went wrong last; empty: nothing
  std::vector<AgentGpu> gpus;  // by index
};

// Thread-safe.
class NodeAgents {
 public:
  // Throws UsageError for an address that is none.
  explicit NodeAgents(NodeAgentsOptions options);
  // Closes the leases' connections without giving the leases back, which to the agents is the loss of their holder.
  // Waits for calls under way.
  ~NodeAgents();
  NodeAgents(const NodeAgents&) = delete;
  NodeAgents& operator=(const NodeAgents&) = delete;

  // Begins to read the node. Does nothing where it is known or has no agent. Throws UsageError for an address that is
  // none.
  void add(const std::string& node);
  // Waits until every agent has been read, or until that time has passed.
  void wait_for_readings(Seconds most) const;

  [[nodiscard]] std::vector<std::string> nodes() const;
  // By the GPUs' index; those beyond the end as with no wish. Empty: no lease, and no cap that a lost controller left.
  void want(const std::string& node, const std::vector<GpuWish>& wishes);
  [[nodiscard]] AgentReading reading(const std::string& node) const;

 private:
  class Node;
  [[nodiscard]] std::string address_of(const std::string& node) const;
  NodeAgentsOptions options_;
  std::map<std::string, std::unique_ptr<Node>> nodes_;
};

}  // namespace flyball
