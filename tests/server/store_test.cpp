#include "server/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include "database/database.h"
#include "net/http.h"
#include "server/test_server.h"
#include "support/expect_error.h"

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
  const TempFolder folder;
  {
    Answers answers;
    Store store(folder / "a.db", run_at_once);
    EXPECT_TRUE(store.load().empty());
    StoredJob job = stored_job(1);
    job.request.target_time = Seconds(0.1 + 0.2);
    job.party = "registration 192.0.2.7";
    store.submit(job, answers.expect(0));
    store.submit(StoredRank{1, {3, 1, 0, 0, {1410, 1395}}, -1, false}, answers.expect(1));
    const InstructionMeasurement one{"forward", Megahertz(1410), Seconds(0.1), Joules(1.0 / 3.0), 7, Seconds(0.03)};
    store.submit(StoredReport{1, {3, 0, {one}}}, answers.expect(2));
    store.submit(StoredReport{1, {3, 1, {one}}}, answers.expect(3));
    store.submit(StoredProfiled{1, {3}}, answers.expect(4));
    store.submit(StoredNotice{1, StragglerId("rack"), 4, 1.25, 1e12}, answers.expect(5));
    store.submit(StoredNotice{1, StragglerId(3), 0, 1.5, 10.0}, answers.expect(6));
    const std::vector<std::vector<Megahertz>> clocks = {{Megahertz(1410), Megahertz(0.1 + 0.2)}, {}};
    store.submit(StoredVersion{1, 8, 7, 0, AdjustedPlan{5, false, {}}}, answers.expect(7));
    store.submit(StoredVersion{1, 9, 8, 0, AdjustedPlan{~std::uint64_t{0}, true, clocks}}, answers.expect(8));
    // One that a straggler has made leaves the adjusted plan as it is.
    store.submit(StoredVersion{1, 10, 8, ~std::uint64_t{0}}, answers.expect(9));
    store.submit(stored_job(2), answers.expect(10));
    store.submit(StoredVersion{2, 1, 1, 0, AdjustedPlan{5, false, clocks}}, answers.expect(11));
    store.submit(DeletedJob{2}, answers.expect(12));
    store.submit(StoreBarrier{}, answers.expect(13));
    answers.wait_for(14);
    EXPECT_THAT(answers.order(), ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13));
  }
  Store store(folder / "a.db", run_at_once);
  const std::vector<LoadedJob> jobs = store.load();
  ASSERT_EQ(jobs.size(), 1u);
  const LoadedJob& job = jobs[0];
  EXPECT_EQ(job.job.request.id, "job-1");
  EXPECT_EQ(job.job.request.target_time, Seconds(0.1 + 0.2));
  EXPECT_EQ(job.job.request.token, "");
  EXPECT_EQ(job.job.token, hash_token(kToken));
  EXPECT_EQ(job.job.party, "registration 192.0.2.7");
  EXPECT_EQ(job.job.version, 10);
  EXPECT_EQ(job.job.frontier_version, 8);
  EXPECT_EQ(job.job.fingerprint, ~std::uint64_t{0});
  ASSERT_TRUE(job.adjusted);
  EXPECT_EQ(job.adjusted->measurements, ~std::uint64_t{0});
  EXPECT_TRUE(job.adjusted->finished);
  ASSERT_EQ(job.adjusted->clocks.size(), 2u);
  EXPECT_THAT(job.adjusted->clocks[0], ::testing::ElementsAre(Megahertz(1410), Megahertz(0.1 + 0.2)));
  ASSERT_EQ(job.ranks.size(), 1u);
  EXPECT_EQ(job.ranks[0].rank.rank, (RankRequest{3, 1, 0, 0, {1410, 1395}}));
  EXPECT_EQ(job.ranks[0].rank.last_sequence, 1);
  EXPECT_TRUE(job.ranks[0].rank.profiled);
  // Bit by bit what is in memory after the same reports.
  MeasurementSums sums;
  for (int i = 0; i < 2; ++i) {
    add_measurements(sums, {{"forward", Megahertz(1410), Seconds(0.1), Joules(1.0 / 3.0), 7, Seconds(0.03)}});
  }
  ASSERT_EQ(job.ranks[0].collected.size(), 1u);
  EXPECT_EQ(job.ranks[0].collected[0].time, sums[0].time);
  EXPECT_EQ(job.ranks[0].collected[0].energy, sums[0].energy);
  EXPECT_EQ(job.ranks[0].collected[0].squares, sums[0].squares);
  EXPECT_TRUE(job.ranks[0].sums.empty());
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
  const TempFolder folder;
  Answers answers;
  Store store(folder / "a.db", run_at_once);
  constexpr int kJobs = 2000;
  for (int i = 0; i < kJobs; ++i) store.submit(stored_job(i + 1), answers.expect(i));
  answers.wait_for(kJobs);
  EXPECT_EQ(store.counts().writes, static_cast<std::uint64_t>(kJobs));
  EXPECT_LT(store.counts().commits, static_cast<std::uint64_t>(kJobs / 4));
}

