#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "profile/composition.h"
#include "support/expect_error.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;

Segment segment_of(const std::string& name, const std::vector<SegmentOption>& options) {
  return {name, {{Megahertz(1410), options}}};
}

std::vector<std::string> shown(const OperationProfile& operation) {
  std::vector<std::string> lines;
  for (std::size_t k = 0; k < operation.options.size(); ++k) {
    lines.push_back(fmt::format("{} {:.4g} ms {:.4g} J {}", operation.options[k].frequency.value(),
                                operation.options[k].time.value() * 1e3, operation.options[k].energy.value(),
                                label_text(operation.labels.of(k))));
  }
  return lines;
}

// In a layer: xu 2 ms 0.9 J, xv 4 ms 0.85 J, yu 3 ms 0.7 J, yv 5 ms 0.65 J; xv is beaten by yu. Twice for two layers,
// and once for stage 0's embedding of 1 ms and 0.1 J.
TEST(Compose, KeepsTheSumsThatNoOtherBeats) {
  Composition composition{"c.toml", {2, 2}, {}, {}};
  composition.segments = {segment_of("a", {{"x", Seconds(0.001), Joules(0.5)}, {"y", Seconds(0.002), Joules(0.3)}}),
                          segment_of("b", {{"u", Seconds(0.001), Joules(0.4)}, {"v", Seconds(0.003), Joules(0.35)}}),
                          segment_of("embedding", {{"", Seconds(0.001), Joules(0.1)}})};
  composition.operations = {{"forward", {{"a", 0}, {"b", 1}, {"", 2, 1.0, false, {0}}}}};
  const ComposedProfile composed = compose_profile(composition, {Watts(0)});
  ASSERT_EQ(composed.profile.operations.size(), 2u);
  EXPECT_THAT(shown(composed.profile.operations[0]),
              ElementsAre("1410 5 ms 1.9 J a=x, b=u", "1410 7 ms 1.5 J a=y, b=u", "1410 11 ms 1.4 J a=y, b=v"));
  EXPECT_THAT(shown(composed.profile.operations[1]),
              ElementsAre("1410 4 ms 1.8 J a=x, b=u", "1410 6 ms 1.4 J a=y, b=u", "1410 10 ms 1.3 J a=y, b=v"));
  EXPECT_EQ(composed.figures.at(0).combinations, 4.0);
  EXPECT_EQ(composed.figures.at(0).options, 3u);
}

// y is slower and takes 0.05 J more, but 0.075 J of what it takes would be drawn by waiting for so long.
TEST(Compose, ComparesEnergiesNetOfBlocking) {
  Composition composition{"c.toml", {1}, {{"forward", {{"a", 0}}}}, {}};
  composition.segments = {segment_of("a", {{"x", Seconds(0.001), Joules(0.5)}, {"y", Seconds(0.002), Joules(0.55)}})};
  EXPECT_EQ(compose_profile(composition, {Watts(0)}).profile.operations[0].options.size(), 1u);
  EXPECT_EQ(compose_profile(composition, {Watts(75)}).profile.operations[0].options.size(), 2u);
}

// Recompute comes first in Kareus's columns, although the forward, which stands first, has none of it.
TEST(Compose, ColumnsStandInTheOrderOfAllOperations) {
  Composition composition{"c.toml", {1}, {}, {}};
  const std::vector<SegmentOption> one = {{"s", Seconds(0.001), Joules(0.5)}};
  composition.segments = {segment_of("f", one), segment_of("b", one)};
  composition.operations = {{"forward", {{"attn", 0}, {"mlp", 0}}},
                            {"backward", {{"re_attn", 0}, {"re_mlp", 0}, {"attn", 1}, {"mlp", 1}}}};
  const Profile profile = compose_profile(composition, {}).profile;
  EXPECT_EQ(write_profile(profile, {}),
            "stage,instruction,frequency,re_attn,re_mlp,attn,mlp,time,energy\n"
            "0,forward,1410,,,s,s,0.002,1\n"
            "0,backward,1410,s,s,s,s,0.004,2\n");
  std::reverse(composition.operations[1].uses.begin(), composition.operations[1].uses.end());
  expect_input_error([&] { static_cast<void>(compose_profile(composition, {})); }, 0, 0, "in another order");
}

