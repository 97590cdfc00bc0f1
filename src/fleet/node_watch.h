// Asks the agents of a fleet's nodes, again and again, how their GPUs are. It reads and changes nothing.
//
// Each node has a thread with a time limit for every call, so that no agent holds up the server or another agent.
#pragma once

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

 private:
  class Node;
  NodeWatchOptions options_;
  std::map<std::string, std::unique_ptr<Node>> nodes_;
};

}  // namespace flyball
