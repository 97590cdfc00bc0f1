// Edges are grouped into compressed rows, forwards and backwards. Kahn's algorithm with a queue numbers the nodes, so
// that neighbours in memory run at about the same time; what it leaves over holds a cycle, which is found by following
// unplaced predecessors.
#include "pipeline/computation_dag.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/index.h"

namespace flyball {
namespace {

struct Adjacency {
  std::vector<std::size_t> begin;
  std::vector<std::int32_t> items;
};

using Edge = ComputationDag::Edge;

// Compressed rows of the edges' ends `target`, grouped by their ends `key`.
Adjacency group_edges(std::size_t nodes, const std::vector<Edge>& edges, std::int32_t Edge::*key,
                      std::int32_t Edge::*target) {
  Adjacency rows{std::vector<std::size_t>(nodes + 1, 0), std::vector<std::int32_t>(edges.size())};
  for (const Edge& edge : edges) ++rows.begin[at(edge.*key) + 1];
  std::partial_sum(rows.begin.begin(), rows.begin.end(), rows.begin.begin());
  std::vector<std::size_t> next(rows.begin.begin(), rows.begin.end() - 1);
  for (const Edge& edge : edges) rows.items[next[at(edge.*key)]++] = edge.*target;
  return rows;
}

// Follows predecessors that are still unplaced; in a cycle one of them repeats.
std::vector<std::int32_t> cycle_of(const Adjacency& before, const std::vector<std::int32_t>& open) {
  const auto unplaced = [&](std::int32_t node) { return open[at(node)] > 0; };
  std::vector<std::int32_t> path;
  std::vector<bool> seen(open.size(), false);
  auto node = static_cast<std::int32_t>(
      std::find_if(open.begin(), open.end(), [](std::int32_t count) { return count > 0; }) - open.begin());
  while (!seen[at(node)]) {
    seen[at(node)] = true;
    path.push_back(node);
    const std::size_t row = at(node);
    node = *std::find_if(before.items.begin() + static_cast<std::ptrdiff_t>(before.begin[row]),
                         before.items.begin() + static_cast<std::ptrdiff_t>(before.begin[row + 1]), unplaced);
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), node));
  std::reverse(path.begin(), path.end());
  return path;
}

// Solver time is whole nanoseconds in 64 bits; a path of slowest options, summed twice, must stay inside.
void check_total_time(const std::string& source, const std::vector<OperationType>& types,
                      const std::vector<Computation>& computations) {
  constexpr double kMostSeconds = 2e9;
  std::vector<double> slowest;
  for (const OperationType& type : types) {
    double time = 0.0;
    for (const ClockOption& option : type.options) time = std::max(time, option.time.value());
    slowest.push_back(time);
  }
  double total = 0.0;
  for (const Computation& computation : computations) total += slowest[at(computation.type)];
  if (total > kMostSeconds) {
    throw InputError({source},
                     fmt::format("the {} operations of one iteration take {:.3g} s in all at their slowest, "
                                 "more than {:.0e} s",
                                 computations.size(), total, kMostSeconds),
                     "check that times are in seconds, and the number of microbatches");
  }
}

// The nodes in topological order; or a cycle, where there is one.
struct NodeOrder {
  std::vector<std::int32_t> nodes;
  std::vector<std::int32_t> cycle;
};

// Kahn's algorithm with a queue: nodes come out level by level, near in memory to what runs at the same time.
NodeOrder order_nodes(std::size_t n, const std::vector<Edge>& edges) {
  const Adjacency before = group_edges(n, edges, &Edge::after, &Edge::before);
  const Adjacency after = group_edges(n, edges, &Edge::before, &Edge::after);
  NodeOrder order;
  std::vector<std::int32_t> open(n);
  for (std::size_t i = 0; i < n; ++i) {
    open[i] = static_cast<std::int32_t>(before.begin[i + 1] - before.begin[i]);
    if (open[i] == 0) order.nodes.push_back(static_cast<std::int32_t>(i));
  }
  for (std::size_t head = 0; head < order.nodes.size(); ++head) {
    const std::size_t node = at(order.nodes[head]);
    for (std::size_t e = after.begin[node]; e < after.begin[node + 1]; ++e) {
      if (--open[at(after.items[e])] == 0) order.nodes.push_back(after.items[e]);
    }
  }
  if (order.nodes.size() < n) order.cycle = cycle_of(before, open);
  return order;
}

}  // namespace

std::vector<std::int32_t> find_cycle(std::size_t nodes, const std::vector<ComputationDag::Edge>& edges) {
  return order_nodes(nodes, edges).cycle;
}

ComputationDag::ComputationDag(std::string source, int stages, std::vector<OperationType> types,
                               std::vector<Computation> computations, const std::vector<Edge>& edges)
    : stages_(stages), types_(std::move(types)) {
  check_total_time(source, types_, computations);
  const std::size_t n = computations.size();
  NodeOrder order = order_nodes(n, edges);
  if (!order.cycle.empty()) {
    computations_ = std::move(computations);
    std::vector<std::string> names;
    for (const std::int32_t node : order.cycle) names.push_back(label(node));
    throw InputError({std::move(source)},
                     fmt::format("the dependencies run in a cycle: {} -> {}", fmt::join(names, " -> "), names.front()),
                     "remove one of these dependencies");
  }
  original_ = std::move(order.nodes);

  std::vector<std::int32_t> position(n);
  for (std::size_t i = 0; i < n; ++i) position[at(original_[i])] = static_cast<std::int32_t>(i);
  std::vector<Edge> renumbered;
  renumbered.reserve(edges.size());
  for (const Edge& edge : edges) {
    renumbered.push_back({position[at(edge.before)], position[at(edge.after)]});
  }
  Adjacency succ = group_edges(n, renumbered, &Edge::before, &Edge::after);
  Adjacency pred = group_edges(n, renumbered, &Edge::after, &Edge::before);
  succ_begin_ = std::move(succ.begin);
  successors_ = std::move(succ.items);
  pred_begin_ = std::move(pred.begin);
  predecessors_ = std::move(pred.items);

  stage_order_.resize(at(stages));
  for (const std::int32_t node : original_) {
    const Computation& computation = computations[at(node)];
    const OperationType& type = types_[at(computation.type)];
    if (type.occupies_stage) {
      stage_order_[at(type.stage)].push_back(static_cast<std::int32_t>(computations_.size()));
    }
    computations_.push_back(computation);
  }
}

std::string ComputationDag::label(int i) const {
  const Computation& computation = (*this)[i];
  const OperationType& type = type_of(i);
  std::string text = instruction_letters(type.instruction);
  if (computation.microbatch >= 0) text += fmt::format("{}", computation.microbatch);
  if (computation.chunk > 0) text += fmt::format("/{}", computation.chunk);
  return text + fmt::format(" stage {}", type.stage);
}

}  // namespace flyball
