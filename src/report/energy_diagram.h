// Nested energy distribution diagrams as pictures (Smaragdine figures 2 and 4): a box per part with its share of the
// diagram's energy as number and colour, round where there is more inside, arrows for the dataflow.
#pragma once

#include <cstddef>
#include <string>

#include "account/energy_tree.h"

namespace flyball {

// A section of a page that walks through all diagrams, from the model down to its tensors, by clicking. It wants
// energy_diagram.css and .js in the page (html_page.h). Without scripts it shows nothing.
[[nodiscard]] std::string energy_diagram_section(const EnergyTree& tree);

// One diagram in Graphviz's language, for `dot -Tsvg`. Parts without energy are left out.
[[nodiscard]] std::string energy_diagram_dot(const EnergyTree& tree, std::size_t node);

}  // namespace flyball
