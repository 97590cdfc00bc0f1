#include "pipeline/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "support/expect_error.h"
#include "support/small_pipelines.h"

namespace flyball {
namespace {

std::vector<Seconds> alike(int layers, double ms = 1.0) {
  return milliseconds(std::vector<double>(static_cast<std::size_t>(layers), ms));
}

constexpr double kTolerance = 0.01;

double rounded(double ratio) { return std::round(ratio * 100.0) / 100.0; }

TEST(Partition, EqualLayersSplitEvenly) {
  const Partition partition = partition_layers(alike(12), 4);
  EXPECT_EQ(partition.bounds, (std::vector<int>{0, 3, 6, 9, 12}));
  EXPECT_EQ(partition.imbalance, 1.0);
  for (const Seconds time : partition.stage_times) EXPECT_NEAR(time.value(), 3e-3, 1e-15);
}

TEST(Partition, SmallestCases) {
  EXPECT_EQ(partition_layers(alike(1), 1).bounds, (std::vector<int>{0, 1}));
  const Partition each = partition_layers(milliseconds({1, 2, 4}), 3);
  EXPECT_EQ(each.bounds, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_DOUBLE_EQ(each.imbalance, 4.0);
}

// Ratio before longest stage: 4 5 | 9 | 3 6 | 9 is even, so nothing beats it.
TEST(Partition, FindsTheEvenSplit) {
  const Partition partition = partition_layers(milliseconds({4, 5, 9, 3, 6, 9}), 4);
  EXPECT_EQ(partition.bounds, (std::vector<int>{0, 2, 3, 5, 6}));
  EXPECT_DOUBLE_EQ(partition.imbalance, 1.0);
}

// Among equal ratios the shorter longest stage, then the earliest bounds: 1 1 1 in two is 1 | 2 or 2 | 1.
TEST(Partition, TiesGoToTheEarliestBounds) {
  EXPECT_EQ(partition_layers(alike(3), 2).bounds, (std::vector<int>{0, 1, 3}));
}

// The least longest stage is not the least ratio. 7 4 1 5 9 in three: 7 | 4 1 5 | 9 has longest 10 and ratio 10/7;
// 7 4 | 1 5 | 9 has 11/6; 7 | 4 1 | 5 9 has 14/5; 7 4 1 | 5 | 9 has 12/5; 7 | 4 | 1 5 9 and 7 4 | 1 | 5 9 are worse.
TEST(Partition, MinimisesTheRatio) {
  const Partition partition = partition_layers(milliseconds({7, 4, 1, 5, 9}), 3);
  EXPECT_EQ(partition.bounds, (std::vector<int>{0, 1, 4, 5}));
  EXPECT_DOUBLE_EQ(partition.imbalance, 10.0 / 7.0);
}

// 5 7 | 4 8 6 | ... : the split with the shortest longest stage and the one with the least ratio differ. 9 1 8 4 in
// two: 9 1 | 8 4 has 12/10; 9 | 13 and 18 | 4 are worse. With a head of 3 only the last stage may take it: 9 1 8 | 4 +
// 3 has 18/7, 9 1 | 8 4 + 3 has 15/10.
TEST(Partition, TheTailBelongsToTheLastStage) {
  const Partition partition = partition_layers(milliseconds({9, 1, 8, 4}), 2, Seconds(3e-3));
  EXPECT_EQ(partition.bounds, (std::vector<int>{0, 2, 4}));
  EXPECT_DOUBLE_EQ(partition.imbalance, 1.5);
  EXPECT_NEAR(partition.stage_times[1].value(), 15e-3, 1e-15);
}

// Perseus table 7 for stacks of equal Transformer layers with a language-model head as one more layer. Its partition
// [0, 6, 12, 19, 25] of GPT-3 1.3B gives stages 6, 6, 7 and 5 + h, so that a head of 1 <= h <= 2 layers makes the ratio
// 7/6 = 1.17; eight stages are at best 4, 3, 3, 3, 3, 3, 3, 2 + h: 4/3 = 1.33. Likewise GPT-3 13B on eight stages:
// seven of 5 and 5 + h with 41 layers in all; a head of 0.85 makes 5.85/5 = 1.17.
TEST(Partition, GivesPerseusRatiosOfEqualLayersAndAHead) {
  const auto with_head = [](int layers, double head, int stages) {
    std::vector<Seconds> times = alike(layers);
    times.push_back(Seconds(head * 1e-3));
    return partition_layers(times, stages);
  };
  const Partition four = with_head(24, 1.5, 4);
  EXPECT_EQ(rounded(four.imbalance), 1.17);
  EXPECT_EQ(four.bounds, (std::vector<int>{0, 6, 12, 19, 25}));
  EXPECT_EQ(rounded(with_head(24, 1.5, 8).imbalance), 1.33);
  const Partition eight = with_head(40, 0.85, 8);
  EXPECT_EQ(rounded(eight.imbalance), 1.17);
  EXPECT_EQ(eight.bounds, (std::vector<int>{0, 5, 10, 15, 20, 25, 30, 35, 41}));
  // BERT 0.1B on eight stages: 12 layers and a head of one to two layers cannot do better than 2.00.
  EXPECT_EQ(rounded(with_head(12, 1.5, 8).imbalance), 2.0);
}

// What a file of examples/partition says of itself in its comments, and its layers.
struct PrintedPartition {
  std::vector<int> bounds;
  double imbalance = 0.0;
};

std::vector<PrintedPartition> published_partitions(const std::string& text) {
  std::vector<PrintedPartition> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t open = line.find('[');
    const std::size_t close = line.find(']');
    const std::size_t ratio = line.find("imbalance ");
    if (!line.starts_with("# Published") || ratio == std::string::npos) continue;
    PrintedPartition published;
    std::istringstream bounds(line.substr(open + 1, close - open - 1));
    for (std::string bound; std::getline(bounds, bound, ',');) published.bounds.push_back(std::stoi(bound));
    published.imbalance = std::stod(line.substr(ratio + 10));
    found.push_back(std::move(published));
  }
  return found;
}

// The longest stage over the shortest of given bounds.
double imbalance_of(const std::vector<Seconds>& layers, const std::vector<int>& bounds) {
  double shortest = 1e300;
  double longest = 0.0;
  for (std::size_t s = 0; s + 1 < bounds.size(); ++s) {
    double sum = 0.0;
    for (int i = bounds[s]; i < bounds[s + 1]; ++i) sum += layers.at(static_cast<std::size_t>(i)).value();
    shortest = std::min(shortest, sum);
    longest = std::max(longest, sum);
  }
  return longest / shortest;
}

// Perseus table 7, all models on both GPUs. The shipped layer times are synthetic, so the ratios agree only to the
// tolerance; whatever the times, no published partition may have a smaller ratio on them than ours.
TEST(Partition, GivesPerseusRatiosOfTheShippedLayers) {
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FLYBALL_SOURCE_DIR "/examples/partition")) {
    const std::string text = read_text_file(entry.path());
    std::vector<Seconds> layers;
    CsvReader csv(entry.path().string(), text, {"time"});
    while (csv.next()) layers.push_back(Seconds(csv.number("time")));
    for (const PrintedPartition& published : published_partitions(text)) {
      const int stages = static_cast<int>(published.bounds.size()) - 1;
      const Partition ours = partition_layers(layers, stages);
      EXPECT_NEAR(ours.imbalance, published.imbalance, kTolerance) << entry.path() << " on " << stages << " stages";
      EXPECT_LE(ours.imbalance, imbalance_of(layers, published.bounds) * (1 + 1e-12)) << entry.path();
      ++compared;
    }
  }
  EXPECT_GE(compared, 60);
}