// What comes while a transaction is under way: reports of jobs 1 and 2, a notice of job 1, a notice and its version of
// job 3, and once these are written, another notice of job 3 and one of job 2 that is sent again. A notice takes what
// its job has handed in before along, and leaves the others behind.
TEST(Store, NoticesWaitOnlyForWhatTheirOwnJobHasHandedInBefore) {
  Answers answers;
  Store store("", run_at_once);
  for (int job = 1; job <= 3; ++job) {
    store.submit(stored_job(job), [](const std::exception_ptr&) {});
    store.submit(StoredRank{job, {0, 0, 0, 0, {}}, -1, false}, [](const std::exception_ptr&) {});
  }
  HeldStore held(store);
  const auto report_of = [](std::int64_t job) {
    return StoredReport{job, {0, 0, {{"forward", Megahertz(1410), Seconds(0.1), Joules(1), 7}}}};
  };
  store.submit(report_of(2), answers.expect(0));
  store.submit(report_of(1), answers.expect(1));
  store.submit(StoredNotice{1, StragglerId("rack"), 0, 1.25, 1e12}, answers.expect(2));
  store.submit(StoredGivenPlan{1, 7}, answers.expect(3));
  store.submit({StoredNotice{3, StragglerId("rack"), 0, 1.25, 1e12}, answers.expect(4)},
               {StoredVersion{3, 1, 1, 0}, [&](const std::exception_ptr& error) {
                  answers.expect(5)(error);
                  // The second urgent ones in a row; the others have their turn before.
                  store.submit(StoredNotice{3, StragglerId("rack"), 1, 1.5, 1e12}, answers.expect(6));
                  store.submit(StoreBarrier{2, true}, answers.expect(7));
                }});
  EXPECT_EQ(store.counts().waiting, 6u);
  held.release();
  answers.wait_for(8);
  EXPECT_THAT(answers.order(), ::testing::ElementsAre(1, 2, 4, 5, 0, 3, 6, 7));
  for (int i = 0; i < 8; ++i) EXPECT_FALSE(answers.failed(i)) << i;
  EXPECT_EQ(store.counts().waiting, 0u);
}

// A version of a job that is not there cannot be written, since it has no adjusted plan's job; its notice goes with it.
TEST(Store, TwoWritesOfOneTransactionAreDoneTogetherOrNotAtAll) {
  const TempFolder folder;
  {
    Answers answers;
    Store store(folder / "a.db", run_at_once);
    store.submit(stored_job(1), answers.expect(0));
    answers.wait_for(1);
    HeldStore held(store);
    store.submit({StoredNotice{1, StragglerId("rack"), 0, 1.25, 1e12}, answers.expect(1)},
                 {StoredVersion{99, 1, 1, 0, AdjustedPlan{}}, answers.expect(2)});
    store.submit(StoredNotice{1, StragglerId("pump"), 0, 1.5, 1e12}, answers.expect(3));
    held.release();
    answers.wait_for(4);
    EXPECT_TRUE(answers.failed(1));
    EXPECT_TRUE(answers.failed(2));
    EXPECT_FALSE(answers.failed(3));
  }
  Store store(folder / "a.db", run_at_once);
  const std::vector<LoadedJob> jobs = store.load();
  ASSERT_EQ(jobs.size(), 1u);
  ASSERT_EQ(jobs[0].notices.size(), 1u);
  EXPECT_EQ(jobs[0].notices[0].straggler, StragglerId("pump"));
}

TEST(Store, ATransactionIsBoundedButTakesALargeWriteWhole) {
  Answers answers;
  Store store("", run_at_once);
  store.submit(stored_job(1), [](const std::exception_ptr&) {});
  store.submit(StoredRank{1, {0, 0, 0, 0, {}}, -1, false}, [](const std::exception_ptr&) {});
  HeldStore held(store);
  MeasurementReport large{0, 0, {}};
  for (int i = 0; i < 10'000; ++i) {
    large.measurements.push_back({"forward", Megahertz(100.0 + 0.1 * i), Seconds(0.1), Joules(1), 7});
  }
  for (int i = 0; i < 3; ++i) {
    large.sequence = i;
    store.submit(StoredReport{1, large}, answers.expect(i));
  }
  const std::uint64_t before = store.counts().commits;
  held.release();
  answers.wait_for(3);
  EXPECT_THAT(answers.order(), ::testing::ElementsAre(0, 1, 2));
  EXPECT_GE(store.counts().commits, before + 3);
}

