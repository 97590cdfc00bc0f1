// The names in traces: the operations of a program, which operation feeds which, and the devices.
//
// Events and readings carry small indices, which the tables translate to names. A table grows as its traces are read
// and never forgets, so that indices stay valid; its memory follows the number of different names, not of events. Two
// traces read into one table have the same operation under the same index. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "trace/trace.h"

namespace flyball {

struct StringHash {
  using is_transparent = void;  // NOLINT(readability-identifier-naming): what the containers ask for
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// Whether it was PyTorch's autograd that gave this name, such as "AddmmBackward0" or "torch::autograd::AccumulateGrad".
[[nodiscard]] bool is_autograd(std::string_view name);

// Why one operation comes after another.
enum class EdgeKind : std::uint8_t {
  kData,      // the second takes what the first produces (TensorFlow's inputs)
  kOrder,     // the second was next on the same thread, which is all that a trace without inputs shows (PyTorch)
  kBackward,  // the second is the backward of the first (PyTorch's sequence numbers)
};

struct OperationEdge {
  OperationId from = 0;
  OperationId to = 0;
  EdgeKind kind = EdgeKind::kData;

  bool operator==(const OperationEdge&) const = default;
};

inline constexpr int kNoRank = -1;

class OperationTable {
 public:
  // Returns the operation of this qualified name ("bert/encoder/layer_0/output/dense/MatMul") in this phase, and adds
  // it if it is new. Cost: one hash.
  OperationId intern(std::string_view name, Phase phase = Phase::kUnknown);

  // Adds an operation of one rank of a job, whatever others of its name there are; intern() does not find it.
  OperationId add_of_rank(std::string_view name, Phase phase, int rank);

  // Adds an edge, which counts once however often it is added. The operations at both ends must be in the table.
  void add_edge(OperationId from, OperationId to, EdgeKind kind = EdgeKind::kData);

  [[nodiscard]] std::size_t size() const { return operations_.size(); }
  [[nodiscard]] const std::string& name(OperationId operation) const { return operations_[operation].name; }
  [[nodiscard]] Phase phase(OperationId operation) const { return operations_[operation].phase; }
  [[nodiscard]] int rank(OperationId operation) const { return operations_[operation].rank; }  // or kNoRank
  [[nodiscard]] const std::vector<OperationEdge>& edges() const { return edges_; }  // in the order in which they came

 private:
  struct Operation {
    std::string name;
    Phase phase;
    int rank = kNoRank;
  };

  std::deque<Operation> operations_;                            // a deque, since the index holds views of the names
  std::unordered_map<std::string_view, OperationId> index_[4];  // one of each phase
  std::vector<OperationEdge> edges_;
  std::unordered_set<std::uint64_t> known_edges_[3];  // one of each kind
};

class DeviceTable {
 public:
  // Returns the device of this name, and adds it if it is new: "GPU:0", "CPU:0", "DRAM:0", or the trace's own name.
  DeviceId intern(std::string_view name);

  [[nodiscard]] std::size_t size() const { return names_.size(); }
  [[nodiscard]] const std::string& name(DeviceId device) const { return names_[device]; }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, DeviceId, StringHash, std::equal_to<>> index_;
};

}  // namespace flyball