struct Combination {
  std::string labels;
  double time;
  double energy;
};

// Every choice of one setting per segment, by counting.
std::vector<Combination> every_combination(const Composition& composition, Megahertz clock) {
  std::vector<Combination> all = {{"", 0.0, 0.0}};
  for (const SegmentUse& use : composition.operations[0].uses) {
    const double times = use.times * (use.per_layer ? composition.layers[0] : 1);
    std::vector<Combination> longer;
    for (const Combination& before : all) {
      for (const SegmentOption& option : composition.segments[use.segment].at.at(clock)) {
        longer.push_back({before.labels + (before.labels.empty() ? "" : ", ") + use.label + "=" + option.setting,
                          before.time + times * option.time.value(), before.energy + times * option.energy.value()});
      }
    }
    all = std::move(longer);
  }
  return all;
}

// Up to four segments with up to six settings at two clocks; slower settings are cheaper, but for some.
Composition random_composition(std::mt19937& random) {
  std::uniform_real_distribution<double> share(0.0, 1.0);
  Composition composition{"random", {1 + static_cast<int>(random() % 5)}, {{"forward", {}}}, {}};
  const std::size_t segments = 2 + random() % 3;
  for (std::size_t s = 0; s < segments; ++s) {
    Segment segment{"s", {}};
    for (const double clock : {1410.0, 1200.0}) {
      const std::size_t settings = 1 + random() % 6;
      for (std::size_t k = 0; k < settings; ++k) {
        const double slow = share(random);
        segment.at[Megahertz(clock)].push_back(
            {std::to_string(k), Seconds(1e-3 * (1.0 + slow)), Joules(0.4 - 0.15 * slow + 0.1 * share(random))});
      }
    }
    composition.segments.push_back(std::move(segment));
    composition.operations[0].uses.push_back({"L" + std::to_string(s), s, 1.0 + share(random), random() % 2 == 0});
  }
  return composition;
}

TEST(Compose, AgainstEveryCombination) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const Composition composition = random_composition(random);
    const Watts blocking(round % 2 == 0 ? 75.0 : 0.0);
    const auto net = [&](const Combination& one) { return one.energy - blocking.value() * one.time; };
    const ComposedProfile composed = compose_profile(composition, {blocking});
    std::set<std::string> kept;
    for (std::size_t k = 0; k < composed.profile.operations[0].options.size(); ++k) {
      kept.insert(shown(composed.profile.operations[0])[k]);
    }
    std::set<std::string> expected;
    double combinations = 0.0;
    for (const double clock : {1410.0, 1200.0}) {
      const std::vector<Combination> all = every_combination(composition, Megahertz(clock));
      combinations += static_cast<double>(all.size());
      for (const Combination& one : all) {
        const bool beaten = std::any_of(all.begin(), all.end(), [&](const Combination& other) {
          return other.time <= one.time && net(other) <= net(one) && other.labels != one.labels;
        });
        if (!beaten) {
          expected.insert(fmt::format("{} {:.4g} ms {:.4g} J {}", clock, one.time * 1e3, one.energy, one.labels));
        }
      }
    }
    EXPECT_EQ(kept, expected) << "round " << round;
    EXPECT_EQ(composed.figures[0].combinations, combinations);
  }
}