TEST(Store, TakesUpADatabaseOfTheFormatBefore) {
  const TempFolder folder;
  {
    Answers answers;
    Store store(folder / "a.db", run_at_once);
    store.submit(stored_job(1), answers.expect(0));
    store.submit(StoredRank{1, {0, 0, 0, 0, {}}, -1, false}, answers.expect(1));
    store.submit(StoredRank{1, {1, 0, 1, 0, {}}, -1, false}, answers.expect(2));
    answers.wait_for(3);
  }
  {
    // Rank 0 has finished, rank 1 is in the middle of its sweep.
    Database database(folder / "a.db");
    database.execute(
        "DROP TABLE adjusted; DROP TABLE collected; UPDATE ranks SET profiled=1 WHERE rank=0;"
        "ALTER TABLE sums DROP COLUMN squares_s2;"
        "INSERT INTO sums VALUES(1,0,'forward',1410,2,4,8); INSERT INTO sums VALUES(1,1,'forward',1410,1,3,5);"
        "PRAGMA user_version=1");
  }
  Answers answers;
  Store store(folder / "a.db", run_at_once);
  const std::vector<LoadedJob> jobs = store.load();
  ASSERT_EQ(jobs.size(), 1u);
  ASSERT_EQ(jobs[0].ranks.size(), 2u);
  EXPECT_EQ(jobs[0].ranks[0].sums.size(), 1u);
  EXPECT_TRUE(jobs[0].ranks[0].collected.empty());
  ASSERT_EQ(jobs[0].ranks[1].collected.size(), 1u);
  EXPECT_EQ(jobs[0].ranks[1].collected[0].energy, Joules(5.0));
  store.submit(StoredVersion{1, 1, 1, 0, AdjustedPlan{}}, answers.expect(0));
  answers.wait_for(1);
  EXPECT_FALSE(answers.failed(0));
}

// The second sweep does not know first backwards apart, so that those of the first sweep are stale; it measures no
// forward, so that the first sweep's stays, with its last one.
TEST(Store, ASweepReplacesFirstAndLastMicrobatchesWithTheirInstruction) {
  const TempFolder folder;
  {
    Answers answers;
    Store store(folder / "a.db", run_at_once);
    const auto report = [](const std::vector<std::string>& names) {
      StoredReport stored{1, {}};
      for (const std::string& name : names) {
        stored.report.measurements.push_back({name, Megahertz(1410), Seconds(1), Joules(1), 1});
      }
      return stored;
    };
    store.submit(stored_job(1), answers.expect(0));
    store.submit(StoredRank{1, {0, 0, 0, 0, {}}, -1, false}, answers.expect(1));
    store.submit(report({"backward", "backward.first", "forward", "forward.last"}), answers.expect(2));
    store.submit(StoredProfiled{1, {0}}, answers.expect(3));
    store.submit(StoredSweeps{1, {0}}, answers.expect(4));
    store.submit(report({"backward"}), answers.expect(5));
    store.submit(StoredProfiled{1, {0}}, answers.expect(6));
    store.submit(StoredSweeps{1, {0}}, answers.expect(7));
    answers.wait_for(8);
  }
  const std::vector<LoadedJob> jobs = Store(folder / "a.db", run_at_once).load();
  ASSERT_EQ(jobs.size(), 1u);
  std::vector<std::string> names;
  for (const MeasurementSum& sum : jobs[0].ranks.at(0).sums) names.push_back(sum.instruction);
  EXPECT_THAT(names, ::testing::ElementsAre("backward", "forward", "forward.last"));
}

TEST(Store, RefusesADatabaseOfAnotherFormat) {
  const TempFolder folder;
  { Store store(folder / "a.db", run_at_once); }
  const std::string command = "PRAGMA user_version=77";
  {
    Database database(folder / "a.db");
    database.execute(command.c_str());
  }
  EXPECT_THROW(Store(folder / "a.db", run_at_once), InputError);
}

TEST(Store, RefusesFilesThatAreNotItsOwnAndLeavesThemAlone) {
  const TempFolder folder;
  const auto refused = [&](const std::string& name, const std::string& words) {
    expect_input_error(
        [&] {
          Store store(folder / name, run_at_once);
          (void)store.load();
        },
        0, 0, words);
  };
  {
    Database music(folder / "music.db");
    music.execute("CREATE TABLE songs(title)");
  }
  refused("music.db", "another program's database: it has a table songs");
  {
    Database twin(folder / "twin.db");  // tables of the same name, but other columns
    twin.execute("CREATE TABLE jobs(title); PRAGMA user_version=1");
  }
  refused("twin.db", "no such column");
  std::ofstream(folder / "text.db") << std::string(5000, 'x');
  refused("text.db", "not a database");
  { Store store(folder / "torn.db", run_at_once); }
  std::filesystem::resize_file(folder / "torn.db", 5000);
  refused("torn.db", "torn.db");
  Database music(folder / "music.db");
  Statement journal(music, "PRAGMA journal_mode");
  EXPECT_TRUE(journal.next());
  EXPECT_EQ(journal.text(0), "delete") << "its journal is as it was";
}

