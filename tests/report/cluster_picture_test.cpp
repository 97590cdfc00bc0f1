#include "report/cluster_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

namespace flyball {
namespace {

using ::testing::HasSubstr;

ComparedRun run(const std::string& policy, PolicySetting setting, double value, double energy_mj, double jct) {
  ComparedRun one;
  one.policy = policy;
  one.setting = setting;
  one.value = value;
  one.result.energy_j = energy_mj * 1e6;
  one.result.avg_jct_s = jct;
  return one;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(JctEnergyPicture, HasACurvePerPolicyAndAMarkPerRun) {
  const std::vector<ComparedRun> runs = {run("afs", PolicySetting::kClock, 1530, 1200, 1000),
                                         run("afs", PolicySetting::kClock, 1020, 800, 4000),
                                         run("afs", PolicySetting::kClock, 1260, 1000, 2000),
                                         run("gandiva+zeus", PolicySetting::kZeusEta, 0.5, 900, 6000)};
  const std::string svg = jct_energy_picture(runs, 640).standalone();
  EXPECT_EQ(count(svg, "<circle"), 4u);
  EXPECT_EQ(count(svg, "<polyline"), 1u);  // one run makes no line
  EXPECT_THAT(svg, HasSubstr(">afs</text>"));
  EXPECT_THAT(svg, HasSubstr(">gandiva+zeus</text>"));
  EXPECT_THAT(svg, HasSubstr("afs, 1020 MHz\n4000 s\n800"));
  EXPECT_THAT(svg, HasSubstr("gandiva+zeus, Zeus eta 0.5"));
  // Marks in the order of energy: further right, and, JCT halving each time, lower by the same distance.
  std::vector<double> xs;
  std::vector<double> ys;
  const std::regex circle("<circle cx=\"([0-9.]+)\" cy=\"([0-9.]+)\"");
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), circle); it != std::sregex_iterator(); ++it) {
    xs.push_back(std::stod((*it)[1]));
    ys.push_back(std::stod((*it)[2]));
  }
  ASSERT_EQ(xs.size(), 4u);
  EXPECT_LT(xs[0], xs[1]);
  EXPECT_LT(xs[1], xs[2]);
  EXPECT_LT(ys[0], ys[1]);
  EXPECT_NEAR(ys[1] - ys[0], ys[2] - ys[1], 0.05);
  EXPECT_LT(ys[3], ys[0]);
}

TEST(JctEnergyPicture, DrawsASingleRun) {
  const std::string svg = jct_energy_picture({run("fifo", PolicySetting::kClock, 1530, 1200, 1000)}, 400).standalone();
  EXPECT_EQ(count(svg, "<circle"), 1u);
  EXPECT_EQ(count(svg, "nan"), 0u);
  EXPECT_EQ(count(svg, "inf"), 0u);
}

}  // namespace
}  // namespace flyball
