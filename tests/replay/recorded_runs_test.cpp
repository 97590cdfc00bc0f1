#include "replay/recorded_runs.h"

#include <gtest/gtest.h>

#include <string>

#include "base/text.h"
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
