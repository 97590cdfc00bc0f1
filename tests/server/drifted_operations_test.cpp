// What the server makes of operations that have drifted from their profile.
#include "server/drifted_operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/record.h"
#include "server/promise_watch.h"
#include "server/test_server.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace testing;

PaceReport drifted(int rank, double ratio, std::int64_t step = 5000, PaceCause cause = PaceCause::kComputation,
                   const char* instruction = "backward") {
  return {rank, 1.0, 0, cause, "", PaceOf::kComputing, step, {{instruction, ratio}}};
}

// Ranks 1 and 3 are those of stage 1.
TEST(DriftedOperations, CountWhereAllRanksOfAStageSaySo) {
  DriftedOperations operations;
  EXPECT_TRUE(operations.take(drifted(1, 1.05), 1));
  EXPECT_TRUE(operations.to_measure(2).empty());  // one of two is a straggler
  operations.take(drifted(3, 1.08), 1);
  EXPECT_TRUE(operations.to_measure(2).empty());  // and so is one that is slower than the other
  operations.take(drifted(3, 1.055), 1);
  ASSERT_EQ(operations.to_measure(2).size(), 1u);
  EXPECT_EQ(operations.to_measure(2)[0].stage, 1);
  EXPECT_THAT(operations.to_measure(2)[0].instructions, ElementsAre("backward"));
  // A link that is slow, or as fast as usual again, says nothing of computations.
  EXPECT_FALSE(operations.take({3, 4.0, 0, PaceCause::kCommunication, "", PaceOf::kTransfer}, 1));
  EXPECT_FALSE(operations.take({3, 1.0, 0, PaceCause::kUnknown, "", PaceOf::kTransferBack}, 1));
  EXPECT_EQ(operations.to_measure(2).size(), 1u);
  // What holds a GPU back is no matter of its profile.
  EXPECT_FALSE(operations.take(drifted(3, 1.055, 5000, PaceCause::kThrottled), 1));
  EXPECT_TRUE(operations.to_measure(2).empty());
  EXPECT_TRUE(operations.take(drifted(3, 1.055), 1));
  EXPECT_FALSE(operations.take(drifted(3, 1.055, 5000, PaceCause::kClockNotTaken), 1));
  EXPECT_TRUE(operations.to_measure(2).empty());
  operations.take(drifted(3, 1.055), 1);
  operations.forget(1);
  EXPECT_TRUE(operations.to_measure(2).empty());
}

