// What Perseus's authors measured on A100s and A40s, predicted: every point by a fit that has not seen it. The goals
// are 0.5 % of time in the mean and 1.5 % at worst, and 0.3 % of energy in the mean, on every workload.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <optional>
#include <string>

#include "replay/judged_runs.h"
#include "replay/recorded_runs.h"
#include "support/figures.h"
#include "support/shared_data.h"

namespace flyball {
namespace {

class RealRuns : public ::testing::TestWithParam<const char*> {};

std::optional<std::filesystem::path> folder_of(const char* system, const char* workload) {
  const std::optional<std::filesystem::path> data = testing::shared_data();
  if (!data) return std::nullopt;
  return *data / "perseus-sosp24" / system / workload;
}

TEST_P(RealRuns, AreReplayed) {
  const auto folder = folder_of("perseus", GetParam());
  if (!folder) GTEST_SKIP() << testing::kNoSharedData;
  const RecordedRuns runs = read_runs(*folder);
  const RecordedIteration iteration(runs, ScheduleKind::k1f1b);
  const Agreement agreement = agreement_of(judge_held_out(iteration));
  EXPECT_LE(agreement.mean_time, 0.5);
  EXPECT_LE(agreement.worst_time, 1.5);
  EXPECT_LE(agreement.mean_energy, 0.3);
  // Replayed with the operations as they were, nothing but the model's parts is left to be wrong.
  EXPECT_LE(agreement.mean_rest, 0.2);
  EXPECT_LE(agreement.worst_rest, 0.5);
}

// Transfers that no plan of Perseus waited for are found with EnvPipe's runs: on A40 BERT these take 9 % longer than
// Perseus's runs alone lead to expect.
TEST_P(RealRuns, OfTwoPlannersAreReplayed) {
  FLYBALL_STATISTIC();
  const auto folder = folder_of("perseus", GetParam());
  if (!folder) GTEST_SKIP() << testing::kNoSharedData;
  const RecordedRuns runs = read_runs(*folder);
  const RecordedRuns envpipe = read_runs(*folder_of("envpipe", GetParam()));
  const Judgement judgement = judge_runs(runs, {{}, {envpipe}}, ScheduleKind::k1f1b);
  EXPECT_LE(judgement.agreement.mean_time, 0.5);
  EXPECT_LE(judgement.agreement.worst_time, 1.5);
  EXPECT_LE(judgement.agreement.mean_energy, 0.3);
  EXPECT_LE(judgement.agreement.worst_energy, 1.5);
  for (const JudgedPoint& point : judge_runs(envpipe, {{runs, envpipe}, {}}, ScheduleKind::k1f1b).points) {
    EXPECT_NEAR(point.time_off_pct(), 0.0, 1.0);
    EXPECT_NEAR(point.energy_off_pct(), 0.0, 1.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Perseus, RealRuns,
                         ::testing::Values("a100-bert-huge-uncased-pp4-dp1-tp1", "a100-gpt3-xl-pp4-dp1-tp1",
                                           "a40-bert-huge-uncased-pp8-dp1-tp1", "a40-bloom-3b-pp8-dp1-tp1",
                                           "a40-wide-resnet101_8-pp8-dp1-tp1"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace flyball
