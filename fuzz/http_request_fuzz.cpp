// Any bytes as what the server and the client parse by hand: a request's target and an event stream.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "net/event_parser.h"
#include "net/query_string.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto target = flyball::parse_target(text)) {
    if (!target->path.starts_with('/')) std::abort();
    for (const auto& [name, value] : target->query.pairs()) {
      if (flyball::percent_decode(flyball::percent_encode(value)) != value) std::abort();
    }
  }
  try {
    // However the bytes are cut, the events are the same.
    flyball::EventParser whole(4096);
    const std::size_t events = whole.feed(text).size();
    flyball::EventParser single(4096);
    std::size_t count = 0;
    for (std::size_t i = 0; i < size; ++i) count += single.feed(text.substr(i, 1)).size();
    if (count != events) std::abort();
  } catch (const flyball::Error&) {
  }
  return 0;
}
