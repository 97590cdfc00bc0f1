#include "account/event_trace.h"

#include <algorithm>
#include <functional>
#include <future>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "account/byte_source.h"
#include "account/event_record.h"
#include "account/event_recorder.h"
#include "account/event_sweep.h"
#include "account/json_events.h"
#include "account/list_cuts.h"
#include "base/error.h"
#include "base/processors.h"

namespace flyball {
namespace {

bool holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Whether one of the words stands between two quotes. Quotes are many, so the text is gone through once for all words.
bool quotes(std::string_view text, std::initializer_list<std::string_view> words) {
  for (std::size_t open = text.find('"'); open != std::string_view::npos;) {
    const std::size_t close = text.find('"', open + 1);
    const std::string_view quoted = text.substr(open + 1, close - open - 1);
    if (std::find(words.begin(), words.end(), quoted) != words.end()) return true;
    open = close;
  }
  return false;
}

// By what only one writer writes, in the beginning of the file.
EventFormat detect(const JsonEventReader& reader) {
  const std::string_view text = reader.beginning();
  if (reader.has_header_key("schemaVersion") || reader.has_header_key("deviceProperties")) return EventFormat::kKineto;
  if (quotes(text, {"cpu_op", "python_function", "cuda_runtime", "gpu_memcpy", "Operator", "user_annotation", "kernel",
                    "Kernel"})) {
    return EventFormat::kKineto;
  }
  if (holds(text, "/device:") || holds(text, "/job:") || holds(text, "/gpu:") || holds(text, "/cpu:")) {
    return EventFormat::kTensorFlow;
  }
  return EventFormat::kChrome;
}

// A part of a trace file, or all of it, on its way to records.
struct TracePart {
  TracePart(std::unique_ptr<JsonEventReader> from, EventFormat format, const EventTraceOptions& options,
            std::size_t memory_bytes)
      : reader(std::move(from)),
        records(std::make_unique<EventRecords>(memory_bytes)),
        recorder(format, options, *records) {}

  void read(const std::function<void(double)>& progress) {
    reader->read([this](const JsonEvent& event) { recorder.take(event); }, progress);
    records->sorter.finish();
  }

  std::unique_ptr<JsonEventReader> reader;
  std::unique_ptr<EventRecords> records;
  EventRecorder recorder;
};

using TraceParts = std::vector<std::unique_ptr<TracePart>>;

EventFormat format_of(const JsonEventReader& reader, const EventTraceOptions& options) {
  return options.format == EventFormat::kDetect ? detect(reader) : options.format;
}

// Puts parts that are read together.
std::unique_ptr<EventTrace> sweep_over(TraceParts parts, EventFormat format, const EventTraceOptions& options,
                                       OperationTable& operations, DeviceTable& devices) {
  TracePart& first = *parts.front();
  const JsonEventReader& last = *parts.back()->reader;
  EventTraceStats& stats = first.records->stats;
  stats.format = format;
  std::uint64_t not_objects = 0;
  for (const auto& part : parts) {
    stats.entries += part->reader->entries();
    not_objects += part->reader->not_objects();
    if (part.get() != &first) first.recorder.append(std::move(part->recorder), std::move(part->records));
  }
  first.recorder.finish(devices);
  stats.file_bytes = last.file_bytes();
  stats.truncated = last.truncated();
  stats.truncated_at = last.whole_bytes();
  if (not_objects > 0) stats.dropped.push_back({"an entry that is no object", not_objects});
  first.records->base_time = last.base_time();
  return std::make_unique<EventSweep>(std::move(first.records), options, operations);
}

std::unique_ptr<EventTrace> read_trace(const std::string& name, std::unique_ptr<ByteSource> bytes,
                                       const EventTraceOptions& options, OperationTable& operations,
                                       DeviceTable& devices) {
  auto reader = std::make_unique<JsonEventReader>(name, std::move(bytes));
  const EventFormat format = format_of(*reader, options);
  TraceParts parts;
  parts.push_back(std::make_unique<TracePart>(std::move(reader), format, options, options.memory_bytes));
  parts.front()->read(options.progress);
  return sweep_over(std::move(parts), format, options, operations, devices);
}

// Reads the parts of a file at once. Throws InputError also where one of them does not end with a whole entry.
TraceParts read_parts(const std::string& path, const std::vector<std::uint64_t>& cuts, EventFormat& format,
                      const EventTraceOptions& options) {
  constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();
  const std::size_t memory_bytes = options.memory_bytes / (cuts.size() + 1);
  auto reader = std::make_unique<JsonEventReader>(path, open_range(path, 0, cuts.front()));
  format = format_of(*reader, options);
  TraceParts parts;
  parts.push_back(std::make_unique<TracePart>(std::move(reader), format, options, memory_bytes));
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    auto bytes = open_range(path, cuts[i], i + 1 < cuts.size() ? cuts[i + 1] : kNoEnd);
    reader = std::make_unique<JsonEventReader>(*parts.front()->reader, std::move(bytes), cuts[i]);
    parts.push_back(std::make_unique<TracePart>(std::move(reader), format, options, memory_bytes));
  }
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    others.push_back(std::async(std::launch::async, [&part = *parts[i]] { part.read({}); }));
  }
  parts.front()->read(options.progress);
  for (std::future<void>& other : others) other.get();
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const JsonEventReader& part = *parts[i]->reader;
    if (!part.truncated() || part.whole_bytes() != cuts[i]) throw InputError({path}, "a part ends in an entry", "");
  }
  return parts;
}

unsigned threads_of(const EventTraceOptions& options) {
  constexpr unsigned kMost = 4;
  return options.threads > 0 ? options.threads : std::min(usable_processors(), kMost);
}

}  // namespace

std::string_view name_of(EventFormat format) {
  switch (format) {
    case EventFormat::kDetect: return "detect";
    case EventFormat::kTensorFlow: return "tensorflow";
    case EventFormat::kKineto: return "kineto";
    case EventFormat::kChrome: return "chrome";
  }
  return "?";
}

std::unique_ptr<EventTrace> open_event_trace(const std::string& path, const EventTraceOptions& options,
                                             OperationTable& operations, DeviceTable& devices) {
  const unsigned threads = threads_of(options);
  const std::vector<std::uint64_t> cuts = find_list_cuts(path, threads);
  if (!cuts.empty()) {
    try {
      EventFormat format = options.format;
      TraceParts parts = read_parts(path, cuts, format, options);
      return sweep_over(std::move(parts), format, options, operations, devices);
    } catch (const InputError&) {
      // A damaged file, or one that was cut where no entry begins: reading from end to end says which.
    }
  }
  return read_trace(path, open_bytes(path, threads > 1), options, operations, devices);
}

std::unique_ptr<EventTrace> open_event_text(const std::string& source, std::string_view text,
                                            const EventTraceOptions& options, OperationTable& operations,
                                            DeviceTable& devices) {
  return read_trace(source, bytes_of(source, text), options, operations, devices);
}

}  // namespace flyball
