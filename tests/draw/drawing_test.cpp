// The parts that pictures are made of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "draw/label_layout.h"
#include "draw/palette.h"
#include "draw/scale.h"
#include "draw/svg_canvas.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RoundTicks, AreRoundAndInside) {
  const Ticks ticks = round_ticks(0.13, 0.92, 4);
  EXPECT_DOUBLE_EQ(ticks.step, 0.2);
  std::vector<std::string> labels;
  for (const double value : ticks.values) labels.push_back(ticks.label(value));
  EXPECT_THAT(labels, ElementsAre("0.2", "0.4", "0.6", "0.8"));
  EXPECT_THAT(round_ticks(24000, 31000, 3).values, ElementsAre(25000, 30000));
  EXPECT_THAT(round_ticks(-5, 5, 2).values, ElementsAre(-5, 0, 5));
}

TEST(Numbers, AreGroupedAndShort) {
  EXPECT_EQ(grouped_number(1234.5, 1), "1234.5");
  EXPECT_EQ(grouped_number(1234567.25, 1), "1\u202f234\u202f567.2");
  EXPECT_EQ(grouped_number(-12345.0, 0), "-12\u202f345");
  EXPECT_EQ(short_number(75.0), "75");
  EXPECT_EQ(short_number(0.012345), "0.01235");
  EXPECT_EQ(short_number(12.345), "12.35");
}

TEST(PowerScale, RisesFromDarkToBright) {
  const PowerScale scale(Watts(160), Watts(388));
  EXPECT_EQ(scale.least(), Watts(150));
  EXPECT_EQ(scale.most(), Watts(400));
  EXPECT_EQ(scale.color(Watts(150)), "#440154");
  EXPECT_EQ(scale.color(Watts(400)), "#fde725");
  EXPECT_EQ(scale.color(Watts(1000)), "#fde725");
  EXPECT_TRUE(scale.is_dark(Watts(150)));
  EXPECT_FALSE(scale.is_dark(Watts(400)));
  // One power only is a range as well.
  EXPECT_EQ(PowerScale(Watts(200), Watts(200)).color(Watts(200)), "#440154");
}

TEST(SvgCanvas, EscapesAndLowersIndices) {
  SvgCanvas svg(10, 10, "a < b");
  svg.text(1, 2, "T_{min} & more", "soft", Anchor::kEnd);
  const std::string text = svg.standalone();
  EXPECT_THAT(text, HasSubstr("aria-label=\"a &lt; b\""));
  EXPECT_THAT(text, HasSubstr("T<tspan dy=\"3\" font-size=\"85%\">min</tspan><tspan dy=\"-3\"> &amp; more</tspan>"));
}

TEST(SvgCanvas, CoordinatesAreShort) {
  EXPECT_EQ(coordinate(1.0 / 3.0), "0.33");
  EXPECT_EQ(coordinate(12.0), "12");
  EXPECT_EQ(coordinate(-0.001), "0");
}

TEST(LabelLayout, KeepsLabelsApartAndInside) {
  LabelLayout layout({0, 0, 300, 200}, 12);
  // Three labels want the same place; each has room elsewhere.
  std::vector<LabelSpot> taken;
  for (int k = 0; k < 3; ++k) taken.push_back(layout.place("label", spots_around(290, 10, 10, 12)));
  for (std::size_t a = 0; a < taken.size(); ++a) {
    const double width = text_width("label", 12);
    const double left = taken[a].anchor == Anchor::kStart ? taken[a].x
                        : taken[a].anchor == Anchor::kEnd ? taken[a].x - width
                                                          : taken[a].x - width / 2;
    EXPECT_GE(left, 0.0);
    EXPECT_LE(left + width, 300.0);
    EXPECT_GE(taken[a].y - 9.0, 0.0);
    for (std::size_t b = 0; b < a; ++b) {
      EXPECT_FALSE(taken[a].x == taken[b].x && taken[a].y == taken[b].y) << a << " lies on " << b;
    }
  }
}

TEST(LabelLayout, AvoidsTheData) {
  LabelLayout layout({0, 0, 300, 200}, 12);
  // A curve where the first choice would stand, to the upper right of the point.
  for (double x = 105; x < 160; x += 2) layout.avoid(x, 88);
  const LabelSpot spot = layout.place("label", spots_around(100, 100, 12, 12));
  EXPECT_FALSE(spot.anchor == Anchor::kStart && spot.y < 95.0);
}

}  // namespace
}  // namespace flyball
