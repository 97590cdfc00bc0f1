#include "account/energy_tree.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "account/activity.h"
#include "support/energy_model.h"
#include "support/memory_traces.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;

using testing::Model;

std::vector<std::string> names(const EnergyTree& tree, const std::vector<std::size_t>& nodes) {
  std::vector<std::string> result;
  for (const std::size_t node : nodes) result.push_back(tree.nodes[node].path);
  return result;
}

TEST(EnergyTree, AddsUpAlongTheHierarchy) {
  Model model;
  model.add("bert/encoder/layer_0/dense", 5);
  model.add("bert/encoder/layer_0/dense", 2, Phase::kBackward);
  model.add("bert/encoder/layer_1/dense", 4);
  model.add("bert/pooler", 1);
  const EnergyTree tree = model.tree();
  EXPECT_DOUBLE_EQ(tree.nodes[0].total().value(), 12.0);
  const EnergyNode& encoder = tree.nodes[tree.find("bert/encoder")];
  EXPECT_DOUBLE_EQ(encoder.energy[1].value(), 9.0);
  EXPECT_DOUBLE_EQ(encoder.energy[2].value(), 2.0);
  EXPECT_THAT(names(tree, encoder.children), ElementsAre("bert/encoder/layer_0", "bert/encoder/layer_1"));
  EXPECT_EQ(tree.find("bert/decoder"), tree.nodes.size());
}

// "dense" runs by itself and has a tensor in it.
TEST(EnergyTree, AnInnerNameKeepsItsOwn) {
  Model model;
  model.add("dense", 3);
  model.add("dense/MatMul", 7);
  const EnergyTree tree = model.tree();
  const EnergyNode& dense = tree.nodes[tree.find("dense")];
  EXPECT_DOUBLE_EQ(dense.total().value(), 10.0);
  EXPECT_THAT(names(tree, dense.children), ElementsAre("dense/MatMul", "dense/(self)"));
}

//  in -> a/x -> a/y -> b/z -> out, and out -> in again
TEST(EnergyTree, DataflowJoinsThePartsThatDiffer) {
  Model model;
  const OperationId in = model.add("m/in", 1);
  const OperationId x = model.add("m/a/x", 1);
  const OperationId y = model.add("m/a/y", 1);
  const OperationId z = model.add("m/b/z", 1);
  const OperationId out = model.add("m/out", 1);
  for (const auto& [from, to] : {std::pair{in, x}, {x, y}, {y, z}, {z, out}, {out, in}}) {
    model.operations.add_edge(from, to);
  }
  const EnergyTree tree = model.tree();
  const std::size_t m = tree.find("m");
  std::vector<std::string> drawn;
  for (const EnergyEdge& edge : tree.edges) {
    if (edge.parent == m) drawn.push_back(tree.nodes[edge.from].name + ">" + tree.nodes[edge.to].name);
  }
  EXPECT_THAT(drawn, ElementsAre("in>a", "a>b", "b>out", "out>in"));
  // The cycle is cut somewhere; the chain stays a chain.
  EXPECT_EQ(tree.nodes[tree.find("m/a")].rank + 1, tree.nodes[tree.find("m/b")].rank);
  EXPECT_EQ(tree.nodes[tree.find("m/a/x")].rank + 1, tree.nodes[tree.find("m/a/y")].rank);
}

// Without dataflow, in the order of first running; the backward pass and small change do not count.
TEST(EnergyTree, WithoutDataflowPartsFollowEachOther) {
  Model model;
  model.add("m/late", 1, Phase::kBackward);
  model.add("m/a", 5);
  model.add("m/tiny", 0.001);
  model.add("m/b", 9);
  model.add("m/late", 1);
  const EnergyTree tree = model.tree();
  std::vector<std::string> drawn;
  for (const EnergyEdge& edge : tree.edges) {
    drawn.push_back(tree.nodes[edge.from].name + ">" + tree.nodes[edge.to].name);
  }
  EXPECT_THAT(drawn, ElementsAre("a>b", "b>late"));
  EXPECT_EQ(tree.nodes[tree.find("m/late")].rank, 2);
}

