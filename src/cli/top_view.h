// The screen of `flyball top`: the state of a node as text or as JSON.
#pragma once

#include <cstddef>
#include <string>

#include "wire/agent_messages.h"

namespace flyball {

struct TopFrame {
  NodeStatus first;  // when the program started, or a device was first read: energies count from here
  NodeStatus now;
  Seconds elapsed;     // between the two
  std::string source;  // "agent at /run/flyball/agent.sock", "read directly"
  std::string away;    // why `now` is the last look and not the present; empty where it is the present
  std::size_t columns = 80;
  bool colour = false;  // ANSI, and block characters for bars either way
};

// Returns lines of at most `columns` characters, each ended by a newline. Where a table is too wide, its columns are
// left out, the least important one first.
[[nodiscard]] std::string draw_top(const TopFrame& frame);

// Returns the state as one JSON object in a line.
[[nodiscard]] std::string top_json(const TopFrame& frame);

}  // namespace flyball
