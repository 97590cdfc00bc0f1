// Asks the agents of a fleet's nodes, again and again, how their GPUs are, and ends leases where an operator says so.
//
// Each node has a thread with a time limit for every call, so that no agent holds up the server or another agent.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "wire/fleet_messages.h"

namespace flyball {

struct NodeWatchOptions {
  std::map<std::string, std::string> addresses;  // of the agents, by node
  std::string token;
  std::string ca_file;        // of the authorities that issued the agents' certificates; empty: the system's
  Seconds call_limit{2.0};    // for one question
  Seconds period{1.0};        // between two
  Seconds silent_after{3.0};  // without an answer
};

// Thread-safe.
class NodeWatch {
 public:
  // Begins to ask. Throws UsageError for an address that is none.
  explicit NodeWatch(NodeWatchOptions options);
  // Waits for questions under way.
  ~NodeWatch();
  NodeWatch(const NodeWatch&) = delete;
  NodeWatch& operator=(const NodeWatch&) = delete;

  // Returns all nodes by name, as they were told last; waits for nothing. Costs a copy of what is told.
  [[nodiscard]] WatchedNodes nodes() const;

  struct Outcome {
    unsigned status = 200;  // HTTP's: 200, what the agent refused with, or 502 where it does not answer as it should
    std::string trouble;    // empty: it was done
  };
  using Done = std::function<void(const Outcome&)>;
  // Ends a lease of one of the nodes and returns at once. `done` is called by the node's thread, once nodes() tells
  // what came of it; never, where this object ends before.
  void end_lease(const std::string& node, std::string lease, Done done);

 private:
  class Node;
  NodeWatchOptions options_;
  std::map<std::string, std::unique_ptr<Node>> nodes_;
};

}  // namespace flyball
