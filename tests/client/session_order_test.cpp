// The order in which a rank runs its computations: what it holds, what is agreed on, and what the server is told.
#include <gmock/gmock.h>

#include <cstdint>
#include <vector>

#include "client/session_fixture.h"

namespace flyball {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Both forwards, then both backwards, at these clocks in MHz.
RankSchedule forwards_first(std::int64_t order, const std::vector<int>& clocks) {
  RankSchedule schedule;
  schedule.order = order;
  schedule.computations = {{"forward", 0, 0, clocks[0]},
                           {"forward", 1, 0, clocks[1]},
                           {"backward", 0, 0, clocks[2]},
                           {"backward", 1, 0, clocks[3]}};
  return schedule;
}

class SessionOrderTest : public SessionTest {
 protected:
  void open_without_profiling(Seconds time_to_agree = Seconds(1000)) {
    SessionOptions chosen = options(true);
    chosen.profile = false;
    chosen.job.executes_order = true;
    chosen.time_to_agree = time_to_agree;
    open(chosen);
  }

  // One step of the engine: in the order that is agreed on, else forward and backward in turn.
  void step_in_order(double milliseconds = 1.0) {
    if (session_->order_in_use().empty()) return step(milliseconds);
    session_->step_begin();
    for (const ScheduledComputation& one : session_->order_in_use()) compute(one.instruction.c_str(), milliseconds);
    session_->step_end();
  }

  // Steps until the session's state says that it runs by this version of the schedule.
  bool runs_version(std::int64_t version) {
    return rounds_until([&] {
      step_in_order();
      return session_->state().schedule_version == version;
    });
  }

  // Steps until the rank holds that order.
  bool held(std::int64_t order) {
    return rounds_until([&] {
      const bool holds = session_->order_held() == order;
      step_in_order();
      return holds;
    });
  }
};

// The other ranks do not hold the order yet: it is not run, and its clocks are not set. Then they do.
TEST_F(SessionOrderTest, AnOrderIsRunWhenItIsAgreedOn) {
  server_.start();
  open_without_profiling();
  EXPECT_EQ(session_->order_held(), 0);
  EXPECT_THAT(session_->order_in_use(), IsEmpty());
  server_.publish(forwards_first(7, {900, 800, 700, 600}));
  ASSERT_TRUE(held(7));
  session_->use_order(0);
  for (int i = 0; i < 5; ++i) step_in_order();
  EXPECT_EQ(session_->state().order, 0);
  EXPECT_EQ(session_->state().schedule_version, 0);
  EXPECT_THAT(gpu_.take_history(), IsEmpty());

  ASSERT_TRUE(rounds_until([&] { return session_->order_held() == 7; }));
  session_->use_order(7);
  ASSERT_THAT(session_->order_in_use(), SizeIs(4));
  EXPECT_EQ(session_->order_in_use()[1].instruction, "forward");
  EXPECT_EQ(session_->order_in_use()[1].microbatch, 1);
  ASSERT_TRUE(runs_version(1));
  EXPECT_EQ(session_->state().order, 7);
  (void)gpu_.take_history();
  // Long enough computations for every clock to arrive.
  step_in_order(20.0);
  std::vector<double> history = gpu_.take_history();
  if (!history.empty() && history.front() == 600) history.erase(history.begin());  // the step before's last
  EXPECT_THAT(history, ElementsAre(900, 800, 700, 600));
  EXPECT_THAT(server_.orders, IsEmpty());
}

// Version 2 is of the order that runs: it is adopted. Version 3 is of another: the ranks run the old one at the clocks
// of version 2 until they agree on it, or, if they do not, the schedule's own at default clocks.
TEST_F(SessionOrderTest, ANewOrderIsNoneUntilItIsAgreedOn) {
  server_.start();
  open_without_profiling();
  server_.publish(forwards_first(7, {900, 800, 700, 600}));
  ASSERT_TRUE(held(7));
  session_->use_order(7);
  server_.publish(forwards_first(7, {500, 500, 500, 500}));
  ASSERT_TRUE(runs_version(2));
  server_.publish(forwards_first(9, {800, 800, 800, 800}));
  ASSERT_TRUE(held(9));
  (void)gpu_.take_history();
  step_in_order(10.0);
  EXPECT_EQ(session_->state().order, 7);
  EXPECT_EQ(session_->state().schedule_version, 2);
  EXPECT_THAT(gpu_.take_history(), Each(500));
  EXPECT_THROW(session_->use_order(7), UsageError);  // this rank holds 9, so they cannot have agreed on 7

  session_->use_order(0);
  ASSERT_TRUE(train_until([&] { return gpu_.at_default(); }));
  EXPECT_EQ(session_->state().schedule_version, 0);
  ASSERT_EQ(session_->order_held(), 9);
  session_->use_order(9);
  ASSERT_TRUE(runs_version(3));
  step_in_order(10.0);
  EXPECT_EQ(gpu_.clock(), 800);
}

// This engine never asks for an order. After three steps the server is told what it runs, and the user once.
TEST_F(SessionOrderTest, AnEngineThatRunsAnotherOrderIsReported) {
  server_.start();
  open_without_profiling();
  server_.publish(forwards_first(7, {900, 800, 700, 600}));
  ASSERT_TRUE(train_until([&] { return !notices().empty(); }));
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return !server.orders.empty(); }));
  EXPECT_EQ(server_.orders[0].rank, 0);
  EXPECT_EQ(server_.orders[0].version, 1);
  EXPECT_THAT(server_.orders[0].instructions, ElementsAre("forward", "backward", "forward", "backward"));
  EXPECT_THAT(notices(), ElementsAre(HasSubstr("does not run its computations in the order of its schedule")));
  EXPECT_THAT(gpu_.take_history(), IsEmpty());
}

