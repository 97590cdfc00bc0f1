// Any bytes as an event trace: events in order of time of known devices and operations, the same in a little memory and
// in none, or an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "account/event_trace.h"
#include "base/error.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

struct Sum {
  std::uint64_t executions = 0;
  std::uint64_t busy = 0;  // ns, modulo 2^64
};

Sum read(std::string_view text, std::size_t memory_bytes, flyball::EventFormat format) {
  flyball::OperationTable operations;
  flyball::DeviceTable devices;
  flyball::EventTraceOptions options;
  options.memory_bytes = memory_bytes;
  options.format = format;
  options.frames = true;
  const auto trace = flyball::open_event_text("fuzz.json", text, options, operations, devices);
  flyball::TraceEvent event;
  flyball::Nanoseconds before = std::numeric_limits<flyball::Nanoseconds>::min();
  Sum sum;
  while (trace->next(event)) {
    require(event.begin >= before && event.end >= event.begin);
    require(event.device < devices.size() && event.operation < operations.size());
    before = event.begin;
    sum.busy += static_cast<std::uint64_t>(event.end) - static_cast<std::uint64_t>(event.begin);
  }
  for (const flyball::OperationEdge& edge : operations.edges()) {
    require(edge.from < operations.size() && edge.to < operations.size());
  }
  sum.executions = trace->stats().executions;
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto format : {flyball::EventFormat::kDetect, flyball::EventFormat::kTensorFlow,
                            flyball::EventFormat::kKineto, flyball::EventFormat::kChrome}) {
    try {
      const Sum plenty = read(text, std::size_t{1} << 20, format);
      const Sum little = read(text, 1, format);
      require(plenty.executions == little.executions && plenty.busy == little.busy);
    } catch (const flyball::Error&) {
    }
  }
  return 0;
}
