// The writing thread takes a bounded batch from the queue, urgent writes first, and commits it in one transaction
// (store_tables.h); where that fails for another reason than room, each write is tried again by itself. Results are
// posted to the owner's thread in the order of the writes.
#include "server/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <utility>

#include "base/contain.h"
#include "net/http.h"
#include "server/database.h"
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
// Assumed of a write that moves or deletes what its job has measured.
constexpr std::size_t kRowsOfMeasured = 500;

std::size_t rows_of(const StoreWrite& write) {
  if (const auto* report = std::get_if<StoredReport>(&write)) return report->report.measurements.size() + 1;
  if (const auto* heard = std::get_if<StoredHeard>(&write)) return heard->jobs.size();
  const bool all_measured = std::holds_alternative<DeletedJob>(write) ||
                            std::holds_alternative<StoredProfiled>(write) ||
                            std::holds_alternative<StoredSweeps>(write);
  return all_measured ? kRowsOfMeasured : 1;
}

// Every rank of a job waits for these.
bool is_urgent(const StoreWrite& write) {
  return std::holds_alternative<StoredNotice>(write) || std::holds_alternative<StoredVersion>(write);
}

// 0: of no job, or of many.
std::int64_t job_written(const StoreWrite& write) {
  return std::visit(
      [](const auto& one) -> std::int64_t {
        if constexpr (requires { one.job; }) {
          return one.job;
        } else {
          return 0;
        }
      },
      write);
}

// 507 if there is no room; any other failure is the server's own.
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
    waiting_.push_back(std::move(group));
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  }
  changed_.notify_one();
}

std::vector<Store::Entry> Store::take_batch() {
  std::vector<Entry> batch;
  const auto take = [&](Group& group) {
    batch.insert(batch.end(), std::make_move_iterator(group.begin()), std::make_move_iterator(group.end()));
  };
  if (!std::exchange(others_turn_, false)) {
    // An urgent write must not overtake what its own job has handed in before.
    std::set<std::int64_t> others_before;
    std::erase_if(waiting_, [&](Group& group) {
      const std::int64_t job = job_written(group.front().write);
      const bool urgent =
          std::all_of(group.begin(), group.end(), [](const Entry& one) { return is_urgent(one.write); });
      if (!urgent || others_before.count(job) != 0) {
        others_before.insert(job);
        return false;
      }
      take(group);
      return true;
    });
    others_turn_ = !batch.empty();
  }
  if (batch.empty()) {
    for (std::size_t rows = 0; !waiting_.empty() && rows < kMostRows; waiting_.pop_front()) {
      for (const Entry& one : waiting_.front()) rows += rows_of(one.write);
      take(waiting_.front());
    }
  }
  counts_.waiting -= batch.size();
  return batch;
}

Store::Counts Store::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::exception_ptr Store::try_to_commit(std::span<const Entry> batch, bool& no_room) {
  try {
    tables_->commit(batch);
    return nullptr;
  } catch (const DatabaseError& error) {
    no_room = error.no_room();
    roll_back();
    return as_answer(error);
  } catch (const std::exception& error) {
    // Of several writes each will be tried again by itself, which shows the one that cannot be written.
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

std::vector<std::exception_ptr> Store::commit(const std::vector<Entry>& batch) {
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
    std::vector<Entry> batch;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      batch = take_batch();
    }
    (void)contained("the store", [&] { write(std::move(batch)); });
  }
}

void Store::write(std::vector<Entry> batch) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::exception_ptr> errors = commit(batch);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  {
    const std::lock_guard lock(mutex_);
    ++(errors.front() ? counts_.failed_commits : counts_.commits);
    counts_.writes += batch.size();
    counts_.commit_seconds += seconds;
  }
  post_([all = std::make_shared<std::vector<Entry>>(std::move(batch)), errors = std::move(errors)] {
    for (std::size_t i = 0; i < all->size(); ++i) {
      (void)contained("what follows a commit", [&] { (*all)[i].done(errors[i]); });
    }
  });
}

}  // namespace flyball
