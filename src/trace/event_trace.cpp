// A file goes through ByteSource, JsonEventReader (or the reader of XSpace files) and EventRecorder into EventRecords,
// which are sorted and given to EventSweep. Formats are recognised by words that only one writer uses.
#include "trace/event_trace.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "trace/byte_source.h"
#include "trace/event_record.h"
#include "trace/event_recorder.h"
#include "trace/event_sweep.h"
#include "trace/json_events.h"
#include "trace/nsys_events.h"
#include "trace/xplane_file.h"

namespace flyball {
namespace {

// Whether one of the words is between two quotes. There are many quotes, so that one pass looks for all words.
bool quotes(std::string_view text, std::initializer_list<std::string_view> words) {
  for (std::size_t open = text.find('"'); open != std::string_view::npos;) {
    const std::size_t close = text.find('"', open + 1);
    const std::string_view quoted = text.substr(open + 1, close - open - 1);
    if (std::find(words.begin(), words.end(), quoted) != words.end()) return true;
    open = close;
  }
  return false;
}

// Recognises the format by the beginning of the file.
EventFormat detect(const JsonEventReader& reader) {
  const std::string_view text = reader.beginning();
  if (reader.has_pytorch_header()) return EventFormat::kKineto;
  if (quotes(text, {"cpu_op", "python_function", "cuda_runtime", "gpu_memcpy", "Operator", "user_annotation", "kernel",
                    "Kernel"})) {
    return EventFormat::kKineto;
  }
  if (quotes(text, {"highres-ticks"}) && (contains(text, "\"/host:") || contains(text, "\"/device:"))) {
    return EventFormat::kXProf;
  }
  if (contains(text, "/device:") || contains(text, "/job:") || contains(text, "/gpu:") || contains(text, "/cpu:")) {
    return EventFormat::kTensorFlow;
  }
  return EventFormat::kChrome;
}

// Sorts what was recorded, when its stats are complete.
std::unique_ptr<EventTrace> sweep_of(std::unique_ptr<EventRecords> records, const EventTraceOptions& options,
                                     OperationTable& operations) {
  records->sort();
  return std::make_unique<EventSweep>(std::move(records), options, operations);
}

std::unique_ptr<EventTrace> read_space(ByteSource& bytes, const EventTraceOptions& options, OperationTable& operations,
                                       DeviceTable& devices) {
  auto records = std::make_unique<EventRecords>();
  EventRecorder recorder(EventFormat::kXProf, options, *records);
  const XPlaneStats read = read_xplane(
      bytes, [&](const JsonEvent& event) { recorder.take(event); },
      [&](double share) {
        if (options.progress) options.progress(share);
      });
  recorder.finish(devices);
  records->base_time = read.base_time;
  records->stats.format = EventFormat::kXProf;
  records->stats.file_bytes = read.file_bytes;
  records->stats.entries = read.entries;
  if (read.aggregated > 0)
    records->stats.dropped.push_back({"one count of several events, without times", read.aggregated});
  return sweep_of(std::move(records), options, operations);
}

std::unique_ptr<EventTrace> read_trace(ByteSource& bytes, const EventTraceOptions& options, OperationTable& operations,
                                       DeviceTable& devices) {
  if (is_xplane(bytes)) return read_space(bytes, options, operations, devices);
  JsonEventReader reader(bytes);
  const EventFormat format = options.format == EventFormat::kDetect ? detect(reader) : options.format;
  auto records = std::make_unique<EventRecords>();
  EventRecorder recorder(format, options, *records);
  reader.read([&](const JsonEvent& event) { recorder.take(event); },
              [&](double share) {
                records->make_room(share);
                if (options.progress) options.progress(share);
              });
  recorder.finish(devices);
  records->base_time = reader.base_time();
  EventTraceStats& stats = records->stats;
  stats.format = format;
  stats.file_bytes = reader.file_bytes();
  stats.entries = reader.entries();
  stats.truncated = reader.truncated();
  stats.truncated_at = reader.whole_bytes();
  if (reader.not_objects() > 0) stats.dropped.push_back({"an entry that is no object", reader.not_objects()});
  return sweep_of(std::move(records), options, operations);
}

}  // namespace

std::unique_ptr<EventTrace> open_event_trace(const std::string& path, const EventTraceOptions& options,
                                             OperationTable& operations, DeviceTable& devices) {
  if (is_nsys(path)) {
    auto records = std::make_unique<EventRecords>();
    read_nsys(path, options, devices, *records);
    return sweep_of(std::move(records), options, operations);
  }
  ByteSource bytes(path);
  return read_trace(bytes, options, operations, devices);
}

std::unique_ptr<EventTrace> open_event_text(const std::string& source, std::string_view text,
                                            const EventTraceOptions& options, OperationTable& operations,
                                            DeviceTable& devices) {
  ByteSource bytes(source, text);
  return read_trace(bytes, options, operations, devices);
}

}  // namespace flyball
