// Nodes that are switched off and on, on a scripted engine in which a node is off 2 s after the order and there 10 s
// after the one to wake. Four GPUs of a node; an idle one draws 50 W.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controller/controller_site.h"

namespace flyball {
namespace {

using testing::a100_cluster;
using ::testing::Contains;
using testing::elastic;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Site;

// Nodes go off after 30 s; to wake is believed to take 20 s.
ControllerOptions saving(int kept) {
  ControllerOptions how = a100_cluster();
  how.nodes_off_after = Seconds(30.0);
  how.nodes_kept_on = kept;
  how.spec.wake = Seconds(20.0);
  return how;
}

std::vector<std::string> orders(const Site& site) {
  std::vector<std::string> all;
  for (const std::string& act : site.engine.acts) {
    if (act.starts_with("on ") || act.starts_with("off ")) all.push_back(act);
  }
  return all;
}

// The first look is at 1 s, from when on three of four nodes are idle. One of them stays on. The others' eight GPUs are
// off two seconds after the order, and count no more. Three GPUs still do, which a job of one GPU would leave idle on
// the next node.
TEST(NodesOff, SwitchesThoseOffThatAreIdleForLong) {
  Site site(4, saving(1));
  site.engine.submit(1, elastic("a", 1, 4));
  site.cycles(30);
  ASSERT_EQ(site.gpus(1), 4);
  EXPECT_THAT(orders(site), IsEmpty());
  EXPECT_EQ(site.controller->status().others, Watts(12 * 50.0));
  site.cycle();
  EXPECT_THAT(orders(site), ElementsAre("off n3,n4"));
  site.cycles(3);
  EXPECT_EQ(site.controller->status().others, Watts((4 + 3) * 50.0));
  EXPECT_TRUE(site.controller->status().nodes.at(3).off);
  EXPECT_FALSE(site.controller->status().nodes.at(1).off);
  site.cycles(100);
  EXPECT_THAT(orders(site), ElementsAre("off n3,n4"));  // and they stay so
}

// To wake is believed to take 100 s: a node that has idled for less would have drawn less than waking costs.
TEST(NodesOff, WaitsAsLongAsTheyTakeToWake) {
  ControllerOptions how = saving(0);
  how.spec.wake = Seconds(100.0);
  Site site(1, how);
  site.cycles(100);
  EXPECT_THAT(orders(site), IsEmpty());
  site.cycle();
  EXPECT_THAT(orders(site), ElementsAre("off n1"));
}

TEST(NodesOff, IsNotDoneUnlessItIsAskedFor) {
  Site site(2);
  site.cycles(200);
  EXPECT_THAT(site.engine.acts, IsEmpty());
  site.engine.set_state(site.engine.node("n2"), NodePower::kOff);
  site.cycle();
  EXPECT_FALSE(site.controller->status().nodes.at(1).ours);
}

// The order is given in the cycle in which the job comes; the node is there ten seconds later.
TEST(NodesOff, WakesANodeBeforeAJobStartsThere) {
  Site site(2, saving(0));
  site.cycles(40);
  ASSERT_THAT(orders(site), ElementsAre("off n1,n2"));
  site.engine.submit(1, elastic("a", 1, 4));
  site.cycle();
  EXPECT_THAT(orders(site), ElementsAre("off n1,n2", "on n1"));
  site.cycles(9);
  EXPECT_THAT(site.engine.acts, Not(Contains("start 1")));
  site.cycles(3);
  EXPECT_EQ(site.gpus(1), 4);
  EXPECT_EQ(site.engine.starts_on_sleepers, 0);
  EXPECT_THAT(site.log, Contains("node n1 is there 10.0 s after it was told to wake"));
  site.start();  // it is kept
  site.cycle();
  const ClusterNodeStatus node = site.controller->status().nodes.at(0);
  EXPECT_EQ(node.wake, Seconds(10.0));
  EXPECT_EQ(node.wakes, 1);
  EXPECT_EQ(node.wakes_failed, 0);
}

// What a wake was measured to take is what the others are believed to take: no longer 20 s, but 10 s.
TEST(NodesOff, CountsWhatAWakeWasMeasuredToTake) {
  ControllerOptions how = saving(0);
  how.nodes_off_after = Seconds(0.0);
  Site site(1, how);
  site.cycles(24);
  ASSERT_THAT(orders(site), ElementsAre("off n1"));
  site.engine.submit(1, elastic("a", 1, 4));
  site.cycles(20);
  ASSERT_EQ(site.gpus(1), 4);
  site.engine.end(1);
  site.engine.acts.clear();
  site.cycles(10);
  EXPECT_THAT(orders(site), IsEmpty());
  site.cycle();
  EXPECT_THAT(orders(site), ElementsAre("off n1"));
}

// With watts for four GPUs only (LowersBeforeItRaises: 1468 W on four, 2848 W on eight), the second node goes off.
// With more watts the job is to have it, and trains on until it is there.
TEST(NodesOff, LetsAJobRunUntilItsNextNodeIsThere) {
  ControllerOptions how = saving(0);
  how.budget = Watts(2000.0);
  Site site(2, how);
  site.engine.submit(1, elastic("a"));
  site.cycles(40);
  ASSERT_EQ(site.gpus(1), 4);
  ASSERT_THAT(orders(site), ElementsAre("off n2"));
  site.controller->order_budget({Watts(6000.0), std::nullopt});
  site.cycles(10);
  EXPECT_THAT(orders(site), ElementsAre("off n2", "on n2"));
  EXPECT_EQ(site.gpus(1), 4);
  EXPECT_EQ(site.requeues(1), 0);
  site.cycles(6);
  EXPECT_EQ(site.gpus(1), 8);
  EXPECT_EQ(site.engine.starts_on_sleepers, 0);
}

// A wake that takes longer than any change may is no failure of the change.
TEST(NodesOff, DoesNotGiveUpAJobWhoseNodeTakesLong) {
  Site site(1, saving(0));
  site.cycles(40);
  site.engine.wake = Seconds(1000.0);
  site.engine.submit(1, elastic("a", 1, 4));
  site.cycles(1010);
  EXPECT_EQ(site.gpus(1), 4);
  EXPECT_THAT(site.log, Not(Contains(HasSubstr("came to nothing"))));
}

// As Slurm does after ResumeTimeout: the node is down. The job gets another one.
TEST(NodesOff, TakesAnotherNodeWhereOneDoesNotComeBack) {
  Site site(2, saving(0));
  site.cycles(40);
  site.engine.wake = Seconds(1e9);
  site.engine.submit(1, elastic("a", 1, 4));
  site.cycles(30);
  ASSERT_THAT(orders(site), ElementsAre("off n1,n2", "on n1"));
  EngineNode& node = site.engine.node("n1");
  site.engine.set_state(node, NodePower::kOff);
  node.usable = false;
  site.engine.wake = Seconds(10.0);
  site.cycles(15);
  EXPECT_THAT(orders(site), ElementsAre("off n1,n2", "on n1", "on n2"));
  EXPECT_EQ(site.gpus(1), 4);
  EXPECT_EQ(site.controller->status().nodes.at(0).wakes_failed, 1);
  EXPECT_EQ(site.controller->status().nodes.at(0).wakes, 0);
  EXPECT_EQ(site.controller->status().nodes.at(1).wakes, 1);
}

// The order to wake is lost while a node goes off, or is refused: it is given when the node is off, and again after a
// minute.
TEST(NodesOff, AsksAgainWhereAnOrderWasLost) {
  Site site(1, saving(0));
  site.cycles(31);
  ASSERT_THAT(orders(site), ElementsAre("off n1"));
  site.engine.submit(1, elastic("a", 1, 4));
  site.cycle();
  EXPECT_THAT(orders(site), ElementsAre("off n1"));  // it goes off still
  site.cycles(20);
  EXPECT_EQ(site.gpus(1), 4);
  site.engine.end(1);
  site.cycles(40);
  ASSERT_THAT(orders(site), ElementsAre("off n1", "on n1", "off n1"));
  site.engine.refuses = true;
  site.engine.submit(2, elastic("a", 1, 4));
  site.cycles(5);
  site.engine.refuses = false;
  site.cycles(50);
  EXPECT_EQ(site.gpus(2), 0);
  site.cycles(20);
  EXPECT_EQ(site.gpus(2), 4);
}

// Slurm may start a job of others at any moment, unless it waits for something else than nodes.
TEST(NodesOff, KeepsNodesOnForWhoeverWaitsForThem) {
  Site site(2, saving(0));
  EngineJob& job = site.engine.submit(1, "", false);
  site.cycles(60);
  EXPECT_THAT(orders(site), IsEmpty());
  job.for_nodes = false;
  site.cycles(1);
  EXPECT_THAT(orders(site), ElementsAre("off n1,n2"));
}

// A node with a job of others is not idle, and one that is drained is the administrator's.
TEST(NodesOff, LeavesNodesOfOthersAlone) {
  Site site(3, saving(0));
  site.engine.run(1, "", "n1", 1);
  site.engine.node("n2").usable = false;
  site.cycles(60);
  EXPECT_THAT(orders(site), ElementsAre("off n3"));
}

TEST(NodesOff, ChangesNothingInADryRun) {
  ControllerOptions how = saving(0);
  how.mode = ControllerMode::kDryRun;
  Site site(1, how);
  site.cycles(31);
  EXPECT_THAT(site.controller->decided(), ElementsAre("switch n1 off: idle for more than 30 s"));
  EXPECT_THAT(site.engine.acts, IsEmpty());
}

// While the engine is away nothing is ordered, and what a wake took meanwhile is not known.
TEST(NodesOff, MeasuresNoWakeThatItDidNotSee) {
  Site site(1, saving(0));
  site.cycles(40);
  site.engine.submit(1, elastic("a", 1, 4));
  site.cycles(5);
  ASSERT_THAT(orders(site), ElementsAre("off n1", "on n1"));
  site.engine.is_away = true;
  for (int i = 0; i < 20; ++i) EXPECT_THROW(site.cycle(), SystemError);
  site.engine.is_away = false;
  site.cycles(20);
  EXPECT_EQ(site.gpus(1), 4);
  EXPECT_EQ(site.controller->status().nodes.at(0).wakes, 0);
}

// Killed before or after any act, among which are the orders to switch, it does each once, and the job runs.
TEST(NodesOff, MayBeKilledAtAnyAct) {
  int acts = 0;
  for (int at = -1; at < acts; ++at) {
    for (const bool after : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "act " << at << (after ? ", after" : ", before"));
      Site site(2, saving(0));
      site.engine.kill_at = at;
      site.engine.kill_after = after;
      site.cycles(40);
      site.engine.submit(1, elastic("a", 1, 4));
      site.cycles(20);
      EXPECT_EQ(site.gpus(1), 4);
      EXPECT_EQ(site.engine.starts[1], 1);
      EXPECT_EQ(site.engine.starts_on_sleepers, 0);
      EXPECT_EQ(site.kills, at < 0 ? 0 : 1);
      EXPECT_THAT(orders(site), ElementsAre("off n1,n2", "on n1"));
      EXPECT_EQ(site.controller->status().nodes.at(0).wakes, 1);
      if (at < 0) acts = static_cast<int>(site.engine.acts.size());
    }
  }
  EXPECT_EQ(acts, 4);  // off, on, resize, start
}

}  // namespace
}  // namespace flyball
