// The writing thread takes a bounded batch from the queue, in every second turn the urgent writes, and commits it in
// one transaction (store_tables.h). Where that fails for another reason than room, each group is tried again by
// itself. Results are posted to the owner's thread in the order of the batch.
#include "server/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <utility>

#include "base/contain.h"
#include "database/database.h"
#include "net/http.h"
#include "server/store_tables.h"

namespace flyball {
namespace {

[[noreturn]] void refuse_damaged(const std::string& path, const DatabaseError& error) {
  if (!error.damaged()) throw error;
  const std::string_view words = error.what();
  throw InputError({path}, std::string(words.substr(words.starts_with(path) ? path.size() + 2 : 0)),
                   fmt::format("restore {0} from a copy, take what `sqlite3 {0} .recover` still finds, or name another "
                               "file (--database)",
                               path));
}

// A transaction takes writes until it has so many rows, at some 2 us each.
constexpr std::size_t kMostRows = 2000;
// The rows that are assumed of a write which moves or deletes what its job has measured.
constexpr std::size_t kRowsOfMeasured = 500;

std::size_t rows_of(const StoreWrite& write) {
  if (const auto* report = std::get_if<StoredReport>(&write)) return report->report.measurements.size() + 1;
  if (const auto* heard = std::get_if<StoredHeard>(&write)) return heard->jobs.size();
  const bool all_measured = std::holds_alternative<DeletedJob>(write) ||
                            std::holds_alternative<StoredProfiled>(write) ||
                            std::holds_alternative<StoredSweeps>(write);
  return all_measured ? kRowsOfMeasured : 1;
}

bool is_urgent(const std::vector<Store::Entry>& group) {
  return std::any_of(group.begin(), group.end(), [](const Store::Entry& one) {
    if (const auto* barrier = std::get_if<StoreBarrier>(&one.write)) return barrier->urgent;
    return std::holds_alternative<StoredNotice>(one.write) || std::holds_alternative<StoredVersion>(one.write);
  });
}

std::size_t rows_of(const std::vector<Store::Entry>& group) {
  return std::accumulate(group.begin(), group.end(), std::size_t{0},
                         [](std::size_t rows, const Store::Entry& one) { return rows + rows_of(one.write); });
}

// Returns 0 for writes of many jobs.
std::int64_t job_of_group(const std::vector<Store::Entry>& group) {
  return std::visit(
      [](const auto& one) -> std::int64_t {
        if constexpr (requires { one.job; }) {
          return one.job;
        } else {
          return 0;
        }
      },
      group.front().write);
}

// The answer is 507 if there is no room; any other failure is the server's own.
std::exception_ptr as_answer(const DatabaseError& error) {
  if (!error.no_room()) return std::make_exception_ptr(error);
  return std::make_exception_ptr(HttpError(507,
                                           "the server cannot store this; its disk may be full. Nothing of it has "
                                           "been taken; send it again later"));
}

}  // namespace

Store::Store(const std::string& path, std::function<void(std::function<void()>)> post)
    : path_(path), post_(std::move(post)) {
  try {
    tables_ = std::make_unique<StoreTables>(path);
  } catch (const DatabaseError& error) {
    refuse_damaged(path_, error);
  }
}

Store::~Store() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::vector<LoadedJob> Store::load() {
  try {
    return tables_->load();
  } catch (const DatabaseError& error) {
    refuse_damaged(path_, error);
  }
}

void Store::submit(StoreWrite write, Done done) {
  Group group;
  group.push_back({std::move(write), std::move(done)});
  add(std::move(group));
}

void Store::submit(Entry first, Entry second) {
  Group group;
  group.push_back(std::move(first));
  group.push_back(std::move(second));
  add(std::move(group));
}

void Store::add(Group group) {
  {
    const std::lock_guard lock(mutex_);
    counts_.waiting += group.size();
    if (is_urgent(group)) ++urgent_waiting_;
    waiting_.push_back(std::move(group));
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  }
  changed_.notify_one();
}

std::vector<Store::Group> Store::take_urgent() {
  std::vector<Group> batch;
  if (urgent_waiting_ == 0) return batch;
  std::map<std::int64_t, std::size_t> last_urgent;  // by job: the place of its last urgent group
  for (std::size_t k = 0; k < waiting_.size(); ++k) {
    if (is_urgent(waiting_[k])) last_urgent[job_of_group(waiting_[k])] = k;
  }
  // What an urgent write's own job has handed in before goes with it.
  std::deque<Group> left;
  std::size_t rows = 0;
  for (std::size_t k = 0; k < waiting_.size(); ++k) {
    const auto found = last_urgent.find(job_of_group(waiting_[k]));
    const bool wanted = found != last_urgent.end() && k <= found->second && rows < kMostRows;
    if (wanted) rows += rows_of(waiting_[k]);
    if (wanted && is_urgent(waiting_[k])) --urgent_waiting_;
    if (wanted) {
      batch.push_back(std::move(waiting_[k]));
    } else {
      left.push_back(std::move(waiting_[k]));
    }
  }
  waiting_ = std::move(left);
  return batch;
}

std::vector<Store::Group> Store::take_in_order() {
  std::vector<Group> batch;
  for (std::size_t rows = 0; !waiting_.empty() && rows < kMostRows; waiting_.pop_front()) {
    if (is_urgent(waiting_.front())) --urgent_waiting_;
    rows += rows_of(waiting_.front());
    batch.push_back(std::move(waiting_.front()));
  }
  return batch;
}

Store::Counts Store::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::exception_ptr Store::try_to_commit(std::span<const Group> batch, bool& no_room) {
  try {
    tables_->commit(batch);
    return nullptr;
  } catch (const DatabaseError& error) {
    no_room = error.no_room();
    roll_back();
    return as_answer(error);
  } catch (const std::exception& error) {
    // Of several groups each will be tried again by itself, which shows the one that cannot be written.
    if (batch.size() == 1) note_contained("the store", std::current_exception());
    roll_back();
    return std::make_exception_ptr(HttpError(500, fmt::format("the server cannot store this: {}", error.what())));
  }
}

void Store::roll_back() noexcept {
  try {
    tables_->roll_back();
  } catch (const std::exception&) {
    // The next transaction finds out whether the database is still usable.
  }
}

std::vector<std::exception_ptr> Store::commit(const std::vector<Group>& batch) {
  bool no_room = false;
  const std::exception_ptr error = try_to_commit(batch, no_room);
  std::vector<std::exception_ptr> errors(batch.size(), error);
  if (!error || no_room || batch.size() == 1) return errors;
  // One of the writes fails, and the others must not fail with it.
  for (std::size_t i = 0; i < batch.size(); ++i) errors[i] = try_to_commit(std::span(batch).subspan(i, 1), no_room);
  return errors;
}

void Store::work() {
  while (true) {
    std::vector<Group> batch;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      if (!others_turn_) batch = take_urgent();
      others_turn_ = !batch.empty();
      if (batch.empty()) batch = take_in_order();
      for (const Group& group : batch) counts_.waiting -= group.size();
    }
    (void)contained("the store", [&] { write(std::move(batch)); });
  }
}

void Store::write(std::vector<Group> batch) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::exception_ptr> errors = commit(batch);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  {
    const std::lock_guard lock(mutex_);
    ++(errors.front() ? counts_.failed_commits : counts_.commits);
    for (const Group& group : batch) counts_.writes += group.size();
    counts_.commit_seconds += seconds;
  }
  post_([all = std::make_shared<std::vector<Group>>(std::move(batch)), errors = std::move(errors)] {
    for (std::size_t i = 0; i < all->size(); ++i) {
      for (const Entry& entry : (*all)[i]) {
        (void)contained("what follows a commit", [&] { entry.done(errors[i]); });
      }
    }
  });
}

}  // namespace flyball
