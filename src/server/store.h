// Keeps on disk what the server must not forget. The store has a thread of its own for writing. The thread takes many
// of the writes that have been handed in meanwhile, commits them in one transaction with one flush of the disk, and
// then reports each as done. Requests are answered after that, so that what has been answered survives.
//
// Writes of one job are done in the order in which they came. Stragglers' notices and the versions that answer them are
// urgent, since every rank of a job waits for them: every second transaction is theirs, and takes what their jobs have
// handed in before along. Transactions are bounded, but for a single large write, so that a notice waits for the one
// under way and not for the queue.
//
// Where the disk is full, all writes of a transaction fail together and leave the file as it was.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "server/adjusted_plan.h"
#include "server/measurements.h"
#include "server/order_seen.h"
#include "server/token.h"
#include "wire/job_messages.h"

namespace flyball {

enum class JobKind { kOwn, kZeus };

// --- What is written. `job` is the job's number in the database. ---

struct StoredJob {
  std::int64_t job = 0;
  JobKind kind = JobKind::kOwn;
  JobRequest request;  // with its id, without its token
  TokenHash token{};
  std::int64_t version = 0;
  std::int64_t frontier_version = 0;
  std::uint64_t fingerprint = 0;  // of the schedules of version `version`
  std::uint64_t given_plan = 0;   // identity of the plan file that it runs (given_plan.h); 0: none, or unknown
  double heard = 0.0;             // as in StoredHeard; 0: not known
  std::string party;              // who registered it (Access::party_of); empty: not known
  OrderSeen order_seen = OrderSeen::kAsTold;
  std::optional<JobLimits> limits = std::nullopt;  // since the registration; none: those of the request
  bool ordered_maximum = false;                    // ClocksOrder::at_maximum
};
// When ranks of these jobs were last heard, in seconds since 1970.
struct StoredHeard {
  struct One {
    std::int64_t job = 0;
    double heard = 0.0;
  };
  std::vector<One> jobs;
};
struct StoredGivenPlan {
  std::int64_t job = 0;
  std::uint64_t given_plan = 0;
};
struct StoredOrderSeen {
  std::int64_t job = 0;
  OrderSeen seen = OrderSeen::kAsTold;
};
struct StoredLimits {
  std::int64_t job = 0;
  JobLimits limits;
};
struct StoredClocksOrder {
  std::int64_t job = 0;
  ClocksOrder order;
};
struct StoredRank {
  std::int64_t job = 0;
  RankRequest rank;
  std::int64_t last_sequence = -1;
  bool profiled = false;
};
struct StoredReport {
  std::int64_t job = 0;
  MeasurementReport report;
};
struct StoredProfiled {
  std::int64_t job = 0;
  std::vector<int> ranks;
};
// From now on these ranks are planned with the sweeps that they have finished last.
struct StoredSweeps {
  std::int64_t job = 0;
  std::vector<int> ranks;
};
struct StoredNotice {
  std::int64_t job = 0;
  StragglerId straggler;
  std::int64_t sequence = 0;
  double degree = 1.0;
  double due = 0.0;  // seconds since 1970
  // When the straggler has recovered by itself. That is a notice of its own, with the next number, in the same
  // transaction.
  std::optional<double> until = std::nullopt;
};
struct StoredVersion {
  std::int64_t job = 0;
  std::int64_t version = 0;
  std::int64_t frontier_version = 0;
  std::uint64_t fingerprint = 0;
  std::optional<AdjustedPlan> adjusted = std::nullopt;  // of this version; none: what is stored stays
};
// What a rank's sessions have saved, in the place of what was stored before.
struct StoredSavings {
  std::int64_t job = 0;
  int rank = 0;
  std::int64_t session = 0;  // that counts `now`; 0: it does not tell
  RankSavings earlier;       // by sessions of this rank that have ended
  RankSavings now;
  Joules promised;  // what all these iterations take as promised
};
struct DeletedJob {
  std::int64_t job = 0;
};
// Writes nothing, and is done when all is done that its job has handed in before. It serves to answer a request that is
// sent again. Where it is urgent, those who wait for it wait no longer than for a notice.
struct StoreBarrier {
  std::int64_t job = 0;
  bool urgent = false;
};

using StoreWrite = std::variant<StoredJob, StoredRank, StoredReport, StoredProfiled, StoredSweeps, StoredNotice,
                                StoredVersion, StoredHeard, StoredGivenPlan, StoredOrderSeen, StoredLimits,
                                StoredClocksOrder, StoredSavings, DeletedJob, StoreBarrier>;

// --- What is read back, once, at the start. ---

struct LoadedRank {
  StoredRank rank;
  MeasurementSums sums;       // the measurements with which its job was planned
  MeasurementSums collected;  // the measurements since then
};
struct LoadedJob {
  StoredJob job;
  std::string trouble;  // which row is damaged, and how to mend it; then only job, and the id if known, are filled in
  std::vector<LoadedRank> ranks;
  std::vector<StoredNotice> notices;  // by straggler, then in rising sequence
  std::optional<AdjustedPlan> adjusted = std::nullopt;
  std::vector<StoredSavings> savings = {};  // by rank
};

class StoreTables;

class Store {
 public:
  using Done = std::function<void(std::exception_ptr)>;  // null: it is on the disk

  // Opens or makes the file; an empty path keeps everything in memory. `post` brings a call to the owner's thread.
  // Throws DatabaseError (database/database.h), and InputError where the file is damaged or another program's.
  Store(const std::string& path, std::function<void(std::function<void()>)> post);
  ~Store();  // everything handed in is written, or reported as failed
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Reads all jobs. Must be called before the first submit(). A damaged row costs only the job that it belongs to.
  // Throws what the constructor does.
  [[nodiscard]] std::vector<LoadedJob> load();

  // Hands in a write; `done` is called through `post`. The second form puts two writes of one job into one transaction.
  // Both are thread-safe.
  void submit(StoreWrite write, Done done);
  struct Entry {
    StoreWrite write;
    Done done;
  };
  void submit(Entry first, Entry second);

  struct Counts {
    std::uint64_t commits = 0;
    std::uint64_t writes = 0;
    std::uint64_t failed_commits = 0;
    double commit_seconds = 0.0;
    std::size_t waiting = 0;
  };
  [[nodiscard]] Counts counts() const;

  // Writes of one job that go into one transaction.
  using Group = std::vector<Entry>;

 private:
  void add(Group group);
  // Take the groups of the next transaction. Must be called with mutex_ held; the first may take none, the second only
  // when something waits.
  std::vector<Group> take_urgent();
  std::vector<Group> take_in_order();
  void work();
  void write(std::vector<Group> batch);
  // Returns one result per group. All are alike, unless something other than a lack of room on the disk was wrong.
  std::vector<std::exception_ptr> commit(const std::vector<Group>& batch);
  std::exception_ptr try_to_commit(std::span<const Group> batch, bool& no_room);
  void roll_back() noexcept;

  std::string path_;
  std::function<void(std::function<void()>)> post_;
  std::unique_ptr<StoreTables> tables_;  // used only by the thread, once it has begun
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Group> waiting_;       // guarded by mutex_, as are the next four
  std::size_t urgent_waiting_ = 0;  // of these groups
  bool others_turn_ = false;        // whether the last transaction was one of urgent writes
  Counts counts_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace flyball
