// An allocation that lasts has no end in its row: it lasts until its node was heard last, which is one row of the node,
// so that a second without changes writes no row of a GPU.
#include "fleet/allocation_table.h"

#include <algorithm>
#include <utility>

namespace flyball {
namespace {

Database& with_tables(Database& database) {
  database.execute(
      "CREATE TABLE IF NOT EXISTS heard(node INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, time REAL NOT NULL)");
  database.execute(
      "CREATE TABLE IF NOT EXISTS allocations(allocation INTEGER PRIMARY KEY, node INTEGER NOT NULL, gpu INTEGER NOT "
      "NULL, begin REAL NOT NULL, until REAL, job TEXT NOT NULL, rank INTEGER, holder TEXT NOT NULL)");
  database.execute("CREATE INDEX IF NOT EXISTS allocations_of_gpu ON allocations(node, gpu, allocation)");
  database.execute("CREATE INDEX IF NOT EXISTS allocations_by_end ON allocations(until)");
  database.execute(
      "CREATE INDEX IF NOT EXISTS allocations_of_node ON allocations(node, allocation) WHERE until IS NOT NULL");
  return database;
}

std::optional<std::int64_t> rank_of(const Statement& row, int column) {
  const std::optional<double> rank = row.number_or_nothing(column);
  return rank ? std::optional(static_cast<std::int64_t>(*rank)) : std::nullopt;
}

bool is_same_holder(const HeldGpus::Gpu& a, const HeldGpus::Gpu& b) {
  return a.job == b.job && a.rank == b.rank && a.holder == b.holder;
}

// As JSON, about.
std::size_t bytes_of(const GpuAllocation& one) {
  constexpr std::size_t kWithoutTexts = 160;
  std::size_t bytes = kWithoutTexts + one.node.size();
  for (const std::string* const text : {&one.job, &one.holder}) {
    for (const char byte : *text) {
      const auto code = static_cast<unsigned char>(byte);
      bytes += code < 0x20 ? 6u : byte == '"' || byte == '\\' ? 2u : 1u;
    }
  }
  return bytes;
}

}  // namespace

AllocationTable::AllocationTable(Database& database)
    : database_(with_tables(database)),
      insert_node_(database, "INSERT INTO heard(name, time) VALUES(?, 0) RETURNING node"),
      hear_(database, "UPDATE heard SET time=?2 WHERE node=?1"),
      insert_(database,
              "INSERT INTO allocations(node, gpu, begin, job, rank, holder) VALUES(?, ?, ?, ?, ?, ?) RETURNING "
              "allocation"),
      end_(database, "UPDATE allocations SET until=?2 WHERE allocation=?1"),
      trim_(database,
            "DELETE FROM allocations WHERE node=?1 AND gpu=?2 AND allocation<=(SELECT allocation FROM allocations "
            "WHERE node=?1 AND gpu=?2 ORDER BY allocation DESC LIMIT 1 OFFSET ?3)"),
      trim_node_(database,
                 "DELETE FROM allocations WHERE node=?1 AND until IS NOT NULL AND allocation<=(SELECT allocation FROM "
                 "allocations WHERE node=?1 AND until IS NOT NULL ORDER BY allocation DESC LIMIT 1 OFFSET ?2)"),
      cut_(database, "UPDATE allocations SET until=?2 WHERE node=?1 AND (until IS NULL OR until>?2)"),
      cut_out_(database, "DELETE FROM allocations WHERE node=?1 AND begin>=?2"),
      oldest_(database,
              "SELECT min(known) FROM (SELECT min(until) AS known FROM allocations UNION ALL SELECT min(time) FROM "
              "heard)"),
      drop_(database, "DELETE FROM allocations WHERE until<?"),
      drop_open_(database, "DELETE FROM allocations WHERE node IN (SELECT node FROM heard WHERE time<?)"),
      drop_nodes_(database, "DELETE FROM heard WHERE time<?"),
      ended_(database,
             "SELECT name, gpu, begin, until, job, rank, holder FROM allocations JOIN heard USING(node) WHERE until>?1 "
             "AND begin<?2 AND begin<until ORDER BY until DESC LIMIT ?3") {
  reload();
}

void AllocationTable::reload() {
  nodes_.clear();
  Statement nodes(database_, "SELECT node, name, time FROM heard");
  while (nodes.next()) nodes_[nodes.text(1)] = {nodes.integer(0), Seconds(nodes.number(2)), {}};
  Statement open(database_,
                 "SELECT name, allocation, gpu, begin, job, rank, holder FROM allocations JOIN heard USING(node) WHERE "
                 "until IS NULL");
  while (open.next()) {
    const auto gpu = static_cast<std::size_t>(open.integer(2));
    nodes_[open.text(0)].open[gpu] = {open.integer(1),
                                      {gpu, open.text(4), rank_of(open, 5), open.text(6), Seconds(open.number(3))}};
  }
}

AllocationTable::Node& AllocationTable::node_of(const std::string& name) {
  const auto [node, is_new] = nodes_.try_emplace(name);
  if (!is_new) return node->second;
  insert_node_.bind(1, std::string_view(name));
  (void)insert_node_.next();
  node->second.row = insert_node_.integer(0);
  (void)insert_node_.next();
  return node->second;
}

void AllocationTable::begin(Node& node, const HeldGpus::Gpu& held, Seconds time) {
  const auto gpu = static_cast<std::int64_t>(held.gpu);
  insert_.bind(1, node.row).bind(2, gpu).bind(3, time.value()).bind(4, std::string_view(held.job));
  held.rank ? insert_.bind(5, *held.rank) : insert_.bind_nothing(5);
  insert_.bind(6, std::string_view(held.holder));
  (void)insert_.next();
  Open& open = node.open[held.gpu] = {insert_.integer(0), held};
  (void)insert_.next();
  open.held.since = time;
  trim_.bind(1, node.row).bind(2, gpu).bind(3, kMostKept).run();
}

void AllocationTable::end(const Open& open, Seconds time) { end_.bind(1, open.row).bind(2, time.value()).run(); }

// Whatever was noted by a clock that was ahead: what there is of it before `time` may be true.
void AllocationTable::cut(Node& node, Seconds time) {
  for (Statement* const cut : {&cut_, &cut_out_, &hear_}) cut->bind(1, node.row).bind(2, time.value()).run();
  node.open.clear();
  node.heard = time;
}

void AllocationTable::note(const HeldGpus& told) {
  Node& node = node_of(told.node);
  if (is_ahead(node, told.time)) {
    cut(node, told.time);
  } else if (told.time <= node.heard) {
    return;
  }
  const bool is_unbroken = told.time - node.heard <= kUnbroken;
  std::map<std::size_t, Open> gone = node.open;
  bool has_changed = false;
  for (const HeldGpus::Gpu& gpu : told.gpus) {
    gone.erase(gpu.gpu);
    if (node.open.size() >= kMostGpus && !node.open.contains(gpu.gpu)) continue;
    const bool is_free = gpu.holder.empty();
    // Nothing is said anew of the time before the last answer.
    const Seconds since = std::max(node.heard, is_free ? told.time : std::min(gpu.since, told.time));
    if (const auto open = node.open.find(gpu.gpu); open != node.open.end()) {
      const bool was_there = is_unbroken || (!is_free && gpu.since <= node.heard);
      if (was_there && is_same_holder(open->second.held, gpu)) continue;
      end(open->second, is_unbroken ? since : node.heard);
    }
    begin(node, gpu, since);
    has_changed = true;
  }
  for (const auto& [gpu, open] : gone) {
    end(open, node.heard);
    node.open.erase(gpu);
  }
  if (has_changed) trim_node_.bind(1, node.row).bind(2, kMostKeptOfNode).run();
  hear_.bind(1, node.row).bind(2, told.time.value()).run();
  node.heard = told.time;
}

void AllocationTable::drop(Seconds now) {
  for (auto& [name, node] : nodes_) {
    if (is_ahead(node, now)) cut(node, now);
  }
  (void)oldest_.next();
  const std::optional<double> end = oldest_.number_or_nothing(0);
  (void)oldest_.next();
  if (!end) return;
  const double oldest = std::min((now - kKept).value(), *end + kMostForgotten.value());
  for (Statement* const drop : {&drop_, &drop_open_, &drop_nodes_}) drop->bind(1, oldest).run();
  std::erase_if(nodes_, [&](const auto& node) { return node.second.heard.value() < oldest; });
}

FleetAllocations AllocationTable::read(Seconds from, Seconds until) {
  FleetAllocations all;
  all.complete_from = from;
  for (const auto& [name, node] : nodes_) {
    for (const auto& [gpu, open] : node.open) {
      const HeldGpus::Gpu& held = open.held;
      if (node.heard <= from || held.since >= until) continue;
      all.allocations.push_back(
          {name, static_cast<std::int64_t>(gpu), held.since, node.heard, false, held.job, held.rank, held.holder});
    }
  }
  std::size_t told = 0;
  std::size_t bytes = 0;
  for (const GpuAllocation& one : all.allocations) bytes += bytes_of(one);
  ended_.bind(1, from.value()).bind(2, until.value()).bind(3, static_cast<std::int64_t>(kMostTold) + 1);
  bool is_cut = false;
  while (ended_.next()) {
    if (is_cut) continue;  // a statement is read to its end
    GpuAllocation one{ended_.text(0), ended_.integer(1), Seconds(ended_.number(2)), Seconds(ended_.number(3)),
                      true,           ended_.text(4),    rank_of(ended_, 5),        ended_.text(6)};
    bytes += bytes_of(one);
    is_cut = told++ == kMostTold || bytes > kMostToldBytes;
    if (is_cut) {
      all.complete_from = one.until;
    } else {
      all.allocations.push_back(std::move(one));
    }
  }
  return all;
}

}  // namespace flyball
