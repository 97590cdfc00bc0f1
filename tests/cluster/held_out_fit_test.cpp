#include "cluster/held_out_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace flyball {
namespace {

// One GPU at f0, times that are a straight line in the batch, which the model can follow: 0.1 s + 0.01 s * batch.
std::vector<JobMeasurement> line_of(int rows) {
  std::vector<JobMeasurement> measured;
  for (int i = 1; i <= rows; ++i) {
    measured.push_back({{1, 1, static_cast<double>(8 * i), Megahertz(1000)}, {Seconds(0.1 + 0.08 * i), Joules(0)}});
  }
  return measured;
}

TEST(HeldOutFit, NothingHeldOutIsAFitToAll) {
  Random random(1);
  const HeldOutFit fit = fit_held_out(line_of(12), Megahertz(1000), 0.0, random);
  EXPECT_EQ(fit.fitted, 12u);
  EXPECT_EQ(fit.held, 0u);
  EXPECT_LT(fit.on_fitted.time, 1e-3);
  EXPECT_TRUE(std::isnan(fit.on_held.time));
}

// Rows that no fit has seen lie on the line, too; one that does not is far off there and nowhere else.
TEST(HeldOutFit, JudgesByRowsThatTheFitHasNotSeen) {
  const std::vector<JobMeasurement> rows = line_of(40);
  Random random(3);
  const HeldOutFit fit = fit_held_out(rows, Megahertz(1000), 0.5, random);
  EXPECT_EQ(fit.fitted + fit.held, 40u);
  EXPECT_GT(fit.held, 8u);  // 20 expected, and fewer than 9 once in 10,000 seeds
  EXPECT_LT(fit.held, 32u);
  EXPECT_LT(fit.on_held.time, 1e-2);
  Random draws(3);
  std::vector<JobMeasurement> spoilt = rows;
  std::size_t held = 0;
  for (JobMeasurement& row : spoilt) {
    if (draws.uniform() >= 0.5) continue;
    ++held;
    row.cost.time = 2.0 * row.cost.time;  // predicted at half of what is measured: an error of 0.5
  }
  EXPECT_EQ(held, fit.held);
  Random again(3);
  const HeldOutFit judged = fit_held_out(spoilt, Megahertz(1000), 0.5, again);
  EXPECT_EQ(judged.on_fitted.time, fit.on_fitted.time);
  EXPECT_NEAR(judged.on_held.time, 0.5, 1e-2);
}

TEST(HeldOutFit, OneRowIsFittedEvenIfDrawn) {
  Random random(1);
  const HeldOutFit fit = fit_held_out(line_of(1), Megahertz(1000), 1.0, random);
  EXPECT_EQ(fit.fitted, 1u);
  EXPECT_EQ(fit.held, 0u);
}

}  // namespace
}  // namespace flyball
