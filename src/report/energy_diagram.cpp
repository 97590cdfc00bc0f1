// Writes one diagram of the tree of energies for Graphviz.
#include "report/energy_diagram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "draw/scale.h"

namespace flyball {
namespace {

std::string dot_text(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? ' ' : c;
  }
  return quoted;
}

// A colour between paper and orange, by the part's share of the largest part's energy.
std::string fill_of(double share) {
  const auto mix = [share](int from, int to) {
    return std::lround(from + 0.75 * share * static_cast<double>(to - from));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(255, 0xd5), mix(255, 0x5e), mix(255, 0x00));
}

}  // namespace

std::string energy_diagram_dot(const EnergyTree& tree, std::size_t index) {
  const EnergyNode& diagram = tree.nodes[index];
  const double whole = diagram.total().value();
  std::string dot = fmt::format(
      "digraph energy {{\n  label=\"{}  {} J\"; labelloc=t; fontname=\"sans-serif\"; rankdir=TB;\n"
      "  pack=16; packmode=array;\n"  // parts without edges in rows, not in one
      "  node [shape=box, fontname=\"sans-serif\", fontsize=11, color=\"#56606c\"];\n"
      "  edge [color=\"#56606c\", arrowsize=0.7];\n",
      diagram.path.empty() ? "model" : dot_text(diagram.path), short_number(whole));
  std::set<std::size_t> drawn;
  const double most = diagram.children.empty() ? 1.0 : tree.nodes[diagram.children.front()].total().value();
  for (const std::size_t child : diagram.children) {
    const EnergyNode& part = tree.nodes[child];
    const double joules = part.total().value();
    if (joules <= 0.0) continue;
    drawn.insert(child);
    dot += fmt::format("  n{} [label=\"{}\\n{:.2f} %\", style=\"filled{}\", fillcolor=\"{}\", tooltip=\"{} J\"];\n",
                       child, dot_text(part.name), 100.0 * joules / whole, part.children.empty() ? "" : ",rounded",
                       fill_of(joules / most), short_number(joules));
  }
  for (const EnergyEdge& edge : tree.edges) {
    if (edge.parent != index || !drawn.contains(edge.from) || !drawn.contains(edge.to)) continue;
    dot += fmt::format("  n{} -> n{}{};\n", edge.from, edge.to, edge.kind == EdgeKind::kOrder ? " [style=dashed]" : "");
  }
  return dot + "}\n";
}

}  // namespace flyball
