// Nodes are found by (parent, name); a row's energy is added along its way to the root. An edge between two operations
// joins the parts at which their ways part. Ranks are longest paths by a depth-first walk with a stack of its own, in
// which an edge that closes a cycle counts for nothing.
#include "account/energy_tree.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace flyball {
namespace {

constexpr const char* kSelf = "(self)";
constexpr double kTelling = 0.02;  // of the model's energy

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  for (const std::string_view part : split_at('/', name)) {
    if (!part.empty()) parts.push_back(part);
  }
  if (parts.empty()) parts.emplace_back("(unnamed)");
  return parts;
}

class Builder {
 public:
  Builder() { tree_.nodes.emplace_back(); }

  std::size_t child(std::size_t parent, std::string_view name) {
    const auto [at, added] = index_.try_emplace({parent, std::string(name)}, tree_.nodes.size());
    if (added) {
      EnergyNode node;
      node.name = name;
      const std::string& above = tree_.nodes[parent].path;
      node.path = above.empty() ? node.name : above + '/' + node.name;
      node.parent = parent;
      tree_.nodes.push_back(std::move(node));
      tree_.nodes[parent].children.push_back(at->second);
    }
    return at->second;
  }

  std::size_t descend(std::string_view name) {
    std::size_t node = 0;
    for (const std::string_view part : parts_of(name)) node = child(node, part);
    return node;
  }

  // The nodes from the root to an operation, without those that are not in the tree.
  [[nodiscard]] std::vector<std::size_t> way(std::string_view name) const {
    std::vector<std::size_t> nodes = {0};
    for (const std::string_view part : parts_of(name)) {
      const auto at = index_.find({nodes.back(), std::string(part)});
      if (at == index_.end()) break;
      nodes.push_back(at->second);
    }
    return nodes;
  }

  EnergyTree& tree() { return tree_; }

 private:
  EnergyTree tree_;
  std::map<std::pair<std::size_t, std::string>, std::size_t> index_;
};

// Ranks nodes by the longest path from the sources. An edge that leads to a node which the walk has not left yet closes
// a cycle, and does not count.
class Ranking {
 public:
  Ranking(EnergyTree& tree, const std::vector<std::vector<std::size_t>>& before) : tree_(tree), before_(before) {
    state_.assign(tree.nodes.size(), State::kNew);
  }

  // Uses no recursion, since chains of layers may be long.
  void settle(std::size_t start) {
    if (state_[start] != State::kNew) return;
    std::vector<std::pair<std::size_t, std::size_t>> stack = {{start, 0}};
    state_[start] = State::kOpen;
    while (!stack.empty()) {
      auto& [node, at] = stack.back();
      if (at < before_[node].size()) {
        const std::size_t feeder = before_[node][at++];
        if (state_[feeder] == State::kNew) {
          state_[feeder] = State::kOpen;
          stack.emplace_back(feeder, 0);
        }
        continue;
      }
      for (const std::size_t feeder : before_[node]) {
        if (state_[feeder] == State::kDone) {
          tree_.nodes[node].rank = std::max(tree_.nodes[node].rank, tree_.nodes[feeder].rank + 1);
        }
      }
      state_[node] = State::kDone;
      stack.pop_back();
    }
  }

 private:
  enum class State : std::uint8_t { kNew, kOpen, kDone };
  EnergyTree& tree_;
  const std::vector<std::vector<std::size_t>>& before_;
  std::vector<State> state_;
};

void add_edges(Builder& builder, const OperationTable& operations) {
  EnergyTree& tree = builder.tree();
  std::map<std::tuple<std::size_t, std::size_t, EdgeKind>, std::size_t> known;
  for (const OperationEdge& edge : operations.edges()) {
    if (edge.kind == EdgeKind::kBackward) continue;
    const std::vector<std::size_t> from = builder.way(operations.name(edge.from));
    const std::vector<std::size_t> to = builder.way(operations.name(edge.to));
    std::size_t depth = 0;
    while (depth < from.size() && depth < to.size() && from[depth] == to[depth]) ++depth;
    if (depth == from.size() || depth == to.size()) continue;
    const auto [at, added] = known.try_emplace({from[depth], to[depth], edge.kind}, tree.edges.size());
    if (added) tree.edges.push_back({from[depth - 1], from[depth], to[depth], 0, edge.kind});
    tree.edges[at->second].phases |= static_cast<std::uint8_t>(1u << static_cast<unsigned>(operations.phase(edge.to)));
  }
}

