// Writes the tree as arrays for web/energy_parts.js. Parts go depth first, so that their depths tell which holds which
// and the numbers in edges stay small; a name stands once, however many layers have it; and of parts that hold others
// no energy is written, since it is the sum of what they hold.
#include "report/energy_section.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "draw/html_page.h"
#include "draw/scale.h"

namespace flyball {
namespace {

// Five significant digits are as many as sensors have. Most energies are none, which is written as one digit.
nlohmann::ordered_json short_joules(double joules) {
  if (!(joules > 1e-30) || !std::isfinite(joules)) return 0;
  return rounded_number(joules, 5);
}

struct Place {
  std::size_t node;
  std::size_t depth;
};

// Uses no recursion, since names may be thousands of parts long.
std::vector<Place> depth_first(const EnergyTree& tree) {
  std::vector<Place> order;
  order.reserve(tree.nodes.size());
  std::vector<Place> open = {{0, 0}};
  while (!open.empty()) {
    const Place place = open.back();
    open.pop_back();
    order.push_back(place);
    const std::vector<std::size_t>& children = tree.nodes[place.node].children;
    for (auto child = children.rbegin(); child != children.rend(); ++child) open.push_back({*child, place.depth + 1});
  }
  return order;
}

std::string energy_data(const EnergyTree& tree) {
  constexpr unsigned kOrderBit = 1u << kPhases;
  std::vector<std::string_view> words;
  std::vector<std::size_t> names;
  std::vector<std::size_t> depths;
  std::vector<int> ranks;
  std::array<std::vector<nlohmann::ordered_json>, kPhases> joules;
  std::map<std::string_view, std::size_t> known;
  std::vector<std::size_t> at(tree.nodes.size());
  for (const auto& [index, depth] : depth_first(tree)) {
    const EnergyNode& node = tree.nodes[index];
    const auto [word, added] = known.try_emplace(node.name, words.size());
    if (added) words.push_back(node.name);
    at[index] = names.size();
    names.push_back(word->second);
    depths.push_back(depth);
    ranks.push_back(node.rank);
    for (std::size_t phase = 0; phase < kPhases && node.children.empty(); ++phase) {
      joules[phase].push_back(short_joules(node.energy[phase].value()));
    }
  }
  std::vector<std::int64_t> edges;
  for (const EnergyEdge& edge : tree.edges) {
    const auto from = static_cast<std::int64_t>(at[edge.from]);
    const unsigned order = edge.kind == EdgeKind::kOrder ? kOrderBit : 0u;
    edges.insert(edges.end(), {from, static_cast<std::int64_t>(at[edge.to]) - from, edge.phases | order});
  }
  const nlohmann::ordered_json data = {{"words", words}, {"names", names},   {"depths", depths},
                                       {"ranks", ranks}, {"joules", joules}, {"edges", edges}};
  return script_json(data.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace

std::string energy_section(const EnergyTree& tree) {
  return fmt::format(R"(<div class="energy">
<script type="application/json" class="energy-data">{}</script>
<h2>Flame graph of joules</h2>
<p>A box is a part of the model, as wide as its joules; under it are its parts, the largest first. Click a box to look
inside, and its name above to go back. Keys: arrows go from box to box, Enter looks inside, Escape goes back.</p>
<energy-flame class="flame"><div><p class="note">The flame graph needs JavaScript; the tables below do
not.</p></div></energy-flame>
<h2>Energy distribution</h2>
<p>Each box is a part of the model with its share of what is drawn here. Click a round one to look inside. Arrows are
the dataflow; dashed, the order in which one thread ran them.</p>
<energy-diagram class="edd"><div><p class="note">The diagrams need JavaScript; the tables below do
not.</p></div></energy-diagram>
</div>
)",
                     energy_data(tree));
}

}  // namespace flyball
