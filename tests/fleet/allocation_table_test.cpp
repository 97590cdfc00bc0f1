// Who had which GPU when, told second by second as agents would tell it.
#include "fleet/allocation_table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json_text.h"
#include "base/record.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::TempFolder;
using ::testing::UnorderedElementsAre;
using ::testing::UnorderedElementsAreArray;

constexpr Seconds kEpoch{1'800'000'000.0};
constexpr Seconds kLong{86'400.0};

HeldGpus::Gpu free_gpu(std::size_t gpu) { return {gpu, {}, {}, {}, {}}; }

// A lease that was granted at a time after kEpoch.
HeldGpus::Gpu leased(std::size_t gpu, const std::string& job, double since) {
  return {gpu, job, 3, "alice", kEpoch + Seconds(since)};
}

class Allocations : public ::testing::Test {
 protected:
  void SetUp() override { open(); }

  void open() {
    table_.reset();
    database_.emplace(folder_ / "history.db");
    table_.emplace(*database_);
  }

  void hear(double time, std::vector<HeldGpus::Gpu> gpus, const std::string& node = "n1") {
    table_->note({node, kEpoch + Seconds(time), std::move(gpus)});
  }

  // "n1:0 night 1-5" for what has ended, "n1:0 night 1-5..." for what has not; without a job the holder, or "free".
  std::vector<std::string> told(double from = 0, double until = 1e6) {
    std::vector<std::string> words;
    for (const GpuAllocation& one : table_->read(kEpoch + Seconds(from), kEpoch + Seconds(until)).allocations) {
      const std::string who = !one.job.empty() ? one.job : one.holder.empty() ? "free" : one.holder;
      words.push_back(fmt::format("{}:{} {} {}-{}{}", one.node, one.gpu, who, (one.from - kEpoch).value(),
                                  (one.until - kEpoch).value(), one.ended ? "" : "..."));
    }
    return words;
  }

  TempFolder folder_;
  std::optional<Database> database_;
  std::optional<AllocationTable> table_;
};

TEST_F(Allocations, AreWhatChanges) {
  hear(1, {free_gpu(0), leased(1, "night", -100)});
  hear(2, {free_gpu(0), leased(1, "night", -100)});
  hear(3, {leased(0, "day", 2.5), leased(1, "night", -100)});
  hear(4, {leased(0, "day", 2.5), free_gpu(1)});
  EXPECT_THAT(told(-200),
              UnorderedElementsAre("n1:0 free 1-2.5", "n1:0 day 2.5-4...", "n1:1 night -100-4", "n1:1 free 4-4..."));
  const FleetAllocations all = table_->read(kEpoch, kEpoch + kLong);
  EXPECT_EQ(all.complete_from, kEpoch);
  for (const GpuAllocation& one : all.allocations) {
    if (one.job.empty()) continue;
    EXPECT_EQ(one.rank, 3);
    EXPECT_EQ(one.holder, "alice");
  }
  EXPECT_THAT(told(0, 2), UnorderedElementsAre("n1:0 free 1-2.5", "n1:1 night -100-4"));
  EXPECT_THAT(told(2.5, 3), UnorderedElementsAre("n1:0 day 2.5-4...", "n1:1 night -100-4"));
}

// The same lease was there all the time. Nobody knows whether a GPU without one has been leased meanwhile, nor when a
// lease has ended that is no longer there.
TEST_F(Allocations, WhileANodeIsSilentOnlyLeasesThatAreThereAfterwardsAreKnown) {
  hear(1, {free_gpu(0), leased(1, "night", 0), leased(2, "night", 0), leased(3, "night", 0)});
  hear(2, {free_gpu(0), leased(1, "night", 0), leased(2, "night", 0), leased(3, "night", 0)});
  EXPECT_THAT(told(3), IsEmpty()) << "nothing is known after the last answer";
  hear(60, {free_gpu(0), leased(1, "night", 0), leased(2, "day", 50), leased(3, "night", 40)});
  EXPECT_THAT(told(),
              UnorderedElementsAre("n1:0 free 1-2", "n1:0 free 60-60...", "n1:1 night 0-60...", "n1:2 night 0-2",
                                   "n1:2 day 50-60...", "n1:3 night 0-2", "n1:3 night 40-60..."));
}

// As little as a node that is silent, a server that is away ends anything.
TEST_F(Allocations, GoOnOverARestart) {
  hear(1, {free_gpu(0), leased(1, "night", 0)});
  hear(2, {free_gpu(0), leased(1, "night", 0)}, "n2");
  open();
  EXPECT_THAT(told(),
              UnorderedElementsAre("n1:0 free 1-1...", "n1:1 night 0-1...", "n2:0 free 2-2...", "n2:1 night 0-2..."));
  hear(600, {free_gpu(0), leased(1, "night", 0)});
  hear(600, {free_gpu(0), leased(1, "day", 300)}, "n2");
  hear(601, {leased(0, "day", 600.5), free_gpu(1)});
  EXPECT_THAT(told(1.5), UnorderedElementsAre("n1:0 free 600-600.5", "n1:0 day 600.5-601...", "n1:1 night 0-601",
                                              "n1:1 free 601-601...", "n2:0 free 600-600...", "n2:1 night 0-2",
                                              "n2:1 day 300-600..."));
}

// What a clock that is a little off says of a lease's begin takes nothing from the time in which another had the GPU.
TEST_F(Allocations, DoNotOverlap) {
  hear(1, {leased(0, "night", 0)});
  hear(2, {leased(0, "day", 0.5)});
  hear(2, {leased(0, "other", 0.5)});  // an answer that was looked at twice
  hear(3, {leased(0, "day", 9)});      // from a node whose clock is ahead
  hear(4, {});                         // a board that is gone
  hear(5, {leased(0, "day", 0)});
  EXPECT_THAT(told(), UnorderedElementsAre("n1:0 night 0-1", "n1:0 day 1-3", "n1:0 day 4-5..."));
}

// The newest 1,000 of a GPU, here 1 s each, of which the last one lasts; 31 days after its end none.
TEST_F(Allocations, AreBounded) {
  database_->execute("BEGIN");
  for (int i = 1; i <= 1500; ++i) hear(i, {leased(0, i % 2 == 0 ? "even" : "odd", i)});
  database_->execute("COMMIT");
  hear(1500, {free_gpu(0)}, "n2");
  std::vector<std::string> all = told();
  ASSERT_EQ(all.size(), static_cast<std::size_t>(AllocationTable::kMostKept) + 1) << "with that of n2";
  EXPECT_EQ(all.back(), "n1:0 odd 501-502");
  hear(2000, {leased(0, "even", 1500)});
  table_->drop(kEpoch + Seconds(1400) + AllocationTable::kKept);
  EXPECT_EQ(told().back(), "n1:0 odd 1399-1400");
  table_->drop(kEpoch + Seconds(1600) + AllocationTable::kKept);
  EXPECT_THAT(told(), ElementsAre("n1:0 even 1500-2000...")) << "n2 was not heard since";
  open();
  EXPECT_THAT(told(), ElementsAre("n1:0 even 1500-2000..."));
}

// 3 nodes of 7 GPUs, of which 1,000 have ended each: the 20,000 that ended last are told, and since when these are
// all.
TEST_F(Allocations, TellTheNewest) {
  database_->execute("BEGIN");
  for (int i = 0; i <= 1000; ++i) {
    std::vector<HeldGpus::Gpu> gpus;
    for (std::size_t gpu = 0; gpu < 7; ++gpu) gpus.push_back(leased(gpu, i % 2 == 0 ? "even" : "odd", i));
    for (const char* node : {"n1", "n2", "n3"}) hear(i, gpus, node);
  }
  database_->execute("COMMIT");
  const FleetAllocations all = table_->read(kEpoch, kEpoch + kLong);
  // One of each GPU ended in each of the seconds 1 to 1000: those of the last 952 seconds are 19,992, and 8 of the
  // second before.
  EXPECT_EQ(all.complete_from, kEpoch + Seconds(48));
  std::size_t ended = 0;
  for (const GpuAllocation& one : all.allocations) ended += one.ended ? 1u : 0u;
  EXPECT_EQ(ended, 20'000u);
}

// Of 20 GPUs that change hands each second 500 seconds are 10,000 ended rows, beside those that last; a lease that none
// of that concerns stays.
TEST_F(Allocations, OfANodeAreBounded) {
  database_->execute("BEGIN");
  for (int i = 0; i <= 600; ++i) {
    std::vector<HeldGpus::Gpu> gpus = {leased(20, "night", 0)};
    for (std::size_t gpu = 0; gpu < 20; ++gpu) gpus.push_back(leased(gpu, i % 2 == 0 ? "even" : "odd", i));
    hear(i, std::move(gpus));
  }
  database_->execute("COMMIT");
  const FleetAllocations all = table_->read(kEpoch, kEpoch + kLong);
  EXPECT_EQ(all.allocations.size(), static_cast<std::size_t>(AllocationTable::kMostKeptOfNode) + 21);
  EXPECT_EQ(all.allocations.back().until, kEpoch + Seconds(101));
  open();
  EXPECT_EQ(told().size(), all.allocations.size());
}

TEST_F(Allocations, OfANodeHaveNoMoreGpusThanANodeMay) {
  std::vector<HeldGpus::Gpu> gpus;
  for (std::size_t gpu = 0; gpu < 1000; ++gpu) gpus.push_back(free_gpu(gpu));
  hear(1, gpus);
  hear(2, gpus);
  EXPECT_EQ(told().size(), AllocationTable::kMostGpus);
}

// A text of 400 bytes of which JSON makes six each is 2,400 bytes: of 3,000 that ended less than 2,500 are 6 MB.
TEST_F(Allocations, AreToldInSoManyBytes) {
  database_->execute("BEGIN");
  const std::string text(400, '\x01');
  for (int i = 0; i <= 1000; ++i) {
    std::vector<HeldGpus::Gpu> gpus;
    for (std::size_t gpu = 0; gpu < 3; ++gpu) gpus.push_back(leased(gpu, text + (i % 2 == 0 ? "even" : "odd"), i));
    hear(i, std::move(gpus));
  }
  database_->execute("COMMIT");
  const FleetAllocations all = table_->read(kEpoch, kEpoch + kLong);
  EXPECT_LT(dump_json(to_json(all)).size(), AllocationTable::kMostToldBytes);
  EXPECT_GT(all.allocations.size(), 2000u);
  EXPECT_LT(all.allocations.size(), 2500u);
  const Seconds oldest = all.allocations.back().until;
  EXPECT_TRUE(all.complete_from == oldest || all.complete_from == oldest - Seconds(1.0));
}

// A machine whose clock was an hour ahead until it had asked a time server.
TEST_F(Allocations, GoOnWhenTheClockIsSetBack) {
  hear(1, {free_gpu(0), leased(1, "night", 0)});
  hear(2, {leased(0, "day", 1.5), leased(1, "night", 0)});
  hear(3600, {free_gpu(0), leased(1, "night", 3598)});
  hear(3601, {leased(0, "late", 3600.5), leased(1, "night", 3598)});
  hear(10, {leased(0, "late", 9), leased(1, "night", 0)});
  const std::vector<std::string> wanted = {"n1:0 late 10-11...", "n1:1 night 10-11...", "n1:0 free 1-1.5",
                                           "n1:0 day 1.5-2", "n1:1 night 0-2"};
  hear(11, {leased(0, "late", 9), leased(1, "night", 0)});
  EXPECT_THAT(told(), UnorderedElementsAreArray(wanted));
  open();
  EXPECT_THAT(told(), UnorderedElementsAreArray(wanted));
  hear(12, {free_gpu(0), leased(1, "night", 0)});
  EXPECT_THAT(told(11), UnorderedElementsAre("n1:0 late 10-12", "n1:0 free 12-12...", "n1:1 night 10-12..."));
}

// As above while the server was away; a node that it no longer asks has no answer that would set its rows right.
TEST_F(Allocations, GoOnWhenTheClockWasSetBackBetweenTwoServers) {
  hear(3600, {leased(0, "day", 3500)});
  hear(3600, {leased(0, "night", 0)}, "n2");
  open();
  table_->drop(kEpoch + Seconds(10));
  EXPECT_THAT(told(), ElementsAre("n2:0 night 0-10"));
  hear(10, {leased(0, "day", 5)});
  hear(11, {leased(0, "day", 5)});
  EXPECT_THAT(told(), UnorderedElementsAre("n1:0 day 10-11...", "n2:0 night 0-10"));
}

// A clock that is two years ahead for one look an hour costs a day of the past for each, from its old end.
TEST_F(Allocations, OutliveAClockThatIsFarAhead) {
  for (int day = 1; day <= 5; ++day) {
    const double time = kLong.value() * day;
    for (const double second : {0.0, 1.0}) hear(time + second, {leased(0, day % 2 == 0 ? "even" : "odd", time)});
  }
  ASSERT_EQ(told().size(), 5u);
  table_->drop(kEpoch + Seconds(7e7));
  // Each ended a second after its begin, as the node was silent then.
  EXPECT_EQ(told().size(), 4u);
  table_->drop(kEpoch + kLong * 6.0);
  EXPECT_EQ(told().size(), 4u);
  for (int i = 0; i < 10; ++i) table_->drop(kEpoch + Seconds(7e7));
  EXPECT_THAT(told(), IsEmpty()) << "after all that time it is the truth";
}

// What was taken back is not there, and the next answer goes on from what was there before.
TEST_F(Allocations, ForgetWhatWasTakenBack) {
  hear(1, {leased(0, "night", 0)});
  database_->execute("BEGIN");
  hear(2, {leased(0, "day", 1.5)});
  database_->execute("ROLLBACK");
  table_->reload();
  hear(3, {leased(0, "day", 1.5)});
  EXPECT_THAT(told(), UnorderedElementsAre("n1:0 night 0-1.5", "n1:0 day 1.5-3..."));
}

}  // namespace
}  // namespace flyball