// 2,000 iterations after the first sweep; twice as many after each that follows within ten pauses. Meanwhile, what is
// known is corrected, by the same rule from 100 iterations on.
TEST(DriftedOperations, AreNotMeasuredAgainAndAgain) {
  DriftedOperations operations;
  const auto order = [&](std::int64_t step) -> std::string {
    operations.take(drifted(0, 1.05, step), 0);
    const auto drifts = operations.to_measure(1);
    if (drifts.empty()) return "nothing";
    operations.ordered(drifts[0]);
    return drifts[0].sweep ? "sweep" : "correction";
  };
  EXPECT_EQ(order(100), "sweep");
  EXPECT_EQ(order(199), "nothing");
  EXPECT_EQ(order(200), "correction");
  EXPECT_EQ(order(399), "nothing");
  EXPECT_EQ(order(400), "correction");
  EXPECT_EQ(order(800), "correction");
  EXPECT_EQ(order(1600), "correction");
  EXPECT_EQ(order(3199), "nothing");
  EXPECT_EQ(order(3200), "sweep");
  // Another stage has its own pauses.
  operations.take(drifted(1, 1.05, 3200), 1);
  ASSERT_EQ(operations.to_measure(1).size(), 1u);
  EXPECT_EQ(operations.to_measure(1)[0].stage, 1);
  operations.forget(1);
  // Of 100,000 iterations of a job that drifts all the time.
  std::map<std::string, int> orders;
  operations = {};
  for (std::int64_t step = 64; step <= 100'000; step += 64) ++orders[order(step)];
  EXPECT_LE(orders["sweep"], 6);  // after 2,000, 4,000, 8,000, 16,000 and 32,000 more at the earliest
  EXPECT_GE(orders["sweep"], 4);
  EXPECT_LE(orders["correction"], 10);  // after 100, 200, ... 51,200 more
  // Ranks that have been started anew count anew, and have changed long ago what they change now.
  EXPECT_EQ(order(64), "sweep");
}

// Before the plan of other measurements runs, all ranks find out what maximum clocks take.
TEST(PromiseWatch, BeginsAtMaximumClocksWhereOnlySomeMeasuredAnew) {
  PromiseWatch watch;
  watch.begin_anew(true);
  EXPECT_TRUE(watch.at_maximum());
  EXPECT_FALSE(watch.compares_energies());
  EXPECT_FALSE(watch.take({0, 7, 10, Seconds(2.0), Seconds(2.0), false, {}}, 1.0));
  EXPECT_TRUE(watch.at_maximum());
  EXPECT_TRUE(watch.take({0, 7, 20, Seconds(2.0), Seconds(2.0), false, {}}, 1.0));
  EXPECT_FALSE(watch.at_maximum());
  EXPECT_EQ(watch.known().at_maximum, Seconds(2.0));
  EXPECT_EQ(watch.trouble(), "");
  EXPECT_FALSE(watch.take({0, 8, 10, Seconds(2.01), Seconds(2.0), false, {}}, 1.0));
  EXPECT_EQ(watch.known().verdict, PromiseVerdict::kKept);
  watch.begin_anew();
  EXPECT_FALSE(watch.at_maximum());
}

// A rank finds iterations of 3.3 s too long by a promise of 3; maximum clocks take 4.2 s just then, so that something
// else makes all slow. When that happens again, the plan is taken to be at fault, unless a straggler was found
// meanwhile.
TEST(PromiseWatch, ForgivesWhatAStragglerDid) {
  PromiseWatch watch;
  const auto becomes_slow = [&](std::int64_t version) {
    EXPECT_TRUE(watch.take({0, version, 7, Seconds(3.3), Seconds(3.0), true, {}}, 1.0));
    EXPECT_TRUE(watch.at_maximum());
    const bool resumes = watch.take({0, version + 1, 10, Seconds(4.2), Seconds(4.2), false, {}}, 1.0);
    EXPECT_EQ(resumes, watch.trouble().empty());
  };
  for (std::int64_t version = 1; version < 10; version += 2) {
    becomes_slow(version);
    EXPECT_FALSE(watch.at_maximum());
    watch.excuse();
  }
  becomes_slow(11);
  EXPECT_FALSE(watch.at_maximum());
  becomes_slow(13);
  EXPECT_TRUE(watch.at_maximum());
  // Of what a rank found too long, with what it compared that with.
  EXPECT_THAT(watch.trouble(), HasSubstr("take 3.3 s, but 3 s are promised and maximum clocks take 3 s"));
  watch.excuse();
  EXPECT_TRUE(watch.at_maximum());
}

// Iterations may take 1.3 times as long as at maximum clocks without the straggler, that is, as long as at maximum
// clocks with it: a plan of 1.5 times is too slow, though maximum clocks take more than 1.5 / 1.3.
TEST(PromiseWatch, ComparesWithMaximumClocksAsTheyAreMeasuredNow) {
  PromiseWatch watch;
  EXPECT_TRUE(watch.take({0, 1, 12, Seconds(1.5), Seconds(1.0), true, {}}, 1.3));
  EXPECT_FALSE(watch.take({0, 2, 10, Seconds(1.3), Seconds(1.3), false, {}}, 1.0));
  EXPECT_TRUE(watch.at_maximum());
  EXPECT_EQ(watch.known().verdict, PromiseVerdict::kSlower);
}

// A pipeline of two stages.
class RemeasuringTest : public ::testing::Test {
 protected:
  RemeasuringTest() {
    run_profiling(client_, job_);
    schedule_ = client_.schedule("job", 1).value();
  }
  void say(const PaceReport& report) {
    EXPECT_EQ(client_.ask("POST", "/v1/jobs/job/paces", to_json(report).dump()).status, 204u);
  }

  JobRequest job_ = small_job("job");
  ServerThread server_;
  Client client_ = Client(server_.port(), kToken);
  RankSchedule schedule_;
};

TEST_F(RemeasuringTest, IsOrderedNearThePlansClocks) {
  EXPECT_FALSE(schedule_.remeasure);
  say(drifted(1, 1.05));
  const RankSchedule next = client_.schedule("job", 1, schedule_.version).value();
  ASSERT_TRUE(next.remeasure);
  EXPECT_EQ(next.remeasure->number, next.version);
  EXPECT_THAT(next.remeasure->instructions, ElementsAre("backward"));
  EXPECT_EQ(next.computations, schedule_.computations);
  const std::vector<int>& clocks = next.remeasure->clocks_mhz;
  ASSERT_FALSE(clocks.empty());
  EXPECT_LE(clocks.size(), 6u);
  EXPECT_TRUE(std::is_sorted(clocks.rbegin(), clocks.rend()));
  // The other stage has nothing to measure.
  EXPECT_FALSE(client_.schedule("job", 0).value().remeasure);
}

TEST_F(RemeasuringTest, IsNotOrderedForWhatIsHeldBackOrAnnounced) {
  say(drifted(1, 1.05, 5000, PaceCause::kThrottled));
  EXPECT_FALSE(client_.schedule("job", 1, schedule_.version, 1.5));
  client_.post("/v1/jobs/job/stragglers", to_json(StragglerNotice{1, 1.05, Seconds(0), std::nullopt}));
  const RankSchedule next = client_.schedule("job", 1, schedule_.version).value();
  say(drifted(1, 1.05));
  EXPECT_FALSE(client_.schedule("job", 1, next.version, 1.5));
}

// The ranks that did not measure compare with maximum clocks of before, until they have measured these again. The order
// is in force until the rank has reported twice: what it corrected, and what it measured.
TEST_F(RemeasuringTest, IsFollowedByMaximumClocks) {
  say(drifted(1, 1.05));
  const RankSchedule ordered = client_.schedule("job", 1, schedule_.version).value();
  const auto measure = [&](double ratio, std::int64_t from) {
    for (MeasurementReport& one : reports_of(job_, 1)) {
      one.begins_sweep = one.sequence == 0;
      one.sequence += from;
      for (InstructionMeasurement& measured : one.measurements) {
        if (measured.instruction == "backward") measured.time = ratio * measured.time;
      }
      client_.post("/v1/jobs/job/measurements", to_json(one));
    }
    EXPECT_EQ(client_.ask("POST", "/v1/jobs/job/ranks/1/profiled", "{}").status, 204u);
  };
  measure(1.05, 100);
  RankSchedule next = client_.schedule("job", 1, ordered.version).value();
  EXPECT_TRUE(next.at_maximum);
  EXPECT_TRUE(next.remeasure);
  measure(1.06, 200);
  next = client_.schedule("job", 1, next.version).value();
  EXPECT_TRUE(next.at_maximum);
  EXPECT_FALSE(next.remeasure);
  const PromiseReport report{1, next.version, 20, next.max_clock_time, next.max_clock_time, false, {}};
  EXPECT_EQ(client_.ask("POST", "/v1/jobs/job/promises", to_json(report).dump()).status, 204u);
  next = client_.schedule("job", 1, next.version).value();
  EXPECT_FALSE(next.at_maximum);
}

}  // namespace
}  // namespace flyball
