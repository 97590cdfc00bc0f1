#include "pipeline/computation_dag.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/expect_error.h"
#include "support/small_pipelines.h"

namespace flyball {
namespace {

const std::vector<ClockOption> kOneOption = {{Megahertz(1000), Seconds(0.001), Joules(1)}};

std::vector<OperationType> two_stage_types() {
  return {{0, "forward", kOneOption, true},
          {0, "backward_input", kOneOption, true},
          {1, "forward", kOneOption, true},
          {0, "p2p", kOneOption, false}};
}

// Given out of order:   F0(s0) -> P(s0) -> F0(s1) -> BI0(s0),   F0(s0) -> BI0(s0)
ComputationDag shuffled_dag() {
  return {"test", 2, two_stage_types(), {{1, 0, 0}, {2, 0, 1}, {0, 0, 0}, {3, 0, 0}}, {{1, 0}, {2, 3}, {3, 1}, {2, 0}}};
}

TEST(ComputationDag, RenumbersTopologically) {
  const ComputationDag dag = shuffled_dag();
  ASSERT_EQ(dag.size(), 4);
  EXPECT_EQ(dag.edge_count(), 4u);
  std::vector<int> original;
  for (int i = 0; i < dag.size(); ++i) original.push_back(dag.original_index(i));
  EXPECT_EQ(original, (std::vector<int>{2, 3, 1, 0}));
  EXPECT_EQ(dag.type_of(0).instruction, "forward");
  EXPECT_TRUE(dag.predecessors(0).empty());
  EXPECT_EQ(std::vector<int>(dag.successors(0).begin(), dag.successors(0).end()), (std::vector<int>{1, 3}));
  EXPECT_EQ(dag.predecessors(3).size(), 2u);
  EXPECT_TRUE(dag.successors(3).empty());
}

TEST(ComputationDag, TransfersAreNotInTheStagesOrder) {
  const ComputationDag dag = shuffled_dag();
  const auto order = dag.stage_order(0);
  EXPECT_EQ(std::vector<int>(order.begin(), order.end()), (std::vector<int>{0, 3}));
  EXPECT_EQ(dag.stage_order(1).size(), 1u);
}

TEST(ComputationDag, LabelsAreShort) {
  const ComputationDag dag = shuffled_dag();
  EXPECT_EQ(dag.label(0), "F0 stage 0");
  EXPECT_EQ(dag.label(2), "F0/1 stage 1");
  EXPECT_EQ(dag.label(3), "BI0 stage 0");
  const ComputationDag whole("test", 1, {{0, "optimizer_step", kOneOption, true}}, {{0, -1, 0}}, {});
  EXPECT_EQ(whole.label(0), "OS stage 0");
}

TEST(ComputationDag, NamesTheNodesOfACycleOnly) {
  // F0 -> F1 -> F2 -> F1, and F2 -> F3 hangs behind the cycle.
  const std::vector<Computation> nodes = {{0, 0, 0}, {0, 1, 0}, {0, 2, 0}, {0, 3, 0}};
  const auto make = [&] {
    ComputationDag("dag.json", 1, {{0, "forward", kOneOption, true}}, nodes, {{0, 1}, {1, 2}, {2, 1}, {2, 3}});
  };
  expect_input_error(make, 0, 0, "cycle: F2 stage 0 -> F1 stage 0 -> F2 stage 0");
  expect_input_error(
      [&] {
        ComputationDag("d", 1, {{0, "forward", kOneOption, true}}, {{0, 0, 0}}, {{0, 0}});
      },
      0, 0, "cycle: F0 stage 0 -> F0 stage 0");
}

TEST(ComputationDag, RefusesIterationsThatLastLongerThanSolverTimeHolds) {
  const std::vector<ClockOption> slow = {{Megahertz(1000), Seconds(1), Joules(1)},
                                         {Megahertz(500), Seconds(1e6), Joules(1)}};
  // 2,001 operations of 1e6 s make 2.001e9 s.
  const auto make = [&](std::size_t count) {
    return ComputationDag("d", 1, {{0, "forward", slow, true}}, std::vector<Computation>(count), {}).size();
  };
  EXPECT_EQ(make(2000), 2000);
  expect_input_error([&] { make(2001); }, 0, 0, "the 2001 operations of one iteration take 2e+09 s");
}

TEST(ComputationDag, RandomGraphsKeepTheirEdges) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int n = 1 + round % 40;
    // Edges follow a random order of the nodes, hence no cycle.
    std::vector<std::int32_t> order(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<ComputationDag::Edge> edges;
    for (std::size_t a = 0; a < order.size(); ++a) {
      for (std::size_t b = a + 1; b < order.size(); ++b) {
        if (random() % 4 == 0) edges.push_back({order[a], order[b]});
      }
    }
    std::vector<Computation> nodes(order.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].microbatch = static_cast<std::int32_t>(i);
    const ComputationDag dag("random", 1, {{0, "forward", kOneOption, true}}, nodes, edges);
    std::vector<std::pair<int, int>> expected;
    std::vector<std::pair<int, int>> forwards;
    std::vector<std::pair<int, int>> backwards;
    for (const auto& edge : edges) expected.emplace_back(edge.before, edge.after);
    for (int i = 0; i < dag.size(); ++i) {
      EXPECT_EQ(dag[i].microbatch, dag.original_index(i));
      for (const int s : dag.successors(i)) {
        EXPECT_LT(i, s);
        forwards.emplace_back(dag.original_index(i), dag.original_index(s));
      }
      for (const int p : dag.predecessors(i)) backwards.emplace_back(dag.original_index(p), dag.original_index(i));
    }
    std::sort(expected.begin(), expected.end());
    std::sort(forwards.begin(), forwards.end());
    std::sort(backwards.begin(), backwards.end());
    EXPECT_EQ(forwards, expected);
    EXPECT_EQ(backwards, expected);
  }
}

}  // namespace
}  // namespace flyball
