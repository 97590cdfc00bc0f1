// Where `flyball top` looks: at this node's agent or devices, or at all nodes of a planning server.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "cli/top_view.h"

namespace flyball {

struct TopSourceOptions {
  std::optional<std::string> agent;   // its address
  bool direct = false;                // read the devices
  std::optional<std::string> server;  // a planning server's address
  std::optional<std::string> token_file;
  std::optional<std::string> ca_file;
};

struct TopLook {
  struct Node {
    NodeStatus status;
    std::string silent{};  // TopNode's
  };
  std::vector<Node> nodes;
  std::map<std::string, TopJob> jobs{};
};

struct TopSource {
  std::string name;
  bool has_nodes = false;  // TopFrame's
  // Throws SystemError where nobody answers, and AgentRefusal or ServerRefusal where a question is refused.
  std::function<TopLook()> look;
};

// Throws UsageError for options that exclude each other.
[[nodiscard]] TopSource choose_source(const TopSourceOptions& options);

}  // namespace flyball
