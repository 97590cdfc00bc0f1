// Any bytes as an event trace: events in order of time of known devices and operations, or an Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "event_order.h"
#include "trace/event_trace.h"

namespace {

void read(std::string_view text, flyball::EventFormat format) {
  flyball::OperationTable operations;
  flyball::DeviceTable devices;
  flyball::EventTraceOptions options;
  options.format = format;
  options.frames = true;
  const auto trace = flyball::open_event_text("fuzz.json", text, options, operations, devices);
  flyball::require_order(*trace, operations, devices);
  for (const flyball::OperationEdge& edge : operations.edges()) {
    flyball::require(edge.from < operations.size() && edge.to < operations.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto format :
       {flyball::EventFormat::kDetect, flyball::EventFormat::kTensorFlow, flyball::EventFormat::kKineto,
        flyball::EventFormat::kChrome, flyball::EventFormat::kXProf}) {
    try {
      read(text, format);
    } catch (const flyball::Error&) {
    }
  }
  return 0;
}