TEST(EnergyTree, TellingPartsTakeTheLargestApart) {
  Model model;
  for (int layer = 0; layer < 4; ++layer) {
    for (int tensor = 0; tensor < 5; ++tensor) {
      model.add("m/encoder/layer_" + std::to_string(layer) + "/t" + std::to_string(tensor), 10);
    }
  }
  model.add("m/embeddings/Gather", 10);
  model.add("m/pooler/Tanh", 1);  // less than 2 %
  const EnergyTree tree = model.tree();
  EXPECT_THAT(
      names(tree, telling_parts(tree, 5)),
      ElementsAre("m/encoder/layer_0", "m/encoder/layer_1", "m/encoder/layer_2", "m/encoder/layer_3", "m/embeddings"));
  EXPECT_THAT(names(tree, telling_parts(tree, 1)), ElementsAre("m"));
}

// Four bins of 1 s. 100 W in [0, 2), nothing known in [2, 3), 50 W from there; an event over [0.5, 1.25).
TEST(Activity, SpreadsOverBins) {
  testing::MemoryPower power({{-kSecond, 2 * kSecond, 0, Watts(100)}, {3 * kSecond, 9 * kSecond, 0, Watts(50)}});
  testing::MemoryEvents events({{kSecond / 2, kSecond * 5 / 4, 0, 0}, {0, kSecond, 0, 1}});
  ActivityBins bins(0, 4 * kSecond, 4);
  bins.add_power(power);
  bins.add_events(events, {0}, 1);
  EXPECT_DOUBLE_EQ(bins.power(0, 0).value(), 100.0);
  EXPECT_LT(bins.power(0, 2).value(), 0.0);
  EXPECT_DOUBLE_EQ(bins.power(0, 3).value(), 50.0);
  EXPECT_DOUBLE_EQ(bins.activity(0, 0), 0.5);
  EXPECT_DOUBLE_EQ(bins.activity(0, 1), 0.25);
  EXPECT_DOUBLE_EQ(bins.activity(0, 2), 0.0);
}

struct Top {
  std::string path;
  bool backward;
  double joules;
  bool operator==(const Top&) const = default;
};

Top top_of(const Model& model) {
  const EnergyTree tree = model.tree();
  const TopPart top = top_part(tree);
  return {tree.nodes[top.node].path, top.backward, top.energy.value()};
}

// net holds everything and tells nothing; of what it is divided into, head takes 6 of 10 J.
TEST(EnergyTree, TheTopPartIsTheLargestThatTheModelIsDividedInto) {
  Model model;
  model.add("net/body/aten::mm", 4);
  model.add("net/head/aten::mm", 6);
  EXPECT_EQ(top_of(model), (Top{"net/head", false, 6}));
  EXPECT_EQ(top_of(Model()), (Top{"", false, 0}));
}

// Autograd's function takes most, and stands for the backward pass of the layer with all of its functions: 5 + 2 J. One
// that the model consists of does so, too, and where no part holds it, it is the model's.
TEST(EnergyTree, AutogradsFunctionsAreTheBackwardPassOfWhatHoldsThem) {
  Model model;
  model.add("net/Linear_0/AddmmBackward0/aten::mm", 5, Phase::kBackward);
  model.add("net/Linear_0/torch::autograd::AccumulateGrad", 2, Phase::kBackward);
  model.add("net/Linear_0/aten::linear", 4);
  EXPECT_EQ(top_of(model), (Top{"net/Linear_0", true, 7}));
  Model bare;
  bare.add("AddmmBackward0/aten::mm", 5, Phase::kBackward);
  EXPECT_EQ(top_of(bare), (Top{"", true, 5}));
}

// The function takes less than the module beside it.
TEST(EnergyTree, AModuleThatTakesMoreIsNamed) {
  Model model;
  model.add("net/AddmmBackward0", 2, Phase::kBackward);
  model.add("net/body/aten::mm", 3);
  EXPECT_EQ(top_of(model), (Top{"net/body", false, 3}));
}

}  // namespace
}  // namespace flyball
