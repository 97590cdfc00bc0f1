// The bill of a planned run, asked for by a program that got the point wrong. What bills say is tested through the
// command (tests/cli).
#include "forecast/plan_bill.h"

#include <gtest/gtest.h>

#include <cmath>
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

// A first forward, and one of chunk 1, are forwards; first recomputations are backwards, and blocks are neither.
TEST(PlanBill, CountsFirstMicrobatchesAndChunksWithTheirInstruction) {
  std::vector<OperationType> types;
  std::vector<Computation> nodes;
  std::vector<ComputationDag::Edge> edges;
  for (const char* name : {"forward.first", "forward", "forward.1.last", "recompute.first", "backward", "block"}) {
    const int i = static_cast<int>(nodes.size());
    types.push_back({0, name, {{Megahertz(1000), Seconds(1), Joules(std::pow(10, i))}}});
    nodes.push_back({i, 0, 0});
    if (i > 0) edges.push_back({i - 1, i});
  }
  const ComputationDag dag("a test", 1, types, nodes, edges);
  const std::vector<Watts> blocking(1, Watts(0.0));
  Frontier frontier;
  const ClockPlan plan(nodes.size(), 0);
  frontier.add(replay(dag, blocking, plan), plan);
  frontier.finish();
  const PlanBill bill = bill_of_plan(dag, frontier, blocking, {});
  const auto& parts = bill.sheet.stages.at(0).parts;
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].name, "forward");
  EXPECT_EQ(parts[0].energy, Joules(111));
  EXPECT_EQ(parts[1].energy, Joules(11'000));
  EXPECT_EQ(parts[2].energy, Joules(100'000));
}

}  // namespace
}  // namespace flyball
