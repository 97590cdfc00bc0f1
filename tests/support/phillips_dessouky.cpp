#include "support/phillips_dessouky.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "pipeline/timeline.h"

namespace flyball::testing {
namespace {

constexpr double kInfinite = 1e15;
constexpr double kEpsilon = 1e-9;

double cost_at(const CostCurve& curve, Nanoseconds t) {
  for (std::size_t k = 1; k < curve.size(); ++k) {
    if (t > curve[k].time) continue;
    const double share =
        static_cast<double>(t - curve[k - 1].time) / static_cast<double>(curve[k].time - curve[k - 1].time);
    return curve[k - 1].net_joules + share * (curve[k].net_joules - curve[k - 1].net_joules);
  }
  return curve.back().net_joules;
}

// Dense residual capacities; a handful of nodes.
class Network {
 public:
  explicit Network(std::size_t nodes) : capacity_(nodes, std::vector<double>(nodes, 0.0)) {}

  double& capacity(std::size_t from, std::size_t to) { return capacity_[from][to]; }

  double edmonds_karp(std::size_t source, std::size_t sink) {
    double total = 0.0;
    while (true) {
      const std::vector<std::size_t> parent = search(source);
      if (parent[sink] == kNone) return total;
      double amount = kInfinite;
      for (std::size_t v = sink; v != source; v = parent[v]) amount = std::min(amount, capacity_[parent[v]][v]);
      for (std::size_t v = sink; v != source; v = parent[v]) {
        capacity_[parent[v]][v] -= amount;
        capacity_[v][parent[v]] += amount;
      }
      total += amount;
      if (total > kInfinite / 2) return total;
    }
  }

  [[nodiscard]] std::vector<bool> reachable(std::size_t source) const {
    const std::vector<std::size_t> parent = search(source);
    std::vector<bool> result(parent.size());
    for (std::size_t v = 0; v < parent.size(); ++v) result[v] = v == source || parent[v] != kNone;
    return result;
  }

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  [[nodiscard]] std::vector<std::size_t> search(std::size_t source) const {
    std::vector<std::size_t> parent(capacity_.size(), kNone);
    std::queue<std::size_t> open;
    open.push(source);
    while (!open.empty()) {
      const std::size_t u = open.front();
      open.pop();
      for (std::size_t v = 0; v < capacity_.size(); ++v) {
        if (v == source || parent[v] != kNone || capacity_[u][v] <= kEpsilon) continue;
        parent[v] = u;
        open.push(v);
      }
    }
    return parent;
  }

  std::vector<std::vector<double>> capacity_;
};

struct Arc {
  std::size_t from, to;
  double lower, upper;
  int operation;  // -1: a dependency
};

}  // namespace

std::vector<CrawlPoint> crawl_by_unit_cuts(const ComputationDag& dag, std::span<const CostCurve> curves,
                                           Nanoseconds unit) {
  const auto n = static_cast<std::size_t>(dag.size());
  const auto curve = [&](std::size_t i) -> const CostCurve& {
    return curves[static_cast<std::size_t>(dag.computations()[i].type)];
  };
  std::vector<Nanoseconds> t(n);
  for (std::size_t i = 0; i < n; ++i) t[i] = curve(i).back().time;
  std::vector<CrawlPoint> points;
  const std::size_t source = 2 * n;
  const std::size_t sink = source + 1;
  while (true) {
    const Timeline timeline = emulate(dag, t);
    double net = 0.0;
    for (std::size_t i = 0; i < n; ++i) net += cost_at(curve(i), t[i]);
    points.push_back({timeline.makespan, net});

    // Critical DAG with the bounds of eq. 8.
    std::vector<Arc> arcs;
    for (int i = 0; i < dag.size(); ++i) {
      const auto u = static_cast<std::size_t>(i);
      if (!timeline.critical(i)) continue;
      const CostCurve& c = curve(u);
      const bool slowest = t[u] + unit > c.back().time;
      const bool fastest = t[u] - unit < c.front().time;
      const double saved = slowest ? 0.0 : cost_at(c, t[u]) - cost_at(c, t[u] + unit);
      const double spent = fastest ? kInfinite : cost_at(c, t[u] - unit) - cost_at(c, t[u]);
      arcs.push_back({2 * u, 2 * u + 1, saved, spent, i});
      if (timeline.start[u] == 0) arcs.push_back({source, 2 * u, 0.0, kInfinite, -1});
      if (timeline.finish[u] == timeline.makespan) arcs.push_back({2 * u + 1, sink, 0.0, kInfinite, -1});
      for (const int s : dag.successors(i)) {
        const auto v = static_cast<std::size_t>(s);
        if (timeline.critical(s) && timeline.start[v] == timeline.finish[u]) {
          arcs.push_back({2 * u + 1, 2 * v, 0.0, kInfinite, -1});
        }
      }
    }
    // Algorithm 3: a feasible flow by a dummy source and sink, then a maximum flow on its residual graph.
    Network network(2 * n + 4);
    const std::size_t dummy_source = 2 * n + 2;
    const std::size_t dummy_sink = 2 * n + 3;
    for (const Arc& arc : arcs) {
      network.capacity(arc.from, arc.to) += arc.upper - arc.lower;
      network.capacity(dummy_source, arc.to) += arc.lower;
      network.capacity(arc.from, dummy_sink) += arc.lower;
    }
    network.capacity(sink, source) = kInfinite;
    network.edmonds_karp(dummy_source, dummy_sink);
    network.capacity(sink, source) = 0.0;
    network.capacity(source, sink) = 0.0;
    for (std::size_t v = 0; v < dummy_source; ++v) {
      for (const std::size_t dummy : {dummy_source, dummy_sink}) {
        network.capacity(v, dummy) = 0.0;
        network.capacity(dummy, v) = 0.0;
      }
    }
    // What flows along an arc above its lower bound can be taken back: that is its reverse residual capacity already.
    if (network.edmonds_karp(source, sink) > kInfinite / 2) return points;
    const std::vector<bool> on_source_side = network.reachable(source);
    for (const Arc& arc : arcs) {
      if (arc.operation < 0) continue;
      const auto i = static_cast<std::size_t>(arc.operation);
      if (on_source_side[arc.from] && !on_source_side[arc.to]) t[i] -= unit;
      // Slowing down is free or saves; at its slowest an operation stays.
      if (!on_source_side[arc.from] && on_source_side[arc.to] && t[i] + unit <= curve(i).back().time) t[i] += unit;
    }
  }
}

}  // namespace flyball::testing
