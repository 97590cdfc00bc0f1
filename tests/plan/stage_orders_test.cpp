#include "plan/stage_orders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/index.h"
#include "plan/stage_clock.h"
#include "support/pipelines.h"

namespace flyball {
namespace {

using testing::dag_of;
using ::testing::ElementsAre;
using testing::modelled_profile;
using testing::order_of;

// 1F1B of two stages and three microbatches: F0 F1 B0 F2 B1 B2 above F0 B0 F1 B1 F2 B2.
TEST(StageOrders, AreReadFromTheDag) {
  const Profile profile = modelled_profile({1.0, 1.0});
  EXPECT_THAT(stage_orders(dag_of(profile, 3)).value(), ElementsAre(StageOrder{{2, 3, 3}}, StageOrder{{1, 2, 3}}));
}

TEST(StageOrders, OfOtherSchedulesThereAreNone) {
  // GPipe's backwards begin with the last microbatch.
  EXPECT_FALSE(stage_orders(dag_of(modelled_profile({1.0, 1.0}), 3, ScheduleKind::kGpipe)).has_value());
  PipelineSpec spec;
  spec.schedule = ScheduleKind::kInterleaved1f1b;
  spec.microbatches = 4;
  spec.chunks = 2;
  EXPECT_FALSE(stage_orders(build_dag(spec, modelled_profile({1.0, 1.0}))).has_value());
}

// The first stage runs all forwards ahead, the second keeps 1F1B's order. If it received each activation only when it
// needs it, F2 would wait for F1's transfer, that for B0 of the second stage to have been sent, and that for F2.
// Where transfers (0.1 s) only delay their receivers, forwards take 1 s and backwards 2 s:
//   first stage   F0 0, F1 1, F2 2, B0 4.2, B1 7.2, B2 10.2
//   second stage  F0 1.1, B0 2.1, F1 4.1, B1 5.1, F2 7.1, B2 8.1
// F0 is sent at once. At 2 s, F1's transfer would delay F2 and the second stage's B0 by 0.3 s together; at 4.1 s,
// before B0 and F1, F1 alone by 0.1 s. So it goes with B0's, and F2's with B1's at 7.1 s.
TEST(StageOrders, OfTransfersThatOccupyBothStagesAreMovedWithThem) {
  PipelineSpec spec;
  spec.microbatches = 3;
  spec.p2p = ConstantOperation(Seconds(0.1));
  spec.transfers_occupy_both = true;
  const ComputationDag dag = build_dag(spec, modelled_profile({1.0, 1.0}));
  EXPECT_THAT(stage_orders(dag).value(), ElementsAre(StageOrder{{2, 3, 3}}, StageOrder{{1, 2, 3}}));
  const ComputationDag moved = reorder(dag, Orders{{{3, 3, 3}}, {{1, 2, 3}}});
  EXPECT_THAT(stage_orders(moved).value(), ElementsAre(StageOrder{{3, 3, 3}}, StageOrder{{1, 2, 3}}));
  // Sent and received forwards, sent and received gradients.
  const PostedTransfers none{};
  EXPECT_THAT(posted_transfers(moved, 0),
              ElementsAre(none, PostedTransfers{1, 0, 0, 0}, none, PostedTransfers{1, 0, 0, 1},
                          PostedTransfers{1, 0, 0, 1}, PostedTransfers{0, 0, 0, 1}));
  EXPECT_THAT(posted_transfers(moved, 1), ElementsAre(PostedTransfers{0, 1, 0, 0}, none, PostedTransfers{0, 1, 1, 0},
                                                      none, PostedTransfers{0, 1, 1, 0}, none));
  // F0 and its transfer until 1.1 s, F0 and B0 of the second stage until 4.1, both transfers 4.2, F1 and B1 7.2, both
  // 7.3, F2 and B2 10.3, B2's transfer 10.4, and B2 of the first stage.
  const ClockPlan fastest(at(moved.size()), 0);
  EXPECT_EQ(replay(moved, std::vector<Watts>(2), fastest).time, 12'400'000'000);
}

// Nothing says when a transfer takes place of which nothing is known.
TEST(StageOrders, ThatSendWithoutTransfersBetweenBothStagesAreKept) {
  PipelineSpec spec;
  spec.microbatches = 3;
  EXPECT_TRUE(stage_orders(build_dag(spec, modelled_profile({1.0, 1.0}))).has_value());
  spec.transfers_occupy_both = true;
  EXPECT_FALSE(stage_orders(build_dag(spec, modelled_profile({1.0, 1.0}))).has_value());
}

// On the second stage a microbatch's activations come to the loading of what it is compared with, which moves with its
// forward: F0 L0 is never seen, L0 F0 B0 L1 F1 L2 F2 B1 B2 is.
TEST(StageOrders, LoadingMovesWithItsForward) {
  PipelineSpec spec;
  spec.microbatches = 3;
  spec.p2p = ConstantOperation(Seconds(0.1));
  spec.data_load = ConstantOperation({Seconds(0.0), Seconds(0.2)}, {});
  const ComputationDag dag = build_dag(spec, modelled_profile({1.0, 1.0}));
  EXPECT_THAT(stage_orders(dag).value(), ElementsAre(StageOrder{{2, 3, 3}}, StageOrder{{1, 2, 3}}));
  const ComputationDag moved = reorder(dag, Orders{{{2, 3, 3}}, {{1, 3, 3}}});
  std::string order;
  for (const int i : moved.stage_order(1)) {
    order += moved.type_of(i).instruction == "data_load" ? 'L' : moved.type_of(i).instruction == "forward" ? 'F' : 'B';
    order += std::to_string(moved[i].microbatch);
  }
  EXPECT_EQ(order, "L0F0B0L1F1L2F2B1B2");
}

TEST(StageOrders, CountWhatAStageHolds) {
  EXPECT_THAT(in_turn(5, 3).forwards, ElementsAre(3, 4, 5, 5, 5));
  EXPECT_EQ(most_in_flight(StageOrder{{3, 4, 5, 5, 5}}), 3);
  // F0 B0 F1 F2 F3 B1 B2 F4 B3 B4: three after F3.
  EXPECT_EQ(most_in_flight(StageOrder{{1, 4, 4, 5, 5}}), 3);
}

// F0 B0 F1 B1 above F0 F1 B0 B1: the first stage waits for B0 of the second, which waits for F1 of the first.
TEST(StageOrders, ThatWaitForEachOtherCannotRun) {
  EXPECT_FALSE(can_run(Orders{{{1, 2}}, {{2, 2}}}));
  EXPECT_TRUE(can_run(Orders{{{2, 2}}, {{1, 2}}}));
  EXPECT_TRUE(can_run(Orders{{{1, 2}}, {{1, 2}}}));
}

TEST(StageOrders, ReorderKeepsComputationsAndDependencies) {
  const Profile profile = modelled_profile({1.0, 1.0});
  const ComputationDag dag = dag_of(profile, 4);
  const ComputationDag moved = reorder(dag, Orders{{{3, 3, 4, 4}}, {{1, 3, 3, 4}}});
  EXPECT_EQ(order_of(moved, 0), "F0 F1 F2 B0 B1 F3 B2 B3");
  EXPECT_EQ(order_of(moved, 1), "F0 B0 F1 F2 B1 B2 F3 B3");
  EXPECT_EQ(moved.edge_count(), dag.edge_count());
  for (int i = 0; i < moved.size(); ++i) {
    EXPECT_EQ(dag[moved.original_index(i)].type, moved[i].type);
    EXPECT_EQ(dag[moved.original_index(i)].microbatch, moved[i].microbatch);
  }
  EXPECT_THAT(stage_orders(moved).value(), ElementsAre(StageOrder{{3, 3, 4, 4}}, StageOrder{{1, 3, 3, 4}}));
}

// Every combination of orders of two stages and three microbatches, run step by step until nothing can go on.
TEST(StageOrders, CanRunSaysWhetherTheyDo) {
  const ComputationDag dag = dag_of(modelled_profile({1.0, 1.0}), 3);
  Orders all;
  for (int first = 1; first <= 3; ++first) {
    for (int second = std::max(2, first); second <= 3; ++second) all.push_back({{first, second, 3}});
  }
  ASSERT_EQ(all.size(), 5U);  // Catalan's number of 3
  for (const StageOrder& above : all) {
    for (const StageOrder& below : all) {
      bool runs = true;
      // The circle, sought by hand: run whatever can run next until nothing can.
      std::vector<StageOrder> orders{above, below};
      std::vector<int> forwards(2, 0);
      std::vector<int> backwards(2, 0);
      for (int step = 0; step < 12; ++step) {
        bool moved = false;
        for (std::size_t s = 0; s < 2 && !moved; ++s) {
          const auto next = static_cast<std::size_t>(backwards[s]);
          const bool forward_next = next < 3 && forwards[s] < orders[s].forwards[next];
          if (forward_next && (s == 0 || forwards[0] > forwards[1])) {
            ++forwards[s];
            moved = true;
          } else if (!forward_next && next < 3 && (s == 1 || backwards[1] > backwards[0])) {
            ++backwards[s];
            moved = true;
          }
        }
        runs = runs && moved;
      }
      EXPECT_EQ(can_run(Orders{above, below}), runs);
    }
  }
}

}  // namespace
}  // namespace flyball
