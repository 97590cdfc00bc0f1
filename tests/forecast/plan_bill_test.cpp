// The bill of a planned run, asked for by a program that got the point wrong. What bills say is tested through the
// command (tests/cli).
#include "forecast/plan_bill.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "plan/stage_clock.h"
#include "support/pipelines.h"

namespace flyball {
namespace {

using testing::dag_of;
using testing::modelled_profile;

TEST(PlanBill, RefusesAPointThatThePlanDoesNotHave) {
  const ComputationDag dag = dag_of(modelled_profile({0.040, 0.044}), 4);
  const std::vector<Watts> blocking(2, Watts(60.0));
  Frontier frontier;
  EXPECT_THROW((void)bill_of_plan(dag, frontier, blocking, {}), UsageError);
  const ClockPlan plan(static_cast<std::size_t>(dag.size()), 0);
  frontier.add(replay(dag, blocking, plan), plan);
  frontier.finish();
  EXPECT_EQ(bill_of_plan(dag, frontier, blocking, {}).point, 0u);
  PlannedRun run;
  run.point = 1;
  EXPECT_THROW((void)bill_of_plan(dag, frontier, blocking, run), UsageError);
}

}  // namespace
}  // namespace flyball