// Without known dataflow, parts follow each other in the order in which they first ran, which is that of the
// operations' numbers. Parts of little energy and long lists get no arrows.
void chain_parts(Builder& builder, const OperationTable& operations) {
  constexpr std::size_t kLongestChain = 24;
  constexpr double kSmallChange = 0.002;
  EnergyTree& tree = builder.tree();
  std::vector<char> has_data(tree.nodes.size(), 0);
  for (const EnergyEdge& edge : tree.edges) {
    if (edge.kind == EdgeKind::kData) has_data[edge.parent] = 1;
  }
  std::erase_if(tree.edges, [](const EnergyEdge& edge) { return edge.kind != EdgeKind::kData; });
  std::vector<std::size_t> first(tree.nodes.size(), operations.size());
  for (std::size_t i = operations.size(); i-- > 0;) {
    const auto id = static_cast<OperationId>(i);
    if (operations.phase(id) == Phase::kBackward) continue;
    for (const std::size_t node : builder.way(operations.name(id))) first[node] = i;
  }
  for (std::size_t parent = 0; parent < tree.nodes.size(); ++parent) {
    if (has_data[parent] != 0) continue;
    std::vector<std::size_t> chain;
    for (const std::size_t child : tree.nodes[parent].children) {
      const EnergyNode& part = tree.nodes[child];
      if (first[child] == operations.size() || part.name == kSelf) continue;
      if (part.total() > kSmallChange * tree.nodes[parent].total()) chain.push_back(child);
    }
    if (chain.size() > kLongestChain) continue;
    std::stable_sort(chain.begin(), chain.end(),
                     [&first](std::size_t a, std::size_t b) { return first[a] < first[b]; });
    for (std::size_t i = 1; i < chain.size(); ++i) {
      tree.edges.push_back({parent, chain[i - 1], chain[i], 0b1111, EdgeKind::kOrder});
    }
  }
}

// Rows follow the forward pass if there is one, since the backward pass runs in the other direction.
void rank_parts(EnergyTree& tree) {
  constexpr std::uint8_t kNotBackward = 0b1011;
  std::vector<std::vector<std::size_t>> before(tree.nodes.size());
  for (const EnergyEdge& edge : tree.edges) {
    if ((edge.phases & kNotBackward) != 0) before[edge.to].push_back(edge.from);
  }
  Ranking ranking(tree, before);
  for (std::size_t node = 1; node < tree.nodes.size(); ++node) ranking.settle(node);
}

}  // namespace

std::size_t EnergyTree::find(std::string_view path) const {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].path == path) return i;
  }
  return nodes.size();
}

EnergyTree make_energy_tree(const Footprint& footprint, const OperationTable& operations) {
  Builder builder;
  std::vector<std::size_t> leaf_of;
  leaf_of.reserve(footprint.rows.size());
  for (const FootprintRow& row : footprint.rows) leaf_of.push_back(builder.descend(row.name));
  const std::size_t named = builder.tree().nodes.size();
  for (std::size_t i = 0; i < footprint.rows.size(); ++i) {
    const FootprintRow& row = footprint.rows[i];
    std::size_t node = leaf_of[i];
    if (node < named && !builder.tree().nodes[node].children.empty()) node = builder.child(node, kSelf);
    for (;; node = builder.tree().nodes[node].parent) {
      EnergyNode& sum = builder.tree().nodes[node];
      sum.energy[static_cast<std::size_t>(row.phase)] += row.energy;
      sum.busy += row.busy;
      if (node == 0) break;
    }
  }
  add_edges(builder, operations);
  chain_parts(builder, operations);
  EnergyTree tree = std::move(builder.tree());
  rank_parts(tree);
  for (EnergyNode& node : tree.nodes) {
    std::stable_sort(node.children.begin(), node.children.end(),
                     [&tree](std::size_t a, std::size_t b) { return tree.nodes[a].total() > tree.nodes[b].total(); });
  }
  return tree;
}

TopPart top_part(const EnergyTree& tree) {
  const auto by_autograd = [&tree](std::size_t part) { return is_autograd(tree.nodes[part].name); };
  std::size_t node = 0;
  while (tree.nodes[node].children.size() == 1 && !by_autograd(tree.nodes[node].children.front())) {
    node = tree.nodes[node].children.front();
  }
  const EnergyNode& whole = tree.nodes[node];
  if (whole.children.empty()) return {node, false, whole.total()};
  const std::size_t top = whole.children.front();
  if (by_autograd(top)) return {node, true, whole.energy[static_cast<std::size_t>(Phase::kBackward)]};
  return {top, false, tree.nodes[top].total()};
}

std::vector<std::size_t> telling_parts(const EnergyTree& tree, std::size_t most) {
  std::vector<std::size_t> parts = {0};
  std::set<std::size_t> kept;
  for (;;) {
    std::size_t best = tree.nodes.size();
    for (const std::size_t part : parts) {
      if (kept.contains(part) || tree.nodes[part].children.empty()) continue;
      if (best == tree.nodes.size() || tree.nodes[part].total() > tree.nodes[best].total()) best = part;
    }
    if (best == tree.nodes.size()) break;
    std::vector<std::size_t> ordered;
    bool all_tensors = true;
    for (const std::size_t child : tree.nodes[best].children) {
      if (tree.nodes[child].total() < kTelling * tree.nodes[0].total()) continue;
      ordered.push_back(child);
      all_tensors = all_tensors && tree.nodes[child].children.empty();
    }
    if (all_tensors || parts.size() - 1 + ordered.size() > most) {
      kept.insert(best);
      continue;
    }
    const auto at = std::find(parts.begin(), parts.end(), best);
    std::stable_sort(ordered.begin(), ordered.end(),
                     [&tree](std::size_t a, std::size_t b) { return tree.nodes[a].rank < tree.nodes[b].rank; });
    parts.insert(parts.erase(at), ordered.begin(), ordered.end());
  }
  return parts;
}

}  // namespace flyball
