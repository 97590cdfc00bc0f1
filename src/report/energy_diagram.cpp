// Writes the tree of energies as data for web/energy_diagram.js, and one diagram of it for Graphviz.
#include "report/energy_diagram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <nlohmann/json.hpp>

#include "draw/html_page.h"
#include "draw/scale.h"

namespace flyball {
namespace {

// Six significant digits are more than any sensor has.
double rounded(double value) {
  if (value == 0.0 || !std::isfinite(value)) return 0.0;
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) - 5.0);
  return std::round(value / unit) * unit;
}

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

std::string energy_diagram_section(const EnergyTree& tree) {
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  nlohmann::ordered_json parents = nlohmann::ordered_json::array();
  nlohmann::ordered_json energies = nlohmann::ordered_json::array();
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (const EnergyNode& node : tree.nodes) {
    names.push_back(node.name);
    parents.push_back(node.parent);
    nlohmann::ordered_json energy = nlohmann::ordered_json::array();
    for (const Joules joules : node.energy) energy.push_back(rounded(joules.value()));
    energies.push_back(std::move(energy));
    ranks.push_back(node.rank);
  }
  nlohmann::ordered_json edges = nlohmann::ordered_json::array();
  for (const EnergyEdge& edge : tree.edges) {
    edges.push_back({edge.parent, edge.from, edge.to, edge.phases, edge.kind == EdgeKind::kOrder ? 1 : 0});
  }
  const nlohmann::ordered_json data = {{"names", std::move(names)},
                                       {"parents", std::move(parents)},
                                       {"energy", std::move(energies)},
                                       {"ranks", std::move(ranks)},
                                       {"edges", std::move(edges)}};
  return fmt::format(
      "<energy-diagram class=\"edd\"><script type=\"application/json\" class=\"edd-data\">{}</script>\n"
      "<div><p class=\"note\">The diagrams need JavaScript; the tables below do not.</p></div></energy-diagram>\n",
      script_json(data.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace)));
}

std::string energy_diagram_dot(const EnergyTree& tree, std::size_t index) {
  const EnergyNode& diagram = tree.nodes[index];
  const double whole = diagram.total().value();
  std::string dot = fmt::format(
      "digraph energy {{\n  label=\"{}  {} J\"; labelloc=t; fontname=\"sans-serif\"; rankdir=TB;\n"
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
