// A footprint as JSON (docs/formats/footprint.md): what `flyball account --json` writes and `account diff` reads.
#pragma once

#include <string>
#include <string_view>

#include "account/footprint.h"

namespace flyball {

// Written one member at a time; bytes that are not UTF-8 are replaced.
[[nodiscard]] std::string footprint_json(const Footprint& footprint, const FootprintNotes& notes);

// Rows are merged and sorted, whatever their order in the file. Throws InputError; read_footprint_file() also
// SystemError.
[[nodiscard]] Footprint read_footprint(const std::string& source, std::string_view text);
[[nodiscard]] Footprint read_footprint_file(const std::string& path);

}  // namespace flyball
