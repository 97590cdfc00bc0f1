#include "account/footprint.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"

namespace flyball {
namespace {

FootprintRow row(const std::string& name, double joules, Phase phase = Phase::kUnknown,
                 const std::string& device = "GPU:0") {
  FootprintRow result;
  result.name = name;
  result.device = device;
  result.phase = phase;
  result.energy = Joules(joules);
  result.busy = result.powered = Seconds(1);
  result.events = 1;
  return result;
}

Footprint footprint(std::vector<FootprintRow> rows) {
  Footprint result;
  result.rows = std::move(rows);
  merge_rows(result);
  return result;
}

TEST(SelfSimilar, KnowsTheFrameworksNames) {
  const SelfSimilar similar;
  EXPECT_EQ(similar.summarised("bert/encoder/layer_0/output/dense/MatMul"), "bert/encoder/layer_*/output/dense/MatMul");
  EXPECT_EQ(similar.summarised("model/layers.31/mlp/gate_proj"), "model/layers.*/mlp/gate_proj");
  EXPECT_EQ(similar.summarised("model.layers.3.self_attn.q_proj"), "model.layers.*.self_attn.q_proj");
  EXPECT_EQ(similar.summarised("transformer.h.11.attn"), "transformer.h.*.attn");
  EXPECT_EQ(similar.summarised("encoder.layer.7.attention"), "encoder.layer.*.attention");
  EXPECT_EQ(similar.summarised("encoder/layer/7/attention"), "encoder/layer/*/attention");
  EXPECT_EQ(similar.summarised("BertEncoder/BertLayer_4/dense"), "BertEncoder/BertLayer_*/dense");
  EXPECT_EQ(similar.summarised("layer_12"), "layer_*");
  // What only looks like one.
  EXPECT_EQ(similar.summarised("dense_1/MatMul"), "dense_1/MatMul");
  EXPECT_EQ(similar.summarised("layer_norm_2"), "layer_norm_2");
  EXPECT_EQ(similar.summarised("conv3x3/h2"), "conv3x3/h2");
}

TEST(SelfSimilar, TakesAPattern) {
  const SelfSimilar similar("expert_\\d+");
  EXPECT_EQ(similar.summarised("layer_3/expert_12/up"), "layer_3/expert_*/up");
  EXPECT_EQ(SelfSimilar("\\d+_\\d+").summarised("tile_31_7/x"), "tile_*_*/x");
  EXPECT_THROW(SelfSimilar("layer_(\\d+"), UsageError);
  const std::string huge(1'000'000, '1');
  EXPECT_EQ(similar.summarised(huge), huge);
}

// Smaragdine 3.3: 5 J and 3 J of two transformers are 8 J of one.
TEST(Footprint, SummarisesSelfSimilarLayers) {
  const Footprint tef = footprint({row("bert/encoder/layer_0/output/dense/MatMul", 5),
                                   row("bert/encoder/layer_1/output/dense/MatMul", 3), row("bert/pooler/Tanh", 9)});
  const Footprint stef = summarised(tef, SelfSimilar());
  ASSERT_EQ(stef.rows.size(), 2u);
  EXPECT_EQ(stef.rows[0].name, "bert/pooler/Tanh");
  EXPECT_EQ(stef.rows[1].name, "bert/encoder/layer_*/output/dense/MatMul");
  EXPECT_DOUBLE_EQ(stef.rows[1].energy.value(), 8.0);
  EXPECT_DOUBLE_EQ(stef.rows[1].mean_power().value(), 4.0);  // 8 J in 2 s
  EXPECT_EQ(stef.rows[1].events, 2u);
}

TEST(Footprint, KeepsPassesAndDevicesApart) {
  const Footprint merged = footprint({row("a", 1, Phase::kForward), row("a", 2, Phase::kBackward), row("a", 4),
                                      row("a", 8, Phase::kForward, "CPU:0"), row("a", 16, Phase::kForward)});
  ASSERT_EQ(merged.rows.size(), 4u);
  EXPECT_DOUBLE_EQ(merged.rows[0].energy.value(), 17.0);
  ASSERT_EQ(by_name(merged).size(), 1u);
  EXPECT_DOUBLE_EQ(by_name(merged)[0].energy.value(), 31.0);
}

// 4, 6 and 8 J: mean 6, deviation sqrt((4 + 0 + 4) / 2) = 2. A row of 3 J that two runs lack: mean 1 and deviation
// sqrt((4 + 1 + 1) / 2).
TEST(Footprint, MeanAndDeviationOfRuns) {
  const std::vector<Footprint> runs = {footprint({row("a", 4)}), footprint({row("a", 6), row("b", 3)}),
                                       footprint({row("a", 8)})};
  const Footprint mean = mean_of_runs(runs);
  EXPECT_EQ(mean.runs, 3);
  ASSERT_EQ(mean.rows.size(), 2u);
  EXPECT_DOUBLE_EQ(mean.rows[0].energy.value(), 6.0);
  EXPECT_DOUBLE_EQ(mean.rows[0].energy_deviation.value(), 2.0);
  EXPECT_DOUBLE_EQ(mean.rows[0].power_deviation.value(), 2.0);
  EXPECT_DOUBLE_EQ(mean.rows[1].energy.value(), 1.0);
  EXPECT_DOUBLE_EQ(mean.rows[1].energy_deviation.value(), std::sqrt(3.0));
}

// Twelve layers that draw 10, 20 and 30 J each, run by run, are 120, 240 and 360 J: mean 240, deviation
// sqrt((120^2 + 0 + 120^2) / 2) = 120 (were they independent, sqrt(12) * 10 = 34.6). In seconds 12, powers 10, 20, 30
// W.
TEST(Footprint, DeviationOfLayersThatVaryTogether) {
  std::vector<Footprint> runs;
  for (const double joules : {10.0, 20.0, 30.0}) {
    std::vector<FootprintRow> rows;
    for (int layer = 0; layer < 12; ++layer) rows.push_back(row("layer_" + std::to_string(layer), joules));
    runs.push_back(summarised(footprint(rows), SelfSimilar()));
  }
  const Footprint mean = mean_of_runs(runs);
  ASSERT_EQ(mean.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(mean.rows[0].energy.value(), 240.0);
  EXPECT_DOUBLE_EQ(mean.rows[0].energy_deviation.value(), 120.0);
  EXPECT_DOUBLE_EQ(mean.rows[0].power_deviation.value(), 10.0);
}

// How rows vary together is not in their mean.
TEST(Footprint, HasNoDeviationOfRowsAddedUpAfterTheMean) {
  const std::vector<Footprint> runs = {footprint({row("layer_0", 1), row("layer_1", 2)}),
                                       footprint({row("layer_0", 3), row("layer_1", 4)})};
  const Footprint late = summarised(mean_of_runs(runs), SelfSimilar());
  ASSERT_EQ(late.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(late.rows[0].energy.value(), 5.0);
  EXPECT_TRUE(std::isnan(late.rows[0].energy_deviation.value()));
}

TEST(Footprint, MeanOfDevices) {
  Footprint a;
  FootprintDevice& device = a.devices.emplace_back();
  device.measured = Joules(10);
  device.attributed = Joules(6);
  device.idle = Joules(4);
  Footprint b = a;
  b.devices[0].measured = Joules(20);
  b.devices[0].idle = Joules(14);
  const std::vector<Footprint> runs = {a, b};
  const Footprint mean = mean_of_runs(runs);
  EXPECT_DOUBLE_EQ(mean.measured().value(), 15.0);
  EXPECT_DOUBLE_EQ((mean.attributed() + mean.idle()).value(), 15.0);
}

TEST(Footprint, Pearson) {
  const std::vector<double> a = {1, 2, 3};
  const std::vector<double> b = {10, 20, 30};
  const std::vector<double> c = {3, 2, 1};
  const std::vector<double> d = {1, 3, 2};
  EXPECT_NEAR(pearson(a, b), 1.0, 1e-15);
  EXPECT_NEAR(pearson(a, c), -1.0, 1e-15);
  EXPECT_NEAR(pearson(a, d), 0.5, 1e-15);  // (1 + 0 + 0) / sqrt(2 * 2)
  EXPECT_TRUE(std::isnan(pearson(a, std::vector<double>{5, 5, 5})));
}

// a: 1, 2, 0; b: 1, 5, 3. Changes 0, 3, 3, their mean 2.
TEST(Footprint, Comparison) {
  const FootprintComparison result =
      compare(footprint({row("x", 1), row("y", 2)}), footprint({row("x", 1), row("y", 5), row("z", 3)}));
  EXPECT_EQ(result.names, 3u);
  EXPECT_DOUBLE_EQ(result.mean_energy_difference.value(), 2.0);
  EXPECT_DOUBLE_EQ(result.mean_power_difference.value(), 1.5);
  EXPECT_NEAR(result.energy_correlation, 2.0 / std::sqrt(2.0 * 8.0), 1e-12);
  ASSERT_EQ(result.moves.size(), 3u);
  EXPECT_EQ(result.moves[0].name, "y");
  EXPECT_EQ(result.moves[2].name, "x");
}

TEST(Footprint, QualityOfRuns) {
  const std::vector<Footprint> runs = {footprint({row("a", 1), row("b", 2), row("c", 3)}),
                                       footprint({row("a", 1), row("b", 3), row("c", 2)})};
  const RunQuality quality = quality_of_runs(runs);
  EXPECT_NEAR(quality.stability[0][0], 1.0, 1e-12);
  EXPECT_NEAR(quality.stability[0][1], 0.5, 1e-12);
  // 1, 2, 3 against 1, 2.5, 2.5: 1.5 / sqrt(2 * 1.5)
  EXPECT_NEAR(quality.widening[0], 1.5 / std::sqrt(3.0), 1e-12);
  EXPECT_NEAR(quality.widening[1], 1.0, 1e-12);
}

FootprintRow judged(const std::string& name, double joules, double error, std::uint32_t group = 0) {
  FootprintRow result = row(name, joules);
  result.error = Joules(error);
  result.group = group;
  return result;
}

Footprint grouped(std::vector<FootprintRow> rows, const FootprintGroup& group) {
  Footprint result;
  result.rows = std::move(rows);
  result.groups = {group};
  merge_rows(result);
  return result;
}

// Of 100 J: a with 60 J is known to 5 J; b and c, 15 J each, only as a sum of 30 J, to 1 J; d with 10 J hardly.
TEST(Footprint, SaysWhatCanBeTrusted) {
  const Footprint trusted =
      grouped({judged("a", 60, 5), judged("b", 15, 9, 1), judged("c", 15, 9, 1), judged("d", 10, 4)},
              {1, "GPU:0", Joules(30), Joules(1)});
  const Trust trust = trusted.trust();
  EXPECT_TRUE(trust.judged);
  EXPECT_EQ(trust.known, 1u);
  EXPECT_EQ(trust.known_energy, Joules(60));
  EXPECT_EQ(trust.grouped, 2u);
  EXPECT_EQ(trust.grouped_energy, Joules(30));
  EXPECT_EQ(trust.rest, 1u);
  EXPECT_EQ(trust.rest_energy, Joules(10));
  EXPECT_FALSE(footprint({row("a", 1)}).trust().judged);
}

// Layers of which one row is made: where it is the whole group its error is the group's, where it is more the group is
// gone, and errors add up.
TEST(Footprint, AddsUpErrorsAndGroups) {
  const Footprint whole = grouped({judged("layer_0/x", 15, 9, 1), judged("layer_1/x", 15, 9, 1), judged("y", 5, 1)},
                                  {1, "GPU:0", Joules(30), Joules(1)});
  const Footprint summed = summarised(whole, SelfSimilar());
  ASSERT_EQ(summed.rows.size(), 2u);
  EXPECT_EQ(summed.rows[0].error, Joules(1));
  EXPECT_EQ(summed.rows[0].group, 0u);
  EXPECT_TRUE(summed.groups.empty());

  const Footprint mixed = grouped({judged("layer_0/x", 15, 9, 1), judged("layer_1/x", 15, 2), judged("y", 5, 4, 1)},
                                  {1, "GPU:0", Joules(20), Joules(1)});
  const Footprint broken = summarised(mixed, SelfSimilar());
  ASSERT_EQ(broken.rows.size(), 2u);
  EXPECT_EQ(broken.rows[0].error, Joules(11));
  EXPECT_EQ(broken.rows[1].error, Joules(4));
  EXPECT_EQ(broken.rows[0].group + broken.rows[1].group, 0u);
  EXPECT_TRUE(broken.groups.empty());

  // Two runs: the method is wrong in the same way in both.
  const Footprint mean = mean_of_runs(std::vector{footprint({judged("a", 10, 2)}), footprint({judged("a", 20, 4)})});
  EXPECT_EQ(mean.rows.at(0).error, Joules(3));
}

}  // namespace
}  // namespace flyball
