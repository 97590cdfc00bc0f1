// Hash maps from names to indices, one for each phase; edges are kept once, by a set of both indices in 64 bits.
#include "trace/operation_table.h"

namespace flyball {

bool is_autograd(std::string_view name) {
  while (!name.empty() && name.back() >= '0' && name.back() <= '9') name.remove_suffix(1);
  return name.ends_with("Backward") || name.ends_with("AccumulateGrad");
}

OperationId OperationTable::intern(std::string_view name, Phase phase) {
  auto& index = index_[static_cast<std::size_t>(phase)];
  const auto known = index.find(name);
  if (known != index.end()) return known->second;
  const auto id = static_cast<OperationId>(operations_.size());
  operations_.push_back({std::string(name), phase});
  index.emplace(operations_.back().name, id);
  return id;
}

OperationId OperationTable::add_of_rank(std::string_view name, Phase phase, int rank) {
  operations_.push_back({std::string(name), phase, rank});
  return static_cast<OperationId>(operations_.size() - 1);
}

void OperationTable::add_edge(OperationId from, OperationId to, EdgeKind kind) {
  const std::uint64_t key = std::uint64_t{from} << 32 | to;
  if (known_edges_[static_cast<std::size_t>(kind)].insert(key).second) edges_.push_back({from, to, kind});
}

DeviceId DeviceTable::intern(std::string_view name) {
  if (const auto known = index_.find(name); known != index_.end()) return known->second;
  const auto id = static_cast<DeviceId>(names_.size());
  names_.emplace_back(name);
  index_.emplace(name, id);
  return id;
}

}  // namespace flyball