// Whatever is left out, something no slower is kept that costs at most the tolerance more.
TEST(Compose, ToleranceBoundsWhatIsGivenAway) {
  constexpr double kTolerance = 0.05;
  std::mt19937 random(12);
  std::size_t with = 0;
  std::size_t without = 0;
  for (int round = 0; round < 40; ++round) {
    const Composition composition = random_composition(random);
    const Watts blocking(75.0);
    const ComposedProfile composed = compose_profile(composition, {blocking, kTolerance});
    with += composed.figures[0].options;
    without += compose_profile(composition, {blocking}).figures[0].options;
    for (const double clock : {1410.0, 1200.0}) {
      const std::vector<Combination> all = every_combination(composition, Megahertz(clock));
      double most = 0.0;
      for (const Combination& one : all) most = std::max(most, one.energy);
      for (const Combination& one : all) {
        const auto& options = composed.profile.operations[0].options;
        const bool covered = std::any_of(options.begin(), options.end(), [&](const ClockOption& option) {
          return option.frequency == Megahertz(clock) && option.time.value() <= one.time + 1e-9 &&
                 option.energy.value() - 75.0 * option.time.value() <= one.energy - 75.0 * one.time + kTolerance * most;
        });
        EXPECT_TRUE(covered) << one.labels;
      }
    }
  }
  EXPECT_LT(3 * with, 2 * without);
}

constexpr const char* kRow =
    R"({"freq": 1410, "overlap_start": "norm_0", "overlap_end": "none", "sm": 12, "block": 1024, "time_s": 0.001, )"
    R"("energy_j": 0.3, "step": 7})";

// Two measurements of one setting: their mean.
TEST(Segment, ReadsKareussRows) {
  const Segment segment = read_segment("fwd_attn.jsonl", std::string(kRow) + "\n\n" +
                                                             R"({"freq":1410,"overlap_start":"norm_0",)"
                                                             R"("overlap_end":null,"sm":12,"block":1024,)"
                                                             R"("time_s":0.003,"energy_j":0.5})" +
                                                             "\r\n");
  ASSERT_EQ(segment.at.size(), 1u);
  const std::vector<SegmentOption>& options = segment.at.begin()->second;
  ASSERT_EQ(options.size(), 1u);
  EXPECT_EQ(options[0].setting, "norm_0-none-12-1024");
  EXPECT_DOUBLE_EQ(options[0].time.value(), 0.002);
  EXPECT_DOUBLE_EQ(options[0].energy.value(), 0.4);
  const Segment plain = read_segment("embedding.jsonl", R"({"freq": 1200, "time_s": 1e-3, "energy_j": 0.2})");
  EXPECT_FALSE(plain.has_settings());
}

TEST(Segment, RefusesRowsWithPlaceAndMend) {
  const auto expect_refused = [](const std::string& text, std::size_t line, std::size_t column,
                                 const std::string& words) {
    expect_input_error([&] { static_cast<void>(read_segment("s.jsonl", text)); }, line, column, words);
  };
  const auto replaced = [](const std::string& what, const std::string& with) {
    std::string text = kRow;
    return text.replace(text.find(what), what.size(), with);
  };
  expect_refused("", 0, 0, "no rows");
  expect_refused(std::string(kRow) + "\n{\"freq\": oops}", 2, 10, "no JSON");
  expect_refused("[1]", 1, 1, "no object");
  expect_refused(replaced("\"time_s\": 0.001, ", ""), 1, 1, "no time_s");
  expect_refused(replaced("0.001", "-1"), 1, 1, "time_s is -1");
  expect_refused(replaced("0.001", "\"1\""), 1, 1, "time_s is no number");
  expect_refused(replaced("1410", "1e7"), 1, 1, "freq is 10000000");
  expect_refused(replaced("\"sm\": 12, ", ""), 1, 1, "a part of a setting");
  expect_refused(replaced("\"sm\": 12", "\"sm\": 1.5"), 1, 1, "sm is neither");
  expect_refused(replaced("norm_0", "a,b"), 1, 1, "a blank, a comma");
  expect_refused(std::string(kRow) + "\n" + R"({"freq": 1200, "time_s": 1e-3, "energy_j": 0.2})", 2, 1,
                 "some have none");
}

Composition composition_of(const std::string& text) {
  return read_composition("c.toml", text, [](const std::string& file) {
    return segment_of(file, {{file == "plain" ? "" : "s", Seconds(0.001), Joules(0.5)}});
  });
}

