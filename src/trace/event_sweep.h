// One pass over an event trace's records in order of time, which finds what runs on each thread, under which name, and
// which kernels belong to it.
//
// Each thread has a stack of calls, of which the innermost runs. At a launch the sweep notes the launching call under
// its correlation, and at a forward operation its place under its sequence number. Kernels and backward operations,
// which come later, look these up. The tables have 2^18 entries, which bounds the memory; work whose entry was
// overwritten counts as untied. Kernels that seem to begin before their launch, because two processors' times differ,
// wait for it for a while.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "trace/event_record.h"
#include "trace/event_trace.h"
#include "trace/operation_table.h"

namespace flyball {

class EventSweep : public EventTrace {
 public:
  // Takes over records that are sorted. `operations` must outlive the sweep.
  EventSweep(std::unique_ptr<EventRecords> records, const EventTraceOptions& options, OperationTable& operations);

  [[nodiscard]] bool next(TraceEvent& event) override;
  [[nodiscard]] const EventTraceStats& stats() const override { return stats_; }
  void rewind(Nanoseconds shift) override;

 private:
  using NodeId = std::uint32_t;  // of the tree of qualified names; 0 is its root
  static constexpr OperationId kNoOperation = std::numeric_limits<OperationId>::max();
  static constexpr Nanoseconds kNoEnd = std::numeric_limits<Nanoseconds>::max();

  struct Node {
    NodeId parent = 0;
    std::uint32_t depth = 0;
    std::uint32_t name = 0;
    std::array<OperationId, 4> operations{kNoOperation, kNoOperation, kNoOperation, kNoOperation};  // by phase
  };

  struct Frame {
    Nanoseconds begin = 0;
    Nanoseconds end = 0;
    NodeId node = 0;
    NodeId base = 0;         // the innermost module or annotation around it, by the frames
    NodeId scope = 0;        // as `base`, with the module that the operation itself names
    NodeId outside = 0;      // the base without the modules that state their paths, below which these stand
    std::uint32_t path = 0;  // of the innermost such module, if `in_model`
    std::uint32_t module = 0;
    std::uint32_t name = 0;
    std::int64_t sequence = kNoLink;  // of the forward that a backward frame is tied to
    Phase phase = Phase::kUnknown;
    bool in_model = false;
    bool works = false;
    bool shown = false;  // whether some of it is among the events
  };

  struct Lane {
    std::vector<Frame> stack;
    Nanoseconds since = 0;  // the top of the stack runs since then
    OperationId previous = kNoOperation;
    NodeId forward = 0;  // the forward operation whose backward has begun and has not been shown yet
    Phase forward_phase = Phase::kUnknown;
  };

  struct Launch {
    std::int64_t key = kNoLink;
    NodeId node = 0;
    Phase phase = Phase::kUnknown;
  };

  struct Forward {
    std::int64_t sequence = kNoLink;
    NodeId scope = 0;
    NodeId node = 0;
    NodeId outside = 0;  // as in Frame
    Phase phase = Phase::kUnknown;
  };

  static constexpr std::size_t kTableSize = std::size_t{1} << 18;
  static constexpr std::size_t kBatch = 4096;        // events between two checks which of them can be handed out
  static constexpr std::size_t kMaxPending = 65536;  // with more events, calls that still run are cut in two
  static constexpr std::size_t kMaxWaiting = 16384;
  // Names are as long as calls are deep, so that without a bound all names together would grow with the square of the
  // depth.
  static constexpr std::uint32_t kDeepest = 1000;
  static constexpr Nanoseconds kPatience = 100'000'000;  // how much later than its kernel a launch may come

  void reset();
  NodeId child(NodeId parent, std::uint32_t name);  // the parent itself at kDeepest
  NodeId module_place(const Frame& around, std::uint32_t path);
  std::uint32_t sibling_name(NodeId parent, const EventRecord& module);
  OperationId operation(NodeId node, Phase phase);
  std::string qualified(NodeId node) const;

  void take(const EventRecord& record);
  void advance(std::uint32_t lane, Nanoseconds now);
  void arrive(std::uint32_t lane, const EventRecord& record);
  void push(std::uint32_t lane, const EventRecord& record);
  void end_begun(std::uint32_t lane, const EventRecord& record);
  void show(std::uint32_t lane, Frame& frame, Nanoseconds begin, Nanoseconds end);
  void pop(std::uint32_t lane, Nanoseconds end);
  void launch(const EventRecord& record);
  [[nodiscard]] const Launch* launch_of(const EventRecord& kernel) const;
  void take_kernel(const EventRecord& record);
  void show_kernel(const EventRecord& record, const Launch* launch);
  void settle_waiting(Nanoseconds now);
  void add_edge(OperationId from, OperationId to, EdgeKind kind);
  void emit(const TraceEvent& event);
  void release();
  void add_inputs();
  void count_drop(const std::string& reason);

  std::unique_ptr<EventRecords> records_;
  std::size_t at_ = 0;  // index of the next record
  OperationTable& operations_;
  bool kernel_names_;
  bool frames_;
  Nanoseconds shift_;
  EventTraceStats read_stats_;  // what reading found
  EventTraceStats stats_;

  std::vector<Node> nodes_;
  std::vector<NodeId> named_nodes_;                                  // of kNamed operations, by name
  std::unordered_map<std::uint64_t, NodeId> children_;               // by parent and name
  std::unordered_map<std::uint64_t, std::uint32_t> siblings_;        // numbered names by parent and name in the trace
  std::unordered_map<std::uint64_t, std::uint32_t> sibling_counts_;  // by parent and class
  std::vector<Lane> lanes_;
  std::vector<Launch> launches_;
  std::vector<Launch> externals_;
  std::vector<Forward> forwards_;
  std::vector<EventRecord> waiting_;  // kernels whose launch has not come, in order of time
  std::vector<std::uint64_t> recent_edges_;
  Nanoseconds now_ = 0;
  bool at_end_ = false;

  std::vector<TraceEvent> pending_;
  std::vector<TraceEvent> ready_;  // in order
  std::size_t ready_at_ = 0;
};

}  // namespace flyball