// All ways of setting the bounds, one after the other.
void try_all(const std::vector<Seconds>& layers, std::size_t begin, int stages_left, double shortest, double longest,
             double& best_ratio) {
  double sum = 0.0;
  for (std::size_t end = begin; end < layers.size(); ++end) {
    sum += layers[end].value();
    const bool last = end + 1 == layers.size();
    if (last != (stages_left == 1)) continue;
    const double low = std::min(shortest, sum);
    const double high = std::max(longest, sum);
    if (last) {
      best_ratio = std::min(best_ratio, high / low);
    } else {
      try_all(layers, end + 1, stages_left - 1, low, high, best_ratio);
    }
  }
}

TEST(Partition, IsAsGoodAsTheBestOfAllPartitions) {
  std::mt19937 random(21);
  for (int round = 0; round < 400; ++round) {
    const int layers = 1 + static_cast<int>(random() % 12);
    const int stages = 1 + static_cast<int>(random() % static_cast<unsigned>(layers));
    std::vector<double> values;
    // Few distinct values in every other round, so that ties are common.
    for (int i = 0; i < layers; ++i)
      values.push_back(1.0 + static_cast<double>(random() % (round % 2 == 0 ? 4u : 100'000u)) * 0.01);
    const std::vector<Seconds> times = milliseconds(values);
    const Partition partition = partition_layers(times, stages);

    double best = 1e300;
    try_all(times, 0, stages, 1e300, 0.0, best);
    EXPECT_NEAR(partition.imbalance, best, 1e-9 * best);
    ASSERT_EQ(partition.bounds.size(), static_cast<std::size_t>(stages) + 1);
    EXPECT_EQ(partition.bounds.front(), 0);
    EXPECT_EQ(partition.bounds.back(), layers);
    for (std::size_t s = 0; s + 1 < partition.bounds.size(); ++s) {
      ASSERT_LT(partition.bounds[s], partition.bounds[s + 1]);
      double sum = 0.0;
      for (int i = partition.bounds[s]; i < partition.bounds[s + 1]; ++i)
        sum += times[static_cast<std::size_t>(i)].value();
      EXPECT_NEAR(partition.stage_times[s].value(), sum, 1e-12);
    }
  }
}

TEST(Partition, HundredsOfUnevenLayersTakeNoTime) {
  std::mt19937 random(22);
  std::vector<double> values;
  for (int i = 0; i < 500; ++i) values.push_back(1.0 + static_cast<double>(random() % 1'000'000) * 1e-6);
  const Partition partition = partition_layers(milliseconds(values), 16);
  EXPECT_LT(partition.imbalance, 1.05);  // 31 layers a stage: far finer than the stages
}

TEST(Partition, RefusesWhatCannotBeSplit) {
  const auto split = [](const std::vector<Seconds>& layers, int stages, double tail = 0.0) {
    static_cast<void>(partition_layers(layers, stages, Seconds(tail)));
  };
  expect_usage_error([&] { split(alike(3), 4); }, "3 layers cannot fill 4 stages");
  expect_usage_error([&] { split(alike(3), 0); }, "into 0 stages");
  expect_usage_error([&] { split({}, 1); }, "0 layers cannot fill 1 stages");
  expect_usage_error([&] { split(milliseconds({1, 0, 1}), 2); }, "layer 1 takes 0 s");
  expect_usage_error([&] { split(milliseconds({1, -1, 1}), 2); }, "layer 1 takes -0.001 s");
  expect_usage_error([&] { split(milliseconds({1, std::nan(""), 1}), 2); }, "layer 1 takes nan s");
  expect_usage_error([&] { split(milliseconds({1, 1e300, 1}), 2); }, "must be between 1 ns and 1e6 s");
  expect_usage_error([&] { split(alike(3), 2, -1.0); }, "the tail takes -1 s");
}

}  // namespace
}  // namespace flyball