// Each row damaged in its turn: its job is left out and says why, the other is there.
TEST(Store, ADamagedRowCostsItsJobOnly) {
  const TempFolder folder;
  const std::string path = folder / "a.db";
  {
    Answers answers;
    Store store(path, run_at_once);
    for (int number = 1; number <= 2; ++number) {
      const int first = 5 * (number - 1);
      store.submit(stored_job(number), answers.expect(first));
      store.submit(StoredRank{number, {1, 0, 1, 0, {}}, -1, false}, answers.expect(first + 1));
      store.submit(StoredReport{number, {1, 0, {{"forward", Megahertz(1410), Seconds(0.1), Joules(1), 7}}}},
                   answers.expect(first + 2));
      store.submit(StoredNotice{number, StragglerId(1), 4, 1.25, 1e12}, answers.expect(first + 3));
      store.submit(StoredVersion{number, 0, 0, 0, AdjustedPlan{5, false, {{Megahertz(1410)}}}},
                   answers.expect(first + 4));
    }
    answers.wait_for(10);
  }
  struct Damage {
    const char* sql;
    const char* words;
  };
  for (const auto& [sql, words] : {
           Damage{"UPDATE jobs SET request='{\"stages\":' WHERE job=1",
                  "table jobs, job 1, column request: its JSON:1:"},
           Damage{"UPDATE jobs SET request=json_set(request,'$.stages',0) WHERE job=1", "column request"},
           Damage{"UPDATE jobs SET request=json_remove(request,'$.id') WHERE job=1", "has no id"},
           Damage{"UPDATE jobs SET token=x'00' WHERE job=1", "column token holds 1 bytes"},
           Damage{"UPDATE jobs SET version='many' WHERE job=1", "column version holds text, not a whole number"},
           Damage{"UPDATE jobs SET version=-1 WHERE job=1", "versions -1 and 0"},
           Damage{"UPDATE ranks SET body='{}' WHERE job=1", "table ranks, job 1 (job-1), rank 1, column body"},
           Damage{"UPDATE ranks SET body=json_set(body,'$.rank',2) WHERE job=1", "is of rank 2"},
           Damage{"UPDATE collected SET rank=3 WHERE job=1",
                  "table collected, job 1 (job-1), rank 3: the rank has not registered"},
           Damage{"UPDATE collected SET samples=0 WHERE job=1", "column samples holds 0"},
           Damage{"UPDATE collected SET time_s=9e999 WHERE job=1", "column time_s holds inf"},
           Damage{"UPDATE notices SET straggler='rank 3' WHERE job=1", "table notices, job 1 (job-1): 'rank 3'"},
           Damage{"UPDATE notices SET degree='much' WHERE job=1", "column degree holds text"},
           Damage{"UPDATE adjusted SET clocks_mhz='[[1410' WHERE job=1",
                  "table adjusted, job 1 (job-1), column clocks_mhz: its JSON:1:"},
           Damage{"UPDATE adjusted SET clocks_mhz='[[1410],[\"x\"]]' WHERE job=1",
                  "is no list of every stage's clocks"},
       }) {
    const std::string damaged = folder / "damaged.db";
    std::filesystem::copy_file(path, damaged, std::filesystem::copy_options::overwrite_existing);
    {
      Database database(damaged);
      database.execute(sql);
    }
    Store store(damaged, run_at_once);
    const std::vector<LoadedJob> jobs = store.load();
    ASSERT_EQ(jobs.size(), 2u) << sql;
    EXPECT_THAT(jobs[0].trouble, ::testing::HasSubstr(words)) << sql;
    EXPECT_THAT(jobs[0].trouble, ::testing::HasSubstr(damaged + ": table"));
    EXPECT_THAT(jobs[0].trouble, ::testing::HasSubstr("DELETE FROM jobs WHERE job=1"));
    EXPECT_TRUE(jobs[0].ranks.empty());
    EXPECT_EQ(jobs[1].trouble, "");
    EXPECT_EQ(jobs[1].job.request.id, "job-2");
    EXPECT_EQ(jobs[1].ranks.size(), 1u);
  }
}

}  // namespace
}  // namespace flyball::testing
