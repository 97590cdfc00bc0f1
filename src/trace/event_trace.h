// Reads event traces of the frameworks, plain or gzip: TensorFlow's timeline, PyTorch's profiler (Kineto and the older
// one), XProf (the profiler of TensorFlow 2 and JAX), any Chrome trace; and exports of Nsight Systems.
// docs/formats/event-trace.md says which entries are read and how they become operations.
//
// Opening reads the file once, block by block, into records of 40 bytes, and sorts them by time; the file may be in any
// order. next() then sweeps over the records in order of time, joins kernels with the operations that launched them and
// backward with forward, and names what ran. Memory: 60 bytes for each record while they are sorted and 40 afterwards,
// and some more for each name, thread and nested call.
//
// Of nested calls on one thread only the innermost runs: a parent's event has a hole where its child is, so that one
// thread never counts as two. An event may come in several adjoining pieces, which mean the same as their union.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.h"
#include "trace/operation_table.h"
#include "trace/trace.h"

namespace flyball {

enum class EventFormat : std::uint8_t { kDetect, kTensorFlow, kKineto, kChrome, kXProf, kNsys };
template <>
inline constexpr auto kNamesOf<EventFormat> = name_list("detect", "tensorflow", "kineto", "chrome", "xprof", "nsys");

// Which name of a generic Chrome trace tells the device. A name tells one if it contains it ("GPU 3", "/device:GPU:3").
enum class ChromeDevice : std::uint8_t {
  kProcess,  // the process's name
  kThread,   // the thread's name
  kNone,     // all of it ran on CPU:0
};

struct EventTraceOptions {
  EventFormat format = EventFormat::kDetect;
  ChromeDevice chrome_device = ChromeDevice::kProcess;
  // Maps a device's name in the trace to its name here ("python" to "CPU:0"), before any other rule.
  std::map<std::string, std::string, std::less<>> device_names;
  // Whether GPU kernels are operations of their own, below the framework's operation that launched them.
  bool kernel_names = false;
  // Whether the time that a module or an annotation spends outside every operation (in the interpreter, mostly) is an
  // operation of the module's name; otherwise it belongs to no operation.
  bool frames = false;
  Nanoseconds shift = 0;                 // added to every time
  std::function<void(double)> progress;  // called with the share of the file that has been read, in [0, 1]
};

// A reason for which executions are not in the result, and their number.
struct DroppedEvents {
  std::string reason;
  std::uint64_t count = 0;
};

// A device's name in the trace ("GPU:0", or the text that the options map), and the device that it is here.
struct TracedDevice {
  std::string name;
  DeviceId device = 0;
};

// A step of the training, as its profiler calls it.
struct StepSpan {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
};

struct EventTraceStats {
  EventFormat format = EventFormat::kDetect;
  std::uint64_t file_bytes = 0;        // after inflating
  std::uint64_t entries = 0;           // of the file's list, of whatever kind
  std::uint64_t executions = 0;        // entries that became a part of the result
  std::vector<DroppedEvents> dropped;  // executions that did not; entries of other kinds are not counted
  std::uint64_t untied_kernels = 0;    // GPU work whose launch is not in the trace; it is named after the kernel
  std::uint64_t untied_backward = 0;   // backward operations whose forward is not in the trace
  std::uint64_t too_deep = 0;      // calls below more than 1,000 others, which count as the innermost that has a name
  std::uint64_t unfinished = 0;    // begun (B) and never ended; they count as ended with the trace
  bool without_modules = false;    // PyTorch: neither modules nor paths of modules are in the trace
  bool truncated = false;          // the file ends in the middle of an entry; all before that was read
  std::uint64_t truncated_at = 0;  // the byte at which the last whole entry ended
  std::vector<TracedDevice> devices;  // each name once, in order of name; without those dropped
  std::vector<std::string> missing;   // what a format that may lack parts lacks, and what follows; one sentence each
  Nanoseconds first = 0;              // begin of the earliest execution, module, annotation, step or span; shifted
  Nanoseconds last = 0;               // end of the latest; shifted
  std::vector<StepSpan> steps;        // in order of time, none within another; shifted
};

class EventTrace : public EventSource {
 public:
  // What was found in the file. The counts of untied work and of drops that only the sweep finds are complete when
  // next() has returned false, all others from the beginning.
  [[nodiscard]] virtual const EventTraceStats& stats() const = 0;

  // Starts from the beginning again, with every time moved by `shift` (instead of the options'). The file is not read
  // again.
  virtual void rewind(Nanoseconds shift) = 0;
};

// Opens a trace. Throws SystemError where the file cannot be read, and InputError where the text is no trace of the
// format (file, line 0, the byte in the message). A file that is cut off is no error: see the stats. The tables must
// outlive the trace; operations are added to their table as next() meets them.
[[nodiscard]] std::unique_ptr<EventTrace> open_event_trace(const std::string& path, const EventTraceOptions& options,
                                                           OperationTable& operations, DeviceTable& devices);

// Opens a trace in memory in the same way. `text` must outlive only the call; `source` is its name in error messages.
[[nodiscard]] std::unique_ptr<EventTrace> open_event_text(const std::string& source, std::string_view text,
                                                          const EventTraceOptions& options, OperationTable& operations,
                                                          DeviceTable& devices);

}  // namespace flyball
