// Writes a footprint in speedscope's own format (https://www.speedscope.app/file-format-schema.json), which speedscope
// draws as a flame graph.
//
// The file has two profiles of the same stacks, one weighted by joules and one by busy seconds. A stack is the device
// and the parts of a row's name, each a frame; a part of the same name is the same frame wherever it stands. The format
// has units of time and memory only, so that the profile of joules has the unit "none" and says its unit in its name.
#pragma once

#include <string>
#include <string_view>

#include "account/footprint.h"

namespace flyball {

[[nodiscard]] std::string footprint_speedscope(const Footprint& footprint, std::string_view title);

}  // namespace flyball
