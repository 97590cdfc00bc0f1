#include "replay/recorded_runs.h"

#include <gtest/gtest.h>

#include <string>

#include "base/text.h"
#include "replay/judged_runs.h"
#include "replay/small_runs.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

const std::string kPoints =
    "point,max_clock,iteration_time_s,iteration_energy_j\n0,1,0.1,20\n1,1,0.1,21\n2,0,0.11,18\n";
const std::string kRuns = "point,rank,iteration_energy_j\n0,0,20\n1,0,21\n2,0,18\n";
const std::string kOperations =
    "point,rank,instruction,microbatch,clock_mhz,time_s\n"
    "0,0,forward,0,1000,0.03\n0,0,backward,0,1000,0.06\n1,0,forward,0,1000,0.03\n1,0,backward,0,1000,0.06\n"
    "2,0,load,0,900,0.002\n2,0,forward,0,900,0.034\n2,0,backward,0,800,0.07\n";

class RecordedRunsTest : public ::testing::Test {
 protected:
  RecordedRuns read(const std::string& points, const std::string& runs, const std::string& operations) {
    write_text_file(folder_ / "points.csv", points);
    write_text_file(folder_ / "runs.csv", runs);
    write_text_file(folder_ / "operations.csv", operations);
    return read_runs(folder_.path());
  }
  void expect_refused(const std::string& points, const std::string& runs, const std::string& operations,
                      std::size_t line, std::size_t column, const std::string& words) {
    expect_input_error([&] { static_cast<void>(read(points, runs, operations)); }, line, column, words);
  }

  testing::TempFolder folder_;
};