// The schedule is in the framework's own order, and the engine runs something else now and then: two steps in a row may
// have been cut short, three are reported.
TEST_F(SessionOrderTest, ThreeStepsInARowThatAreNotTheSchedulesAreReported) {
  server_.start();
  open_without_profiling();
  server_.publish({900, 800, 700, 600});
  ASSERT_TRUE(train_until([&] { return session_->state().schedule_version == 1; }));
  const auto other_step = [&] {
    session_->step_begin();
    compute("forward", 1.0);
    session_->step_end();
  };
  for (int i = 0; i < 20; ++i) {
    other_step();
    other_step();
    step();
  }
  session_->set_straggler(straggler_notice(-1, Seconds(0), 1.5));  // goes the same way, after what is to be told
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return !server.stragglers.empty(); }));
  EXPECT_THAT(server_.orders, IsEmpty());
  ASSERT_TRUE(rounds_until([&] {
    other_step();
    return !notices().empty();
  }));
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return !server.orders.empty(); }));
  EXPECT_THAT(server_.orders[0].instructions, ElementsAre("forward"));
}

// The other ranks never hold the order, and this one always asks.
TEST_F(SessionOrderTest, RanksThatDoNotAgreeInTimeAreReported) {
  const auto disagree = [&] {
    (void)session_->order_held();
    session_->use_order(0);
    step();
  };
  server_.start();
  open_without_profiling();
  server_.publish(forwards_first(7, {900, 800, 700, 600}));
  ASSERT_TRUE(held(7));
  for (int i = 0; i < 50; ++i) disagree();
  EXPECT_THAT(notices(), IsEmpty());
  session_.reset();
  EXPECT_THAT(server_.orders, IsEmpty());

  open_without_profiling(Seconds(0.2));
  ASSERT_TRUE(rounds_until([&] {
    disagree();
    return !notices().empty();
  }));
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return !server.orders.empty(); }));
  EXPECT_THAT(server_.orders[0].instructions, ElementsAre("forward", "backward", "forward", "backward"));
}

TEST_F(SessionOrderTest, OrdersAreAgreedOnBetweenSteps) {
  server_.start();
  open_without_profiling();
  EXPECT_THROW(session_->use_order(7), UsageError);
  session_->use_order(0);
  session_->step_begin();
  EXPECT_THROW((void)session_->order_held(), UsageError);
  EXPECT_THROW(session_->use_order(0), UsageError);
  session_->step_end();
}

}  // namespace
}  // namespace flyball
