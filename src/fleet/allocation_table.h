// Which lease had each GPU of a fleet from when until when, as SQL tables: changes only, the newest kMostKept of a GPU
// and kMostKeptOfNode of a node, and none that ended more than kKept ago.
//
// What nobody has heard is no part of an allocation. A lease that was granted before its node fell silent, and is there
// when the node answers again, was there in between; of a GPU without a lease nobody knows that. The same holds for a
// time in which there was no server.
//
// Times are those of this machine's clock, which may have been ahead. Where it is set back, what was noted of the time
// that is to come again is cut off.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "database/database.h"
#include "wire/fleet_messages.h"

namespace flyball {

// Who has the GPUs of a node, by one answer of its agent.
struct HeldGpus {
  struct Gpu {
    std::size_t gpu = 0;  // the agent's number
    std::string job;      // whose training its lease is for; empty: of none
    std::optional<std::int64_t> rank;
    std::string holder;  // in words; empty: nobody has leased the GPU
    Seconds since;       // Unix time at which the lease was granted
  };
  std::string node;
  Seconds time;  // Unix time of the answer
  std::vector<Gpu> gpus;
};

// Not thread-safe. All functions throw DatabaseError.
class AllocationTable {
 public:
  static constexpr std::int64_t kMostKept = 1000;
  static constexpr Seconds kKept{31.0 * 86'400.0};
  // What ended is forgotten this much at a time: a clock that is far ahead for a while costs little of the past.
  static constexpr Seconds kMostForgotten{86'400.0};
  // Agents decide what they tell, and every change of it is a row.
  static constexpr std::int64_t kMostKeptOfNode = 10'000;
  static constexpr std::size_t kMostGpus = 256;  // of a node; further ones are left out
  // Answers at most so far apart have nothing between them that nobody knows: a node whose last answer is older is
  // silent (NodeWatchOptions).
  static constexpr Seconds kUnbroken{3.0};
  // At most so many allocations that have ended are told at a time, the newest,
  // and fewer where all would take more than so many bytes as JSON.
  static constexpr std::size_t kMostTold = 20'000;
  static constexpr std::size_t kMostToldBytes = 6'000'000;

  // Makes the tables where there are none. The database must outlive this object.
  explicit AllocationTable(Database& database);

  // Takes an answer. Ones that are a little older than the last of the node are left out; by more than kUnbroken, the
  // clock was set back. Costs one write, and two for each GPU that has changed hands.
  void note(const HeldGpus& told);
  // Forgets what ended long before `now`, and cuts off what lies after it.
  void drop(Seconds now);
  // Reads again what is in the file, after a transaction was taken back.
  void reload();

  // Returns what is known of [from, until). Costs a row each, and one for each GPU.
  [[nodiscard]] FleetAllocations read(Seconds from, Seconds until);

 private:
  struct Open {
    std::int64_t row = 0;
    HeldGpus::Gpu held;  // `since` is when the allocation begins
  };
  struct Node {
    std::int64_t row = 0;
    Seconds heard;  // the last answer
    std::map<std::size_t, Open> open;
  };
  Node& node_of(const std::string& name);
  [[nodiscard]] static bool is_ahead(const Node& node, Seconds now) { return node.heard - now > kUnbroken; }
  void cut(Node& node, Seconds time);
  void begin(Node& node, const HeldGpus::Gpu& held, Seconds time);
  void end(const Open& open, Seconds time);

  Database& database_;
  std::map<std::string, Node> nodes_;
  Statement insert_node_;
  Statement hear_;
  Statement insert_;
  Statement end_;
  Statement trim_;
  Statement trim_node_;
  Statement cut_;
  Statement cut_out_;
  Statement oldest_;
  Statement drop_;
  Statement drop_open_;
  Statement drop_nodes_;
  Statement ended_;
};

}  // namespace flyball
