// Any bytes as a composition file: a profile that is composed and read back, or an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "profile/composition.h"

namespace {

flyball::Segment segment_named(const std::string& file) {
  using flyball::Joules;
  using flyball::Seconds;
  flyball::Segment segment{file, {}};
  const bool plain = file.starts_with("plain");
  for (const double clock : {1410.0, 1200.0}) {
    auto& options = segment.at[flyball::Megahertz(clock)];
    options.push_back({plain ? "" : "a-none-6-1024", Seconds(0.001), Joules(0.3)});
    if (!plain) options.push_back({"b-none-12-1024", Seconds(0.0012), Joules(0.25)});
  }
  return segment;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  flyball::ComposedProfile composed;
  try {
    const flyball::Composition composition = flyball::read_composition(
        "fuzz.toml", std::string_view(reinterpret_cast<const char*>(data), size), segment_named);
    // Many stages or segments are allowed but would make the fuzzer slow.
    if (composition.layers.size() > 20) return 0;
    for (const flyball::ComposedOperation& operation : composition.operations) {
      if (operation.uses.size() > 6) return 0;
    }
    composed = flyball::compose_profile(composition, {});
  } catch (const flyball::Error&) {
    return 0;
  }
  const std::string text = flyball::write_profile(composed.profile, {});
  try {
    const flyball::Profile again = flyball::read_profile("again.csv", text);
    if (again.operations.size() != composed.profile.operations.size()) std::abort();
  } catch (const flyball::Error&) {
    std::abort();
  }
  return 0;
}
