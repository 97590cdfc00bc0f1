// Turns the entries of a trace file into records: finds out which entries are executions, on which lane, and in which
// phase.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "trace/event_record.h"
#include "trace/event_trace.h"
#include "trace/json_events.h"

namespace flyball {

// Not thread-safe.
class EventRecorder {
 public:
  // `options` and `records` must outlive the recorder.
  EventRecorder(EventFormat format, const EventTraceOptions& options, EventRecords& records);

  void take(const JsonEvent& event);

  // Gives lanes their devices. Must be called after the last entry.
  void finish(DeviceTable& devices);

 private:
  enum class KinetoKind : std::uint8_t { kIgnored, kOperation, kAnnotation, kPython, kRuntime, kDevice, kProfile };

  // What TensorFlow's name and type of an operation tell. It is worked out once, since operations repeat.
  struct NamedOperation {
    bool known = false;
    std::string type;
    std::uint32_t name = 0;  // without the number of its output
    Phase phase = Phase::kUnknown;
  };

  static KinetoKind kineto_kind(std::string_view category);
  void take_module_path(const JsonEvent& event);
  void take_kineto(const JsonEvent& event);
  void take_chrome(const JsonEvent& event);
  void take_tensorflow(const JsonEvent& event);
  void take_xprof(const JsonEvent& event);
  [[nodiscard]] bool is_xprof_work(const JsonEvent& event) const;  // on a device
  const NamedOperation& xprof_operation(const JsonEvent& event);
  const NamedOperation& named_operation(std::string_view name, std::string_view type);
  void take_metadata(const JsonEvent& event);
  [[nodiscard]] std::string_view process_name(std::string_view process) const;
  [[nodiscard]] std::string_view thread_name(std::string_view process, std::string_view thread) const;  // or nothing
  void drop(const char* reason);
  bool read_begin(const JsonEvent& event, EventRecord& record);
  bool read_times(const JsonEvent& event, EventRecord& record);
  void set_named(std::uint32_t name, Phase phase);
  void add_input(std::uint32_t from, std::uint32_t to);
  std::uint32_t lane_of(std::string_view process, std::string_view thread, bool on_gpu);
  // Returns the device's name in the trace, and its name here.
  [[nodiscard]] std::pair<std::string, std::string> device_of(const EventLane& lane, bool& dropped) const;
  [[nodiscard]] std::string tensorflow_device(std::string_view process, bool& dropped) const;
  void add(const EventRecord& record);
  void cover(Nanoseconds begin, Nanoseconds end);
  void add_step(const EventRecord& record);

  EventFormat format_;
  const EventTraceOptions& options_;
  EventRecords& records_;

  std::unordered_map<std::string, std::uint32_t, StringHash, std::equal_to<>> lane_index_;
  std::string lane_key_;
  std::uint32_t last_lane_ = 0;
  bool has_paths_ = false;    // whether any module states its path
  bool has_modules_ = false;  // whether the profiler itself tells modules
  std::unordered_map<std::string, std::string, StringHash, std::equal_to<>> process_names_;
  std::unordered_map<std::string, std::string, StringHash, std::equal_to<>> thread_names_;  // by process and thread
  std::vector<NamedOperation> named_operations_;  // by the name as it stands in the trace
  std::unordered_map<std::string, NamedOperation, StringHash, std::equal_to<>> xprof_operations_;  // by their text
  std::string xprof_key_;
  std::vector<std::string> streamed_gpus_;  // GPUs of whose streams TensorFlow's trace has entries
  std::unordered_set<std::string, StringHash, std::equal_to<>> streamed_;  // processes of XProf with lines of streams
  std::unordered_set<std::uint64_t> known_inputs_;
  std::unordered_map<const char*, std::uint64_t> dropped_;
};

// Returns "GPU:3" for a text that names that device ("/device:GPU:3/stream:all Compute", "GPU 3", "gpu3"); empty if it
// names none.
[[nodiscard]] std::string device_in(std::string_view text);

// Returns a kernel's name without its return type, template arguments and parameters:
// "void at::native::vectorized_elementwise_kernel<4, ...>(int, ...)" -> "at::native::vectorized_elementwise_kernel".
[[nodiscard]] std::string_view kernel_name(std::string_view name);

}  // namespace flyball
