// What an event trace is between the reading of its file and the sweep: records of one size, and the names they refer to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "account/event_trace.h"
#include "account/external_sort.h"
#include "account/string_pool.h"
#include "account/trace.h"

namespace flyball {

enum class RecordKind : std::uint8_t {
  kOperation,  // a call on a thread, with nested ones inside
  kScope,      // a module or an annotation: part of the names of what lies in it, but no work of its own
  kRuntime,    // a call of the GPU's runtime: launches the work with its correlation
  kDevice,     // what a GPU did
  kBegin,      // of an operation whose end is a record of its own
  kEnd,
  kNamed,  // work with its full name, on a lane without nesting
};

inline constexpr std::int64_t kNoLink = -1;

struct EventRecord {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  std::int64_t link = kNoLink;  // operation: sequence number; runtime, device: correlation
  std::uint32_t external = 0;   // PyTorch's External id, modulo 2^32; 0: none
  std::uint32_t name = 0;
  std::uint32_t module = 0;  // path of the module as the operation itself tells it; 0: it does not
  std::uint32_t lane = 0;
  RecordKind kind = RecordKind::kOperation;
  Phase phase = Phase::kUnknown;
  bool tied = false;  // to the forward operation with its sequence number

  [[nodiscard]] std::uint64_t sort_key() const { return static_cast<std::uint64_t>(begin) ^ (std::uint64_t{1} << 63); }
  // What encloses comes first.
  [[nodiscard]] bool comes_before(const EventRecord& other) const { return end > other.end; }
};

// A thread, or a stream of a GPU.
struct EventLane {
  std::uint32_t process = 0;  // names in the pool
  std::uint32_t thread = 0;
  bool on_gpu = false;  // the process is the GPU's number
  bool dropped = false;
  DeviceId device = 0;  // once all of the file is read
};

// All of a trace file, or of one part of it.
struct EventRecords {
  // The records of a later part, and which name and lane of the whole file each of its own is.
  struct LaterPart {
    std::unique_ptr<EventRecords> records;
    std::vector<std::uint32_t> names;
    std::vector<std::uint32_t> lanes;
    EventRecord head{};  // the earliest that next() has not given
    bool ended = true;
  };

  explicit EventRecords(std::size_t memory_bytes) : sorter(memory_bytes) {}

  // Of all parts, in order of time; of records that are equal in it those that stand earlier in the file first. The
  // sorters are finished before, and the parts do not change any more.
  [[nodiscard]] bool next(EventRecord& record);
  void rewind();
  [[nodiscard]] std::uint64_t spilled_bytes() const;

  ExternalSorter<EventRecord> sorter;  // of the first part
  std::vector<LaterPart> later_parts;  // in order; all else is of the whole file
  StringPool names;
  std::vector<EventLane> lanes;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> inputs;  // names of kNamed operations: what feeds what
  std::vector<Phase> named_phases;                              // of kNamed operations, by name
  std::vector<bool> named;                                      // which names are such operations'
  Nanoseconds base_time = 0;
  bool has_runtime = false;
  bool has_time = false;  // stats.first and stats.last are known
  EventTraceStats stats;

 private:
  static void advance(LaterPart& part);

  EventRecord head_{};  // the first part's, where there are later ones
  bool ended_ = true;
};

}  // namespace flyball
