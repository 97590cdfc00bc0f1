// Any bytes as a model's layers: a name and a time above zero for each, which can be parted, or an Error.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/error.h"
#include "pipeline/layer_times.h"
#include "pipeline/partition.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kParted = 32;  // layers at most: the time goes to the reader
  try {
    const flyball::LayerTimes layers =
        flyball::read_layer_times("fuzz.csv", std::string_view(reinterpret_cast<const char*>(data), size));
    if (layers.times.empty() || layers.names.size() != layers.times.size()) std::abort();
    for (const flyball::Seconds time : layers.times) {
      if (!(time > flyball::Seconds(0))) std::abort();
    }
    const std::span some = std::span(layers.times).first(std::min(kParted, layers.times.size()));
    const int stages = static_cast<int>(std::min<std::size_t>(some.size(), 3));
    if (flyball::partition_layers(some, stages).stage_times.size() != static_cast<std::size_t>(stages)) std::abort();
  } catch (const flyball::Error&) {
  }
  return 0;
}
