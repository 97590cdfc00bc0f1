// A footprint as JSON (docs/formats/footprint.md): what `flyball account --json` writes and `account diff` reads.
#pragma once

#include <string>
#include <string_view>

#include "account/footprint.h"

namespace flyball {

// A member at a time; bytes that are no UTF-8 are replaced.
[[nodiscard]] std::string footprint_json(const Footprint& footprint, const FootprintNotes& notes);

// Rows come merged and in order, whatever their order in the file. Throws InputError; the file also SystemError.
[[nodiscard]] Footprint read_footprint(const std::string& source, std::string_view text);
[[nodiscard]] Footprint read_footprint_file(const std::string& path);

}  // namespace flyball
