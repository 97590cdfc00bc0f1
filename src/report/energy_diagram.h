// Draws nested energy distribution diagrams (Smaragdine figures 2 and 4). Each part is a box that shows its share of
// the diagram's energy as number and colour. A part with parts of its own is round. Arrows show the dataflow.
#pragma once

#include <cstddef>
#include <string>

#include "account/energy_tree.h"

namespace flyball {

// Returns one diagram in Graphviz's language, for `dot -Tsvg`. Parts without energy are left out.
[[nodiscard]] std::string energy_diagram_dot(const EnergyTree& tree, std::size_t node);

}  // namespace flyball
