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

namespace flyball {
namespace {

struct Adjacency {
  std::vector<std::size_t> begin;
  std::vector<std::int32_t> items;
};

// Compressed rows of `target(edge)` grouped by `key(edge)`.
template <class Key, class Target>
Adjacency group_edges(std::size_t nodes, const std::vector<ComputationDag::Edge>& edges, Key key, Target target) {
  Adjacency rows{std::vector<std::size_t>(nodes + 1, 0), std::vector<std::int32_t>(edges.size())};
  for (const auto& edge : edges) ++rows.begin[static_cast<std::size_t>(key(edge)) + 1];
  std::partial_sum(rows.begin.begin(), rows.begin.end(), rows.begin.begin());
  std::vector<std::size_t> next(rows.begin.begin(), rows.begin.end() - 1);
  for (const auto& edge : edges) rows.items[next[static_cast<std::size_t>(key(edge))]++] = target(edge);
  return rows;
}

std::string short_name(const std::string& instruction) {
  std::string name;
  bool word_start = true;
  for (const char c : instruction) {
    if (word_start) name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    word_start = c == '_';
  }
  return name;
}

// Follows predecessors that are still unplaced; in a cycle one of them repeats.
std::vector<std::int32_t> find_cycle(const Adjacency& before, const std::vector<std::int32_t>& open) {
  const auto unplaced = [&](std::int32_t node) { return open[static_cast<std::size_t>(node)] > 0; };
  std::vector<std::int32_t> path;
  std::vector<bool> seen(open.size(), false);
  auto node = static_cast<std::int32_t>(
      std::find_if(open.begin(), open.end(), [](std::int32_t count) { return count > 0; }) - open.begin());
  while (!seen[static_cast<std::size_t>(node)]) {
    seen[static_cast<std::size_t>(node)] = true;
    path.push_back(node);
    const auto row = static_cast<std::size_t>(node);
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
  for (const Computation& computation : computations) total += slowest[static_cast<std::size_t>(computation.type)];
  if (total > kMostSeconds) {
    throw InputError({source},
                     fmt::format("the {} operations of one iteration take {:.3g} s in all at their slowest, "
                                 "more than {:.0e} s",
                                 computations.size(), total, kMostSeconds),
                     "check that times are in seconds, and the number of microbatches");
  }
}

}  // namespace

ComputationDag::ComputationDag(std::string source, int stages, std::vector<OperationType> types,
                               std::vector<Computation> computations, const std::vector<Edge>& edges)
    : stages_(stages), types_(std::move(types)) {
  check_total_time(source, types_, computations);
  const std::size_t n = computations.size();
  const auto before_of = [](const Edge& e) { return e.before; };
  const auto after_of = [](const Edge& e) { return e.after; };
  const Adjacency after = group_edges(n, edges, before_of, after_of);
  const Adjacency before = group_edges(n, edges, after_of, before_of);

  // Kahn's algorithm with a queue: nodes come out level by level, near in memory to what runs at the same time.
  std::vector<std::int32_t> open(n);
  for (std::size_t i = 0; i < n; ++i) {
    open[i] = static_cast<std::int32_t>(before.begin[i + 1] - before.begin[i]);
    if (open[i] == 0) original_.push_back(static_cast<std::int32_t>(i));
  }
  for (std::size_t head = 0; head < original_.size(); ++head) {
    const auto node = static_cast<std::size_t>(original_[head]);
    for (std::size_t e = after.begin[node]; e < after.begin[node + 1]; ++e) {
      if (--open[static_cast<std::size_t>(after.items[e])] == 0) original_.push_back(after.items[e]);
    }
  }
  if (original_.size() < n) {
    computations_ = std::move(computations);
    std::vector<std::string> names;
    for (const std::int32_t node : find_cycle(before, open)) names.push_back(label(node));
    throw InputError({std::move(source)},
                     fmt::format("the dependencies run in a cycle: {} -> {}", fmt::join(names, " -> "), names.front()),
                     "remove one of these dependencies");
  }

  std::vector<std::int32_t> position(n);
  for (std::size_t i = 0; i < n; ++i) position[static_cast<std::size_t>(original_[i])] = static_cast<std::int32_t>(i);
  std::vector<Edge> renumbered;
  renumbered.reserve(edges.size());
  for (const Edge& edge : edges) {
    renumbered.push_back(
        {position[static_cast<std::size_t>(edge.before)], position[static_cast<std::size_t>(edge.after)]});
  }
  Adjacency succ = group_edges(n, renumbered, before_of, after_of);
  Adjacency pred = group_edges(n, renumbered, after_of, before_of);
  succ_begin_ = std::move(succ.begin);
  successors_ = std::move(succ.items);
  pred_begin_ = std::move(pred.begin);
  predecessors_ = std::move(pred.items);

  stage_order_.resize(static_cast<std::size_t>(stages));
  for (const std::int32_t node : original_) {
    const Computation& computation = computations[static_cast<std::size_t>(node)];
    const OperationType& type = types_[static_cast<std::size_t>(computation.type)];
    if (type.occupies_stage) {
      stage_order_[static_cast<std::size_t>(type.stage)].push_back(static_cast<std::int32_t>(computations_.size()));
    }
    computations_.push_back(computation);
  }
}

std::string ComputationDag::label(int i) const {
  const Computation& computation = (*this)[i];
  const OperationType& type = type_of(i);
  std::string text = short_name(type.instruction);
  if (computation.microbatch >= 0) text += fmt::format("{}", computation.microbatch);
  if (computation.chunk > 0) text += fmt::format("/{}", computation.chunk);
  return text + fmt::format(" stage {}", type.stage);
}

}  // namespace flyball
