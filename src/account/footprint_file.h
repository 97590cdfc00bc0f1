// A footprint as a file: what `flyball account --json` writes (docs/formats/footprint.md), read back.
#pragma once

#include <string>
#include <string_view>

#include "account/footprint.h"

namespace flyball {

// Rows come merged and in order, whatever their order in the file. Throws InputError; the file also SystemError.
[[nodiscard]] Footprint read_footprint(const std::string& source, std::string_view text);
[[nodiscard]] Footprint read_footprint_file(const std::string& path);

}  // namespace flyball
