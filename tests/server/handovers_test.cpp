// What the server finds of handovers between stages in the steps of a sweep.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/record.h"
#include "server/test_server.h"

namespace flyball {
namespace {

using namespace testing;

// By a clock that is `ahead` of the other stage's; milliseconds.
StepReport swept(int rank, std::int64_t step, double ahead, const std::vector<double>& begin,
                 const std::vector<double>& end) {
  StepReport report{rank, 0, step, {}, {}};
  for (const double ms : begin) report.begin.emplace_back(1e-3 * ms + ahead);
  for (const double ms : end) report.end.emplace_back(1e-3 * ms + ahead);
  return report;
}

class HandoversTest : public ::testing::Test {
 protected:
  HandoversTest() : client_(server_.port(), kToken) {
    JobRequest job = small_job();
    job.microbatches = 2;
    client_.post("/v1/jobs", to_json(job), 201);
    for (int rank = 0; rank < 2; ++rank) client_.post("/v1/jobs/job/ranks", to_json(rank_of(job, rank)), 201);
  }
  StepTaken tell(const StepReport& report) {
    const Response response = client_.ask("POST", "/v1/jobs/job/steps", to_json(report).dump());
    EXPECT_EQ(response.status, 200u) << response.body;
    return read_message<StepTaken>(parse_json("answer", response.body));
  }

  ServerThread server_;
  Client client_;
};

// Forwards take 10 ms, backwards 20, and handovers 4 in either direction. Stage 0: forwards at 0 and 10. Stage 1: the
// first forward at 14, its backward at 24; that has ended at 44, when the second activation has long been there, so
// that the second forward begins at 48 and its backward at 58. Stage 0: the first gradient is there since 44, so that
// its backward begins at 48; the second since 78, 82. The clock of stage 1 is five minutes ahead.
TEST_F(HandoversTest, AreWhatPassesSinceInputAndStageWereFree) {
  EXPECT_EQ(tell(swept(0, 7, 0, {0, 10, 48, 82}, {10, 20, 68, 102})).receives_back, 0);
  const StepTaken last = tell(swept(1, 7, 300, {14, 24, 48, 58}, {24, 44, 58, 78}));
  EXPECT_EQ(last.receives, 2);
  EXPECT_NEAR(last.receive.value(), 4e-3, 1e-6);
  EXPECT_EQ(last.receives_back, 0);  // nobody sends gradients to the last stage
  // The first stage hears of it with its next step, which counts when the other's has come, too.
  const StepTaken first = tell(swept(0, 8, 0, {0, 10, 48, 82}, {10, 20, 68, 102}));
  EXPECT_EQ(first.receives, 0);
  EXPECT_EQ(first.receives_back, 2);
  EXPECT_NEAR(first.receive_back.value(), 4e-3, 1e-6);
}

// Of another number of computations than the schedule's, or of another order: stage 0 runs its backwards 24 and 38 ms
// before the gradients are there, and no difference of the clocks by which they come later leaves the activations their
// 4 ms.
TEST_F(HandoversTest, OfStepsThatDoNotFitArePassedOver) {
  (void)tell(swept(0, 1, 0, {0, 10, 48, 82}, {10, 20, 68, 102}));
  EXPECT_EQ(tell(swept(1, 1, 0, {14}, {24})).receives, 0);
  (void)tell(swept(0, 2, 0, {0, 10, 20, 40}, {10, 20, 40, 60}));
  EXPECT_EQ(tell(swept(1, 2, 0, {14, 24, 48, 58}, {24, 44, 58, 78})).receives, 0);
}

TEST_F(HandoversTest, RanksHaveToRegister) {
  EXPECT_EQ(client_.ask("POST", "/v1/jobs/job/steps", to_json(swept(5, 1, 0, {}, {})).dump()).status, 409u);
}

}  // namespace
}  // namespace flyball
