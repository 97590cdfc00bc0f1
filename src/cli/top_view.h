// The screen of `flyball top`: the GPUs of a node, or of all nodes of a planning server, as text or as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/names.h"
#include "wire/agent_messages.h"
#include "wire/job_messages.h"

namespace flyball {

struct TopNode {
  NodeStatus first;  // when the program started, or a device was first read: energies count from here
  NodeStatus now;
  // Why nothing is known of the node now: its agent does not answer the planning server. Its GPUs have no readings.
  std::string silent{};
};

// What a planning server says of a job.
struct TopJob {
  std::int64_t version = 0;  // of the schedules; 0: none yet
  PromiseVerdict promise = PromiseVerdict::kUnknown;
  std::optional<double> saving_pct{};
  std::map<std::int64_t, int> stages{};  // by rank
};

// By what rows are ordered, the highest first, except GPUs and jobs.
enum class TopOrder { kGpu, kPower, kClock, kTemperature, kUse, kEnergy, kJob };
template <>
inline constexpr auto kNamesOf<TopOrder> = name_list("gpu", "power", "clock", "temperature", "use", "energy", "job");

struct TopFrame {
  std::vector<TopNode> nodes;
  std::map<std::string, TopJob> jobs{};  // by id; empty: nobody was asked
  // Watts at the last looks, the oldest first, by the GPU's UUID.
  std::map<std::string, std::vector<double>> powers{};
  bool has_nodes = false;  // a planning server's, so that rows name theirs
  Seconds elapsed;         // since the first look
  std::string source;      // "agent at /run/flyball/agent.sock", "read directly"
  std::string away{};      // why this is the last look and not the present; empty where it is the present
  TopOrder order = TopOrder::kGpu;
  std::size_t columns = 80;
  std::size_t lines = 0;   // of the terminal; 0: as many as it takes
  std::size_t offset = 0;  // rows that are scrolled past
  bool colour = false;     // ANSI, and block characters for bars either way
};

// Returns lines of at most `columns` characters, each ended by a newline. Where a table is too wide, its columns are
// left out, the least important one first. Where it is too long, some rows are shown, and a last line says which.
[[nodiscard]] std::string draw_top(const TopFrame& frame);

// Returns how many rows of GPUs are shown at a time, and how many there are.
struct TopRows {
  std::size_t shown = 0;
  std::size_t all = 0;
};
[[nodiscard]] TopRows rows_of_top(const TopFrame& frame);

// Returns the state as one JSON object in a line.
[[nodiscard]] std::string top_json(const TopFrame& frame);

}  // namespace flyball
