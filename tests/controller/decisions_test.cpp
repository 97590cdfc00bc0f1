// What a controller on a scripted engine tells of its last decisions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "controller/controller.h"
#include "controller/controller_site.h"

namespace flyball {
namespace {

using testing::elastic;
using ::testing::HasSubstr;
using testing::Site;

// Newest first: what each job had and was to have, why, and within which power.
TEST(Decisions, AreToldWithTheirCauses) {
  Site site(2);
  site.engine.submit(1, elastic("a"));
  site.engine.submit(2, elastic("b"));
  site.cycles(6);
  std::vector<ClusterDecision> told = site.controller->status().last_decisions;
  ASSERT_EQ(told.size(), 2u);
  const Watts planned = told[0].planned;
  for (const ClusterDecision& one : told) {
    EXPECT_EQ(one.job, &one == told.data() ? 2 : 1);
    EXPECT_THAT(one.change, HasSubstr("from no GPUs to 4 GPUs on n"));
    EXPECT_EQ(one.cause, "job 1 has come, job 2 has come");
    EXPECT_EQ(one.from_gpus, 0);
    EXPECT_EQ(one.to_gpus, 4);
    EXPECT_FALSE(one.clock) << "without agents nobody sets it";
    EXPECT_EQ(one.time, Seconds(1e9 + 1));
    EXPECT_GT(one.planned.value(), 0.0);
    EXPECT_LE(one.planned, one.limit);
    EXPECT_EQ(one.budget, site.controller->status().budget);
  }
  site.engine.end(1);
  site.cycles(6);
  told = site.controller->status().last_decisions;
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0].job, 2);
  EXPECT_EQ(told[0].from_gpus, 4);
  EXPECT_EQ(told[0].to_gpus, 8);
  EXPECT_THAT(told[0].cause, HasSubstr("job 1 has finished"));
  EXPECT_EQ(told[1].planned, planned) << "what was decided before stays as it was";
}

// The newest 100.
TEST(Decisions, AreBounded) {
  Site site(2);
  for (int job = 1; job <= 120; ++job) {
    site.engine.submit(job, elastic("a"));
    site.cycles(4);
    site.engine.end(job);
  }
  const std::vector<ClusterDecision> told = site.controller->status().last_decisions;
  ASSERT_EQ(told.size(), ClusterRunStatus::kMostDecisions);
  EXPECT_EQ(told.front().job, 120);
}

}  // namespace
}  // namespace flyball
