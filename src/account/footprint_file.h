// Reads the footprint files that `flyball account --json` writes (docs/formats/footprint.md).
#pragma once

#include <string>
#include <string_view>

#include "account/footprint.h"

namespace flyball {

// Return a footprint with its rows merged and sorted, whatever their order in the file. Throw InputError; the second
// also SystemError.
[[nodiscard]] Footprint read_footprint(const std::string& source, std::string_view text);
[[nodiscard]] Footprint read_footprint_file(const std::string& path);

}  // namespace flyball
