// Any bytes as what the server parses by hand: a request's target.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "net/query_string.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto target = flyball::parse_target(text)) {
    if (!target->path.starts_with('/')) std::abort();
    for (const auto& [name, value] : target->query.pairs()) {
      if (flyball::percent_decode(flyball::percent_encode(value)) != value) std::abort();
    }
  }
  return 0;
}