TEST_F(RecordedRunsTest, AreReadDense) {
  const RecordedRuns runs = read(kPoints, kRuns, kOperations);
  EXPECT_EQ(runs.stages, 1);
  EXPECT_EQ(runs.microbatches, 1);
  EXPECT_EQ(runs.instructions, (std::vector<std::string>{"forward", "backward"}));
  EXPECT_EQ(runs.top, Megahertz(1000));
  ASSERT_EQ(runs.points.size(), 3u);
  // Of two runs at maximum clocks the first warms the boards up.
  EXPECT_EQ(runs.judged(), (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(runs.points[2].time, Seconds(0.11));
  EXPECT_EQ(runs.points[2].drawn, std::vector{Joules(18)});
  EXPECT_EQ(runs.points[2].clock[runs.index(0, 1, 0)], Megahertz(800));
  EXPECT_EQ(runs.points[2].taken[runs.index(0, 1, 0)], Seconds(0.07));
  EXPECT_EQ(runs.points[2].load[runs.load_index(0, 0)], Seconds(0.002));
  EXPECT_EQ(runs.points[0].load[runs.load_index(0, 0)], Seconds(0));
}

TEST_F(RecordedRunsTest, MustAgreeWithEachOther) {
  expect_refused(kPoints + "2,0,0.11,18\n", kRuns, kOperations, 5, 1, "point 2 stands twice");
  expect_refused(kPoints, kRuns + "3,0,18\n", kOperations, 5, 1, "points.csv has no point 3");
  expect_refused(kPoints, kRuns + "2,0,18\n", kOperations, 5, 3, "rank 0 of point 2 stands twice");
  expect_refused(kPoints, kRuns + "2,1,18\n", kOperations, 0, 0, "there is no rank 1 of point 0");
  expect_refused(kPoints, kRuns, kOperations + "2,1,forward,0,900,0.03\n", 9, 3, "runs.csv has no rank 1");
  expect_refused(kPoints, kRuns, kOperations + "2,0,forward,0,900,0.03\n", 9, 1, "of point 2 stands twice");
  expect_refused(kPoints, kRuns, kOperations + "2,0,forward,1,900,0.03\n", 0, 0,
                 "point 0 has no forward of microbatch 1 on rank 0");
}

TEST_F(RecordedRunsTest, AreJoinedWhereTheyAreOfOnePipeline) {
  const RecordedRuns first = read(kPoints, kRuns, kOperations);
  RecordedRuns more = first;
  more.source = "more";
  more.top = Megahertz(1100);
  const RecordedRuns all = join_runs({first, more});
  EXPECT_EQ(all.source, first.source + " and more");
  EXPECT_EQ(all.top, Megahertz(1100));
  // In each series the first of two points at maximum clocks warms up.
  EXPECT_EQ(all.judged(), (std::vector<std::size_t>{1, 2, 4, 5}));
  EXPECT_EQ(all.points[5].number, 2);
  EXPECT_EQ(all.points[5].time, Seconds(0.11));
  // A backward at 800 MHz that takes 80 ms instead of 70, and so 14 % longer, may be a hot day's. One of 90 ms is 29 %
  // longer; with the 60 ms at 1,000 MHz, which did not change, the mean is 75 ms against 65, which is 15 %.
  const auto of_last_backward = [&](double seconds, double at_top) {
    for (RecordedPoint& point : more.points) point.taken[1] = Seconds(at_top);
    more.points[2].taken[1] = Seconds(seconds);
    return join_runs({first, more}).points.size();
  };
  EXPECT_EQ(of_last_backward(0.08, 0.06), 6u);
  EXPECT_EQ(of_last_backward(0.09, 0.06), 6u);
  expect_input_error([&] { of_last_backward(0.09, 0.072); }, 0, 0,
                     "a backward of stage 0 takes 0.081 s here and 0.065 s in");
}

TEST_F(RecordedRunsTest, OfTwoPipelinesAreNotJoined) {
  const RecordedRuns first = read(kPoints, kRuns, kOperations);
  const auto expect_not_joined = [&](const std::vector<RecordedRuns>& runs, const std::string& words) {
    expect_input_error([&] { static_cast<void>(join_runs(runs)); }, 0, 0, words);
  };
  RecordedRuns more = first;
  expect_not_joined({first, more}, "these runs are named twice");
  more.source = (folder_.path() / ".").string();
  expect_not_joined({first, more}, "name each folder of runs once");
  more.source = "more";
  expect_not_joined({first, more, more}, "named twice");
  more.instructions = {"backward", "forward"};
  expect_not_joined({first, more}, "these runs have 1 stage and 1 microbatch with backward, forward, those of");
  more = testing::known_runs(testing::known_model(), 3);
  expect_not_joined({first, more}, "2 stages and 6 microbatches with forward, backward, those of");
  expect_not_joined({first, more}, "fit together only runs of one pipeline");
  // What is judged may not be fitted to as well.
  const RecordedRuns known = testing::known_runs(testing::known_model(), 12);
  expect_input_error(
      [&] {
        static_cast<void>(judge_runs(known, {{}, {known}}, ScheduleKind::k1f1b));
      },
      0, 0, "named twice");
}

TEST_F(RecordedRunsTest, MustBeInRange) {
  const std::string header = "point,max_clock,iteration_time_s,iteration_energy_j\n";
  expect_refused(header, kRuns, kOperations, 0, 0, "there are no points");
  expect_refused(header + "0,1,0,20\n", kRuns, kOperations, 2, 5, "iteration_time_s is 0");
  expect_refused(kPoints, kRuns, kOperations + "2,0,forward,-1,900,0.03\n", 9, 13, "microbatch is -1");
  expect_refused(kPoints, kRuns, kOperations + "2,0,forward,1,0,0.03\n", 9, 15, "clock_mhz is 0");
  expect_refused(kPoints, kRuns, "point,rank,instruction,microbatch,clock_mhz,time_s\n", 0, 0,
                 "there are no computations");
  EXPECT_THROW(static_cast<void>(read_runs(folder_.path() / "nowhere")), SystemError);
}

}  // namespace
}  // namespace flyball
