#include "server/store.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "net/http.h"
#include "server/database.h"
#include "server/test_server.h"

namespace flyball::testing {
namespace {

// Waits for the store's answers in this thread.
class Answers {
 public:
  Store::Done expect(int number) {
    return [this, number](const std::exception_ptr& error) {
      const std::lock_guard lock(mutex_);
      order_.push_back(number);
      failed_[number] = error != nullptr;
      changed_.notify_all();
    };
  }
  void wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return order_.size() >= count; });
  }
  [[nodiscard]] const std::vector<int>& order() const { return order_; }
  [[nodiscard]] bool failed(int number) const { return failed_.at(number); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> order_;
  std::map<int, bool> failed_;
};

void run_at_once(const std::function<void()>& action) { action(); }

StoredJob stored_job(std::int64_t number) {
  StoredJob job;
  job.job = number;
  job.request = small_job("job-" + std::to_string(number));
  job.token = hash_token(kToken);
  return job;
}

TEST(Store, ReadsBackWhatItHasAcknowledged) {
  const ServerFolder folder;
  {
    Answers answers;
    Store store(folder / "a.db", run_at_once);
    EXPECT_TRUE(store.load().empty());
    StoredJob job = stored_job(1);
    job.request.target_time = Seconds(0.1 + 0.2);
    store.submit(job, answers.expect(0));
    store.submit(StoredRank{1, {3, 1, 0, 0, {1410, 1395}}, -1, false}, answers.expect(1));
    const Measurement one{"forward", Megahertz(1410), Seconds(0.1), Joules(1.0 / 3.0), 7};
    store.submit(StoredReport{1, {3, 0, {one}}}, answers.expect(2));
    store.submit(StoredReport{1, {3, 1, {one}}}, answers.expect(3));
    store.submit(StoredProfiled{1, {3}}, answers.expect(4));
    store.submit(StoredNotice{1, StragglerId("rack"), 4, 1.25, 1e12}, answers.expect(5));
    store.submit(StoredNotice{1, StragglerId(3), 0, 1.5, 10.0}, answers.expect(6));
    store.submit(StoredVersion{1, 9, 7, ~std::uint64_t{0}}, answers.expect(7));
    store.submit(stored_job(2), answers.expect(8));
    store.submit(DeletedJob{2}, answers.expect(9));
    store.submit(StoreBarrier{}, answers.expect(10));
    answers.wait_for(11);
    EXPECT_EQ(answers.order(), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  }
  Store store(folder / "a.db", run_at_once);
  const std::vector<LoadedJob> jobs = store.load();
  ASSERT_EQ(jobs.size(), 1u);
  const LoadedJob& job = jobs[0];
  EXPECT_EQ(job.job.request.id, "job-1");
  EXPECT_EQ(job.job.request.target_time, Seconds(0.1 + 0.2));
  EXPECT_EQ(job.job.request.token, "");
  EXPECT_EQ(job.job.token, hash_token(kToken));
  EXPECT_EQ(job.job.version, 9);
  EXPECT_EQ(job.job.frontier_version, 7);
  EXPECT_EQ(job.job.fingerprint, ~std::uint64_t{0});
  ASSERT_EQ(job.ranks.size(), 1u);
  EXPECT_EQ(job.ranks[0].rank.rank, (RankRequest{3, 1, 0, 0, {1410, 1395}}));
  EXPECT_EQ(job.ranks[0].rank.last_sequence, 1);
  EXPECT_TRUE(job.ranks[0].rank.profiled);
  // Bit by bit what is in memory after the same reports.
  MeasurementSums sums;
  for (int i = 0; i < 2; ++i) {
    add_measurement(sums, {"forward", Megahertz(1410), Seconds(0.1), Joules(1.0 / 3.0), 7});
  }
  ASSERT_EQ(job.ranks[0].sums.size(), 1u);
  EXPECT_EQ(job.ranks[0].sums[0].time, sums[0].time);
  EXPECT_EQ(job.ranks[0].sums[0].energy, sums[0].energy);
  ASSERT_EQ(job.notices.size(), 2u);
  EXPECT_EQ(job.notices[0].straggler, StragglerId("rack"));
  EXPECT_EQ(job.notices[1].straggler, StragglerId(3));
}

TEST(Store, AWriteThatCannotBeDoesNotTakeOthersWithIt) {
  Answers answers;
  Store store("", run_at_once);
  store.submit(stored_job(1), answers.expect(0));
  store.submit(StoredRank{99, {0, 0, 0, 0, {}}, -1, false}, answers.expect(1));  // of no job
  store.submit(StoredRank{1, {0, 0, 0, 0, {}}, -1, false}, answers.expect(2));
  store.submit(StoreBarrier{}, answers.expect(3));
  answers.wait_for(4);
  EXPECT_FALSE(answers.failed(0));
  EXPECT_TRUE(answers.failed(1));
  EXPECT_FALSE(answers.failed(2));
  EXPECT_FALSE(answers.failed(3));
}

TEST(Store, CommitsManyWritesAtOnce) {
  const ServerFolder folder;
  Answers answers;
  Store store(folder / "a.db", run_at_once);
  constexpr int kJobs = 2000;
  for (int i = 0; i < kJobs; ++i) store.submit(stored_job(i + 1), answers.expect(i));
  answers.wait_for(kJobs);
  EXPECT_EQ(store.counts().writes, static_cast<std::uint64_t>(kJobs));
  EXPECT_LT(store.counts().commits, static_cast<std::uint64_t>(kJobs / 4));
}

TEST(Store, RefusesADatabaseOfAnotherFormat) {
  const ServerFolder folder;
  { Store store(folder / "a.db", run_at_once); }
  const std::string command = "PRAGMA user_version=77";
  {
    Database database(folder / "a.db");
    database.execute(command.c_str());
  }
  EXPECT_THROW(Store(folder / "a.db", run_at_once), InputError);
}

}  // namespace
}  // namespace flyball::testing
