// Any bytes as a power trace: segments in order that do not overlap on a device, or an Error.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <string_view>

#include "base/error.h"
#include "trace/power_trace.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void read(std::string_view text, flyball::PowerFormat format, bool add_up) {
  flyball::DeviceTable devices;
  flyball::PowerTraceOptions options;
  options.format = format;
  if (add_up) options.device_names = {{"GPU:1", "GPU:0"}, {"CPU:0", "GPU:0"}};
  const auto trace = flyball::open_power_text("fuzz.csv", text, options, devices);
  std::map<flyball::DeviceId, flyball::Nanoseconds> ends;
  flyball::PowerSegment segment;
  flyball::Nanoseconds before = std::numeric_limits<flyball::Nanoseconds>::min();
  while (trace->next(segment)) {
    require(segment.begin >= before && segment.end > segment.begin);
    require(segment.device < devices.size() && std::isfinite(segment.power.value()) && segment.power.value() >= 0.0);
    const auto [end, fresh] = ends.try_emplace(segment.device, segment.end);
    require(fresh || segment.begin >= end->second);
    end->second = segment.end;
    before = segment.begin;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  using flyball::PowerFormat;
  for (const auto format :
       {PowerFormat::kDetect, PowerFormat::kFlyball, PowerFormat::kCsv, PowerFormat::kNvidiaSmi, PowerFormat::kDcgm,
        PowerFormat::kZeus, PowerFormat::kPrometheusText, PowerFormat::kPrometheus}) {
    for (const bool add_up : {false, true}) {
      try {
        read(text, format, add_up);
      } catch (const flyball::Error&) {
      }
    }
  }
  return 0;
}