TEST(CompositionFile, SaysWhatRunsHowOftenAndWhere) {
  const Composition composition = composition_of(
      "layers = [3, 4]\n[[operation]]\ninstruction = \"forward\"\n"
      "[[operation.segment]]\nfile = \"a\"\nlabel = \"attn\"\nper_layer = 2.5\n"
      "[[operation.segment]]\nfile = \"plain\"\nper_operation = 1\nstages = [1]\n"
      "[[operation]]\ninstruction = \"backward\"\n[[operation.segment]]\nfile = \"a\"\nlabel = \"attn\"\n");
  EXPECT_EQ(composition.segments.size(), 2u);
  const Profile profile = compose_profile(composition, {}).profile;
  EXPECT_EQ(write_profile(profile, {}),
            "stage,instruction,frequency,attn,time,energy\n"
            "0,forward,1410,s,0.0075,3.75\n"  // 3 * 2.5
            "0,backward,1410,s,0.003,1.5\n"
            "1,forward,1410,s,0.011,5.5\n"  // 4 * 2.5 + 1
            "1,backward,1410,s,0.004,2\n");
}

TEST(CompositionFile, IsRefusedWithPlaceAndMend) {
  const auto expect_refused = [](const std::string& text, std::size_t line, std::size_t column,
                                 const std::string& words) {
    expect_input_error([&] { static_cast<void>(composition_of(text)); }, line, column, words);
  };
  const std::string begin = "layers = [3]\n[[operation]]\ninstruction = \"forward\"\n";
  const std::string use = "[[operation.segment]]\nfile = \"a\"\n";  // lines 4 and 5
  expect_refused("", 0, 0, "layers must be a list");
  expect_refused("layers = 3", 1, 10, "layers must be a list");
  expect_refused("layers = [0]", 1, 11, "layers is 0");
  expect_refused("layers = [3]", 0, 0, "no [[operation]]");
  expect_refused("layers = [3]\noperation = 1", 2, 13, "must be a list of tables");
  expect_refused("layers = [3]\nlayer = 1", 2, 1, "unknown key 'layer'");
  expect_refused(begin, 2, 1, "the operation has no segment");
  expect_refused(begin + use, 4, 1, "the settings of a need a label");
  expect_refused(begin + "[[operation.segment]]\nfile = \"plain\"\nlabel = \"x\"\n", 6, 9, "has no settings");
  expect_refused(begin + use + "label = \"time\"\n", 6, 9, "'time' cannot be a label");
  expect_refused(begin + use + "label = \"a,b\"\n", 6, 9, "a comma");
  expect_refused(begin + use + "label = \"x\"\nper_layer = 0\n", 7, 13, "per_layer is 0");
  expect_refused(begin + use + "label = \"x\"\nper_layer = 1\nper_operation = 1\n", 8, 17, "beside per_layer");
  expect_refused(begin + use + "label = \"x\"\nstages = [1]\n", 7, 11, "no such stage");
  expect_refused(begin + use + "label = \"x\"\n" + use + "label = \"x\"\n", 9, 9, "label 'x' stands twice");
  expect_refused(begin + use + "label = \"x\"\n[[operation]]\ninstruction = \"forward\"\n", 8, 15, "stands twice");
}

TEST(Compose, RefusesWhatHasNoClockInCommon) {
  Composition composition{"c.toml", {1}, {{"forward", {{"a", 0}, {"b", 1}}}}, {}};
  composition.segments = {segment_of("a", {{"x", Seconds(0.001), Joules(0.5)}}), {"b", {}}};
  composition.segments[1].at[Megahertz(1200)] = {{"y", Seconds(0.001), Joules(0.5)}};
  expect_input_error([&] { static_cast<void>(compose_profile(composition, {})); }, 0, 0, "no clock in common");
}

TEST(CompositionFile, TheExampleIsReadable) {
  const Composition composition = read_composition_file(FLYBALL_SOURCE_DIR "/examples/segments/composition.toml");
  EXPECT_EQ(composition.segments.size(), 6u);
  EXPECT_EQ(compose_profile(composition, {}).figures.size(), 4u);
}

}  // namespace
}  // namespace flyball
