// The public interface as its users see it: nothing but include/.
#include "flyball/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

namespace flyball {
namespace {

using ::testing::HasSubstr;

PlanRequest small_request() {
  std::ifstream file(FLYBALL_SOURCE_DIR "/examples/profiles/bert-1.3b-a100-4stage.csv");
  PlanRequest request;
  request.profile_csv = std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  request.microbatches = 6;
  return request;
}

std::string error_of(const PlanRequest& request) {
  try {
    static_cast<void>(plan_pipeline(request));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(PlanApi, ClocksOfAPointGiveItsEnergy) {
  const PlannedFrontier frontier = plan_pipeline(small_request());
  ASSERT_GT(frontier.size(), 20u);
  EXPECT_EQ(frontier.stages(), 4);
  for (const std::size_t point : {std::size_t{0}, frontier.size() / 2, frontier.size() - 1}) {
    const TradeOff& promised = frontier.points()[point];
    // Perseus eq. 3: computations, and 75 W on every stage whenever it does not compute.
    double energy = 0.0;
    double busy = 0.0;
    for (const auto& stage : frontier.clocks(point)) {
      EXPECT_EQ(stage.size(), 12u);
      for (const ComputationClock& computation : stage) {
        energy += computation.energy_j;
        busy += computation.time_s;
        EXPECT_GE(computation.clock_mhz, 210.0);
      }
    }
    energy += 75.0 * (4 * promised.time_s - busy);
    EXPECT_NEAR(energy, promised.energy_j, 1e-6 * energy);
    EXPECT_GE(promised.energy_j, promised.lower_bound_j * (1 - 1e-12));
  }
}

// Of two options at 1410 MHz the plan of least energy takes the one that saves 1 J in 1 ms.
TEST(PlanApi, TellsTheLabelsOfAComputation) {
  PlanRequest request;
  request.profile_csv =
      "stage,instruction,frequency,window,sm,time,energy\n0,forward,1410,norm,12,0.020,7\n"
      "0,forward,1410,,6,0.021,6\n0,backward,1410,,,0.04,14\n";
  request.microbatches = 1;
  const PlannedFrontier frontier = plan_pipeline(request);
  const auto labels = [&](std::size_t point, std::size_t k) { return frontier.clocks(point).at(0).at(k).labels; };
  using Labels = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(labels(0, 0), (Labels{{"window", "norm"}, {"sm", "12"}}));
  EXPECT_EQ(labels(frontier.size() - 1, 0), (Labels{{"sm", "6"}}));
  EXPECT_TRUE(labels(0, 1).empty());
}

TEST(PlanApi, StagesRunInOrder) {
  const PlannedFrontier frontier = plan_pipeline(small_request());
  const auto clocks = frontier.clocks(0);
  // 1F1B: the last stage alternates; the first warms up with four forwards.
  EXPECT_EQ(clocks[3][0].instruction, "forward");
  EXPECT_EQ(clocks[3][1].instruction, "backward");
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(clocks[0][i].instruction, "forward");
    EXPECT_EQ(clocks[0][i].microbatch, static_cast<int>(i));
  }
  EXPECT_EQ(clocks[0][4].instruction, "backward");
}

TEST(PlanApi, LooksUpPoints) {
  const PlannedFrontier frontier = plan_pipeline(small_request());
  EXPECT_EQ(frontier.point_for(0.0), 0u);
  EXPECT_EQ(frontier.point_for(1e3), frontier.size() - 1);
  const double deadline = 1.1 * frontier.t_min_s();
  const std::size_t point = frontier.point_for(deadline);
  EXPECT_LE(frontier.points()[point].time_s, deadline);
  EXPECT_GT(frontier.points()[point + 1].time_s, deadline);
  for (const TradeOff& other : frontier.points()) {
    EXPECT_GE(other.energy_j, frontier.points()[frontier.least_total()].energy_j);
  }
  // Waiting costs 4 stages * 75 W.
  EXPECT_NEAR(frontier.energy_with_straggler_j(0, frontier.points()[0].time_s + 2.0),
              frontier.points()[0].energy_j + 600.0, 1e-6);
  EXPECT_LT(frontier.points()[0].energy_j, frontier.baseline().energy_j);
  EXPECT_GT(frontier.switches(0), 0);
}

TEST(PlanApi, WritesThePlanFile) {
  const PlannedFrontier frontier = plan_pipeline(small_request());
  EXPECT_TRUE(nlohmann::json::parse(frontier.plan_json(3)).is_object());
}

TEST(PlanApi, ErrorsSayWhereAndHowToMend) {
  PlanRequest request = small_request();
  request.profile_name = "mine.csv";
  request.profile_csv = "stage,instruction,frequency,time,energy\n0,forward,1410,zero,3\n";
  EXPECT_THAT(error_of(request), HasSubstr("mine.csv:2:16: "));
  EXPECT_THAT(error_of(request), HasSubstr("to mend: "));
  request = small_request();
  request.schedule = "2f2b";
  EXPECT_THAT(error_of(request), HasSubstr("2f2b"));
  request = small_request();
  request.microbatches = 0;
  EXPECT_THAT(error_of(request), HasSubstr("microbatches"));
  request = small_request();
  request.planner = "oracle";
  EXPECT_THAT(error_of(request), HasSubstr("oracle"));
  request = small_request();
  request.cost_model = "spline";
  EXPECT_THAT(error_of(request), HasSubstr("spline"));
  request = small_request();
  request = small_request();
  request.memory_limit = {4, 2, 2, 1};
  EXPECT_THAT(error_of(request), HasSubstr("memory limit of stage 1 is 2, but 1f1b holds 3"));
  request = small_request();
  request.split_backward = 1.5;
  EXPECT_THAT(error_of(request), HasSubstr("must be between 0 and 1"));
}

// The profile has whole backwards: without a share for the weight gradients there is no ZB-H1.
TEST(PlanApi, BackwardsMayBeSplit) {
  PlanRequest request = small_request();
  request.schedule = "zb-h1";
  EXPECT_THAT(error_of(request), HasSubstr("no 'backward_input'"));
  request.split_backward = 0.5;
  request.planner = "joint";
  // Forwards, and both parts of backwards, of six microbatches.
  EXPECT_EQ(plan_pipeline(request).clocks(0).front().size(), 18u);
}

TEST(PlanApi, RefusesPowersNoiseAndTimesOutOfRange) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double power : {-1.0, 1000001.0, infinity, nan}) {
    PlanRequest request = small_request();
    request.blocking_power_w = {75.0, power, 75.0, 75.0};
    EXPECT_THAT(error_of(request), HasSubstr("watts from 0 to 1000000")) << power;
  }
  for (const double noise : {-0.1, 1.0, infinity, nan}) {
    PlanRequest request = small_request();
    request.noise = noise;
    EXPECT_THAT(error_of(request), HasSubstr("from 0 to below 1")) << noise;
  }
  PlanRequest request = small_request();
  request.wanted_times_s = {nan};
  EXPECT_THAT(error_of(request), HasSubstr("wanted_times_s is not a number"));
  request = small_request();
  request.unit_time_s = nan;
  EXPECT_THAT(error_of(request), HasSubstr("unit_time_s is not a number"));
}

TEST(PlanApi, TimesBeyondAllMeasureAreTheLongestOrShortest) {
  const double infinity = std::numeric_limits<double>::infinity();
  PlanRequest request = small_request();
  request.wanted_times_s = {infinity, -infinity, 1e300};
  const PlannedFrontier frontier = plan_pipeline(request);
  EXPECT_EQ(frontier.point_for(infinity), frontier.size() - 1);
  EXPECT_EQ(frontier.point_for(1e300), frontier.size() - 1);
  EXPECT_EQ(frontier.point_for(-infinity), 0u);
  EXPECT_THROW(static_cast<void>(frontier.point_for(std::nan(""))), std::runtime_error);
  // 2e9 s of four stages at 75 W.
  EXPECT_NEAR(frontier.energy_with_straggler_j(0, infinity), 6e11, 1e4);
  EXPECT_EQ(frontier.energy_with_straggler_j(0, -infinity), frontier.points()[0].energy_j);
  EXPECT_THROW(static_cast<void>(frontier.energy_with_straggler_j(0, std::nan(""))), std::runtime_error);
}

TEST(PlanApi, PointsThatAreNotThereAreRefused) {
  const PlannedFrontier frontier = plan_pipeline(small_request());
  EXPECT_THROW(static_cast<void>(frontier.clocks(frontier.size())), std::out_of_range);
  EXPECT_THROW(static_cast<void>(frontier.plan_json(frontier.size())), std::out_of_range);
}

TEST(PlanApi, CanBeCancelled) {
  EXPECT_THROW(static_cast<void>(plan_pipeline(small_request(), [](double) { return false; })), std::runtime_error);
}

TEST(PlanApi, CopiesShareWhatTheyShow) {
  const auto make = [] { return plan_pipeline(small_request()); };
  PlannedFrontier copy = make();
  const PlannedFrontier original = copy;  // NOLINT(performance-unnecessary-copy-initialization): the test is of copies
  EXPECT_EQ(&copy.points(), &original.points());
  EXPECT_EQ(original.points().size(), make().points().size());
}

}  // namespace
}  // namespace flyball
