// Shows where a model's energy goes, to look around in: a flame graph of the parts, and the nested energy distribution
// diagrams (energy_diagram.h says what these are).
#pragma once

#include <string>

#include "account/energy_tree.h"

namespace flyball {

// Returns the sections of a page that hold the flame graph and the diagrams, and the one set of data that both are
// drawn from: some 25 bytes a part where names repeat, as they do in models of many layers. The page must contain
// energy_section.css, energy_parts.js, energy_flame.js and energy_diagram.js (html_page.h). Without scripts a sentence
// stands in the place of each.
[[nodiscard]] std::string energy_section(const EnergyTree& tree);

}  // namespace flyball
