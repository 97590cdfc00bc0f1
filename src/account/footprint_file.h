// A footprint as JSON (docs/formats/footprint.md): what `flyball account --json` writes and `account diff` reads.
#pragma once

#include <string>
#include <string_view>

#include "account/footprint.h"

namespace flyball {

// Returns the footprint as JSON text. Bytes that are not UTF-8 are replaced.
[[nodiscard]] std::string footprint_json(const Footprint& footprint, const FootprintNotes& notes);

// Both functions read a footprint and merge and sort its rows, whatever their order in the file. They throw InputError;
// read_footprint_file() also throws SystemError.
[[nodiscard]] Footprint read_footprint(const std::string& source, std::string_view text);
[[nodiscard]] Footprint read_footprint_file(const std::string& path);

}  // namespace flyball
