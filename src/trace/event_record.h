// An event trace after its file has been read and before the sweep: records of one size, and the names that they use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "trace/event_trace.h"
#include "trace/string_pool.h"
#include "trace/trace.h"

namespace flyball {

enum class RecordKind : std::uint8_t {
  kOperation,  // a call on a thread, with nested calls inside
  kScope,      // a module or an annotation: part of the names of what runs within it, but no work itself
  kRuntime,    // a call of the GPU's runtime, which launches the work with its correlation
  kDevice,     // what a GPU did
  kBegin,      // the begin of an operation whose end is a record of its own
  kEnd,        // such an end
  kNamed,      // work with its full name, on a lane without nesting
  kNamedCall,  // a call with its full name, whatever is around it
};

inline constexpr std::int64_t kNoLink = -1;
inline constexpr unsigned kLaneBits = 26;
inline constexpr std::uint32_t kLastLane = (1u << kLaneBits) - 1;

struct EventRecord {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  std::int64_t link = kNoLink;  // operation: sequence number; runtime, device: correlation
  std::uint32_t external = 0;   // PyTorch's External id, modulo 2^32; 0: none
  std::uint32_t name = 0;
  // Operation: path of the module, where it states one; else 0. Scope: class of the module, whose name is that with a
  // number (Conv2d_17); else 0.
  std::uint32_t module = 0;
  std::uint32_t lane : kLaneBits = 0;
  RecordKind kind : 3 = RecordKind::kOperation;
  Phase phase : 2 = Phase::kUnknown;
  // Operation: whether it belongs to the forward operation with its sequence number. Scope: whether its name is the
  // path of a module from the model on (encoder/layer/3).
  bool tied : 1 = false;
};
static_assert(sizeof(EventRecord) == 40, "a trace holds millions");

// A thread, or a stream of a GPU.
struct EventLane {
  std::uint32_t process = 0;  // names in the pool
  std::uint32_t thread = 0;
  bool on_gpu = false;  // if true, the process is the GPU's number
  bool dropped = false;
  DeviceId device = 0;  // known once all of the file is read
};

// All of a trace file.
struct EventRecords {
  // Sorts by time. An enclosing record comes before those within it, and equal records keep the file's order. A file
  // that has its threads one after the other consists of a few sorted stretches, which are merged pair by pair.
  void sort() {
    const auto before = [](const EventRecord& a, const EventRecord& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    };
    std::vector<std::vector<EventRecord>::iterator> ends{records.begin()};
    while (ends.back() != records.end()) {
      if (ends.size() > kMostStretches) return std::stable_sort(records.begin(), records.end(), before);
      ends.push_back(std::is_sorted_until(ends.back(), records.end(), before));
    }
    while (ends.size() > 2) {
      std::size_t left = 1;
      for (std::size_t i = 2; i < ends.size(); i += 2) {
        std::inplace_merge(ends[i - 2], ends[i - 1], ends[i], before);
        ends[left++] = ends[i];
      }
      if (ends.back() != ends[left - 1]) ends[left++] = ends.back();
      ends.resize(left);
    }
  }

  // Reserves room for the records of the whole file when `share` of it has been read, since a vector that grows by
  // doubling holds up to half of its records twice. Reserved memory that is not used costs nothing.
  void make_room(double share) {
    if (share <= 0.0 || records.capacity() - records.size() > kNextBlock) return;
    const double all = 1.25 * static_cast<double>(records.size()) / share;
    if (all > kMostReserved) return;
    try {
      records.reserve(static_cast<std::size_t>(all));
    } catch (const std::bad_alloc&) {  // the rest of the file may hold less than estimated
    }
  }

  std::vector<EventRecord> records;
  StringPool names;
  std::vector<EventLane> lanes;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> inputs;  // of kNamed operations, by name: which feeds which
  std::vector<Phase> named_phases;                              // of kNamed operations, by name
  std::vector<bool> named;                                      // by name: whether it is that of a kNamed operation
  Nanoseconds base_time = 0;
  bool has_runtime = false;
  bool has_time = false;  // whether stats.first and stats.last are known
  EventTraceStats stats;

 private:
  static constexpr std::size_t kMostStretches = 32;  // with more, sorting is as fast
  static constexpr std::size_t kNextBlock = 16384;   // more records than come from one block of text
  static constexpr double kMostReserved = 1e8;
};

}  // namespace flyball
