// A session that is given its plan runs it without a server, and says whether the plan keeps its promise.
#include <gmock/gmock.h>

#include "client/session_fixture.h"

namespace flyball {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GivenPlanTest : public SessionTest {
 protected:
  void open_with(int mhz, std::optional<Watts> limit, std::int64_t order = 0) {
    GivenSchedule given;
    given.schedule.version = 1;
    given.schedule.max_clock_time = given.schedule.allowed_time = Seconds(1);
    given.schedule.order = order;
    given.schedule.computations = {
        {"forward", 0, 0, mhz}, {"backward", 0, 0, mhz}, {"forward", 1, 0, mhz}, {"backward", 1, 0, mhz}};
    given.power_limit = limit;
    SessionOptions chosen = options(false);
    chosen.given = given;
    open(chosen);
  }

  [[nodiscard]] bool runs_plan() const { return session_->state().schedule_version == 1; }
};

// The highest clock, so that only a busy machine makes steps longer: one of many sessions keeps its plan. That one
// begins with eleven steps at maximum clocks, of which ten count, and does not profile.
TEST_F(GivenPlanTest, RunsWithItsLimitAndTellsThatItIsKept) {
  for (int attempt = 0; attempt < 30; ++attempt) {
    const std::size_t limits = gpu_.limits().size();
    open_with(1000, Watts(250));
    EXPECT_EQ(session_->state().phase, SessionPhase::kWaiting);
    int steps = 0;
    ASSERT_TRUE(train_until(
        [&] {
          ++steps;
          return runs_plan();
        },
        5.0));
    EXPECT_GE(steps, 12);
    const std::size_t told = notices().size();
    ASSERT_TRUE(train_until([&] { return notices().size() > told; }, 5.0));
    const SessionState state = session_->state();
    if (steps == 12 && notices().back().find("the plan keeps its promise") != std::string::npos) {
      EXPECT_EQ(state.promise, PromiseVerdict::kKept);
      EXPECT_GT(state.at_maximum, Seconds(0.006));
      EXPECT_EQ(gpu_.clock(), 1000);
      EXPECT_FALSE(gpu_.at_default());
      EXPECT_EQ(state.clocks.limit, Watts(250));
      EXPECT_GE(session_->state().savings.iterations, 10);
      session_.reset();
      const std::vector<double> all = gpu_.limits();
      EXPECT_THAT(std::vector<double>(all.begin() + static_cast<std::ptrdiff_t>(limits), all.end()),
                  ElementsAre(250, 0));
      EXPECT_TRUE(gpu_.at_default());
      return;
    }
    session_.reset();
  }
  FAIL() << "no plan was kept";
}

// At 400 MHz a step of 6 ms takes 15: clocks and limit are given up for good.
TEST_F(GivenPlanTest, GivesClocksAndLimitUpWhereStepsTakeLonger) {
  open_with(400, Watts(250));
  ASSERT_TRUE(train_until([&] { return session_->state().promise == PromiseVerdict::kSlower; }));
  ASSERT_TRUE(train_until([&] { return gpu_.at_default() && session_->state().clocks.limit == Watts(0); }));
  EXPECT_EQ(gpu_.limits().back(), 0);
  EXPECT_TRUE(rounds_until([&] { return !notices().empty(); }));
  EXPECT_THAT(notices(), Contains(HasSubstr("the plan is given up")));
  (void)gpu_.take_history();
  const std::size_t limits = gpu_.limits().size();
  for (int i = 0; i < 20; ++i) step();
  EXPECT_TRUE(gpu_.take_history().empty());
  EXPECT_EQ(gpu_.limits().size(), limits);
}

// The plan's order is offered like a server's, and its settings wait for the ranks to agree on it.
TEST_F(GivenPlanTest, OffersItsOrder) {
  open_with(1000, Watts(250), 77);
  for (int i = 0; i < 15; ++i) step();
  EXPECT_FALSE(runs_plan());
  EXPECT_TRUE(gpu_.limits().empty());
  EXPECT_EQ(session_->order_held(), 77);
  session_->use_order(77);
  EXPECT_EQ(session_->order_in_use().size(), 4u);
  ASSERT_TRUE(train_until([&] { return runs_plan() || session_->state().promise == PromiseVerdict::kSlower; }));
}

// A sweep that is asked for runs at its own clocks, without the plan's limit.
TEST_F(GivenPlanTest, ASweepIsFreeOfTheLimit) {
  open_with(1000, Watts(250));
  session_->profile_again();
  EXPECT_EQ(session_->state().phase, SessionPhase::kProfiling);
  for (int i = 0; i < 8; ++i) step();
  EXPECT_TRUE(gpu_.limits().empty());
}

}  // namespace
}  // namespace flyball
