// Plans from elsewhere, run by a training without a server on simulated GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "base/text.h"
#include "flyball/flyball.h"
#include "loop/node.h"
#include "support/figures.h"
#include "support/shared_data.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;
using testing::Node;
using testing::wait_until;

constexpr std::chrono::seconds kForOneTraining{300};
// Times the speed of real GPUs: all that a busy machine adds counts so many times, and Kareus's plan saves 2 %.
constexpr int kTimeScale = 2;

class GivenPlans : public ::testing::Test {
 protected:
  // Trains two stages to the end. No plan is given up, however much longer a busy machine makes iterations.
  void train(const std::string& plan, const std::string& microbatches) {
    node_.start_trainer(
        {"--server", "", "--plan", plan, "--microbatches", microbatches, "--time-ratio", "10", "--steps", "12"});
    ASSERT_TRUE(wait_until([&] { return !node_.trainer.running(); }, kForOneTraining)) << node_.trainer.output();
  }
  // Of each stage, at the end.
  [[nodiscard]] std::vector<nlohmann::json> promises() const {
    std::vector<nlohmann::json> of_stages;
    for (const nlohmann::json& record : node_.records()) {
      if (record.contains("promise")) of_stages.push_back(record);
    }
    return of_stages;
  }
  // Whether no stage found iterations too long, and their computations took less energy in all.
  [[nodiscard]] bool kept_and_saved() const {
    double saved_j = 0.0;
    for (const nlohmann::json& stage : promises()) {
      const int promise = stage.at("promise");
      if (promise != FLYBALL_KEPT && promise != FLYBALL_DEARER) return false;  // dearer: with what others added
      saved_j += stage.at("compared_at_maximum_j").get<double>() - stage.at("compared_j").get<double>();
    }
    // "... by plan took 1891.8 J of this GPU, ... at maximum clocks, and 8.64 s, +0.80 % of the time at these"
    static const std::regex time_taken(R"(and ([0-9.]+) s, ([-+][0-9.]+) % of the time)");
    const std::string said = node_.trainer.output();
    int told = 0;
    for (std::sregex_iterator one(said.begin(), said.end(), time_taken), end; one != end; ++one, ++told) {
      const double by_plan_s = std::stod((*one)[1]);
      saved_j += testing::kWaitingWatts * (by_plan_s - by_plan_s / (1.0 + 0.01 * std::stod((*one)[2])));
    }
    return promises().size() == 2 && told == 2 && saved_j > 0.0;
  }
  // Some trainings are too long for their promise on a busy machine; one of a few is not.
  void expect_kept(const std::string& plan, const std::string& microbatches) {
    for (int run = 1; run <= 4; ++run) {
      train(plan, microbatches);
      ASSERT_EQ(node_.trainer.status(), 0) << node_.trainer.output();
      EXPECT_TRUE(node_.all_at_default());
      EXPECT_THAT(node_.trainer.output(), HasSubstr("the plan keeps its promise"));
      if (!testing::kFiguresCount || kept_and_saved()) return;
    }
    FAIL() << node_.trainer.output();
  }

  Node node_{kTimeScale};
};

// By hand, for the first stage, which has a fifth less to do.
TEST_F(GivenPlans, AListOfClocksIsRun) {
  const std::string plan = node_.path("freqs.py");
  write_text_file(plan, R"([
[('forward', 1110), ('forward', 1110), ('backward', 1110), ('forward', 1110), ('backward', 1110),
 ('forward', 1110), ('backward', 1110), ('backward', 1110)],
[('forward', 1410), ('backward', 1410), ('forward', 1410), ('backward', 1410),
 ('forward', 1410), ('backward', 1410), ('forward', 1410), ('backward', 1410)],
]
)");
  expect_kept(plan, "4");
  // Another number of microbatches, and a clock between two of the board's.
  train(plan, "8");
  EXPECT_EQ(node_.trainer.status(), 1);
  EXPECT_THAT(node_.trainer.output(),
              HasSubstr("stage 0 has 4 forward in the plan, and 8 in the job (1f1b and 8 microbatches)"));
  std::string odd = read_text_file(plan);
  for (std::size_t at = 0; (at = odd.find("1110", at)) != std::string::npos;) odd.replace(at, 4, "1111");
  write_text_file(plan, odd);
  train(plan, "4");
  EXPECT_EQ(node_.trainer.status(), 1);
  EXPECT_THAT(node_.trainer.output(), HasSubstr("stage 0 is to run forward of microbatch 0 at 1111 MHz, a clock that "
                                                "its GPU does not have or that the agent allows to nobody; 1125 and "
                                                "1110 MHz are next to it"));
}

TEST_F(GivenPlans, KareussIsRun) {
  const auto data = testing::shared_data();
  if (!data) GTEST_SKIP() << testing::kNoSharedData;
  expect_kept((*data / "kareus-osdi26/kareus/freqs_pipeline_02495.py").string(), "8");
}

}  // namespace
}  // namespace flyball
