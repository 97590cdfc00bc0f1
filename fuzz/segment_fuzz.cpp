// Any bytes as a segment's rows: a segment with options at each of its clocks, or an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "profile/segment.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const flyball::Segment segment =
        flyball::read_segment("fuzz.jsonl", std::string_view(reinterpret_cast<const char*>(data), size));
    if (segment.at.empty()) std::abort();
    for (const auto& [clock, options] : segment.at) {
      if (options.empty()) std::abort();
      for (const flyball::SegmentOption& option : options) {
        if (option.setting.empty() == segment.has_settings() || !(option.time > flyball::Seconds(0))) std::abort();
      }
    }
  } catch (const flyball::Error&) {
  }
  return 0;
}
