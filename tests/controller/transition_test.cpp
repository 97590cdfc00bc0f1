// The next step of a job, by what is wanted and what is there.
#include "controller/transition.h"

#include <gtest/gtest.h>

namespace flyball {
namespace {

using Step = TransitionStep;
using State = EngineJobState;

// The engine had counted two restarts when four GPUs of n1 were decided, at time 100.
Transition to_four() { return {7, 2, {{"n1"}, 4}, 0, Seconds(100.0)}; }

EngineJob seen(State state, int restarts, int gpus = 0) {
  EngineJob job;
  job.id = 7;
  job.state = state;
  job.restarts = restarts;
  if (gpus > 0) job.gpus = {{"n1", gpus, {}}};
  return job;
}

TransitionFacts facts(bool asks = false, bool told = false, double now_s = 101.0, bool room = true) {
  return {asks, told, room, Seconds(now_s), Seconds(30.0)};
}

TEST(Transition, EndsARunOnceOnly) {
  EXPECT_EQ(next_step(to_four(), seen(State::kRunning, 2, 1), facts()), Step::kRequeue);
  EXPECT_EQ(next_step(to_four(), seen(State::kRunning, 3, 1), facts()), Step::kMisplaced);
  EXPECT_EQ(next_step(to_four(), seen(State::kCompleted, 2), facts()), Step::kRequeue);
  EXPECT_EQ(next_step(to_four(), seen(State::kCompleted, 3), facts()), Step::kWait);
  EXPECT_EQ(next_step(to_four(), seen(State::kChanging, 2, 1), facts()), Step::kWait);
}

TEST(Transition, AsksAJobThatReportsForAWhile) {
  EXPECT_EQ(next_step(to_four(), seen(State::kRunning, 2, 1), facts(true)), Step::kAskToStop);
  EXPECT_EQ(next_step(to_four(), seen(State::kRunning, 2, 1), facts(true, true, 131.0)), Step::kRequeue);
}

// Its time runs from when it was asked, which is later where the controller was away after the decision.
TEST(Transition, CountsFromWhenTheJobWasAsked) {
  TransitionFacts asked = facts(true, false, 400.0);
  asked.asked = Seconds(380.0);
  EXPECT_EQ(next_step(to_four(), seen(State::kRunning, 2, 1), asked), Step::kAskToStop);
  asked.now = Seconds(410.0);
  EXPECT_EQ(next_step(to_four(), seen(State::kRunning, 2, 1), asked), Step::kRequeue);
}

// Where it can go on with the target it is told so, and nodes are taken from it when it has; only as long as the engine
// has counted no restart since.
TEST(Transition, LetsAJobGoOnWithFewerNodes) {
  const Transition wanted{7, 2, {{"n1"}, 4}, 0, Seconds(100.0)};
  EngineJob job = seen(State::kRunning, 2, 4);
  job.gpus.push_back({"n2", 4, {}});
  TransitionFacts now = facts(true);
  now.shrinks = true;
  EXPECT_EQ(next_step(wanted, job, now), Step::kAskToKeep);
  now.keeps = true;
  EXPECT_EQ(next_step(wanted, job, now), Step::kTakeNodes);
  job.restarts = 3;
  EXPECT_EQ(next_step(wanted, job, now), Step::kMisplaced);
  job.restarts = 2;
  job.gpus.pop_back();
  EXPECT_EQ(next_step(wanted, job, now), Step::kSettled);
}

// A job that was told to stop will end, so that it is not settled where it runs.
TEST(Transition, SettlesWhereTheJobIsToBe) {
  EXPECT_EQ(next_step(to_four(), seen(State::kRunning, 2, 4), facts()), Step::kSettled);
  EXPECT_EQ(next_step(to_four(), seen(State::kRunning, 3, 4), facts()), Step::kSettled);
  EXPECT_EQ(next_step(to_four(), seen(State::kRunning, 2, 4), facts(true, true)), Step::kAskToStop);
}

TEST(Transition, SizesAndStartsAJobThatWaits) {
  EngineJob job = seen(State::kPending, 3);
  EXPECT_EQ(next_step(to_four(), job, facts()), Step::kHold);
  job.held = true;
  EXPECT_EQ(next_step(to_four(), job, facts()), Step::kResize);
  job.wanted = {{"n1"}, 4};
  EXPECT_EQ(next_step(to_four(), job, facts()), Step::kStart);
  EXPECT_EQ(next_step(to_four(), job, facts(false, false, 101.0, false)), Step::kWait);  // its GPUs are taken
  job.held = false;
  EXPECT_EQ(next_step(to_four(), job, facts()), Step::kWait);
  Transition none = to_four();
  none.target = {};
  EXPECT_EQ(next_step(none, job, facts()), Step::kHold);
  job.held = true;
  EXPECT_EQ(next_step(none, job, facts()), Step::kSettled);
}

}  // namespace
}  // namespace flyball
