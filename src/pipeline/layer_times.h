// The layers of a model with the time of each, as `flyball partition` takes them (docs/manual/partition.md).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace flyball {

// In the order in which the model runs them; both have one entry per layer, of which there is at least one.
struct LayerTimes {
  std::vector<std::string> names;
  std::vector<Seconds> times;  // forward time of one microbatch, above 0
};

// Reads the CSV layer,time (s); further columns are ignored. `source` is the name of the file in errors. Throws
// InputError with line and column where the text is no such table, a time is not above 0, or numbered layers do not
// count up by one. Cost: linear.
[[nodiscard]] LayerTimes read_layer_times(const std::string& source, std::string_view text);

// The same of a file. Throws SystemError, too, where it cannot be read.
[[nodiscard]] LayerTimes read_layer_times_file(const std::filesystem::path& path);

}  // namespace flyball
