#include "server/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <map>
#include <utility>
#include <nlohmann/json.hpp>

#include "net/http.h"
#include "server/database.h"
#include "wire/json_object.h"

namespace flyball {
namespace {

constexpr std::int64_t kFormat = 1;

constexpr const char* kTables = R"(
CREATE TABLE IF NOT EXISTS jobs(
  job INTEGER PRIMARY KEY, kind INTEGER NOT NULL, request TEXT NOT NULL, token BLOB NOT NULL,
  version INTEGER NOT NULL, frontier_version INTEGER NOT NULL, fingerprint INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS ranks(
  job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE, rank INTEGER NOT NULL, body TEXT NOT NULL,
  last_sequence INTEGER NOT NULL, profiled INTEGER NOT NULL, PRIMARY KEY(job, rank)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sums(
  job INTEGER NOT NULL, rank INTEGER NOT NULL, instruction TEXT NOT NULL, clock_mhz REAL NOT NULL,
  samples REAL NOT NULL, time_s REAL NOT NULL, energy_j REAL NOT NULL,
  PRIMARY KEY(job, rank, instruction, clock_mhz),
  FOREIGN KEY(job, rank) REFERENCES ranks ON DELETE CASCADE) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notices(
  job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE, straggler TEXT NOT NULL, sequence INTEGER NOT NULL,
  degree REAL NOT NULL, due REAL NOT NULL, PRIMARY KEY(job, straggler, sequence)) WITHOUT ROWID;
)";

// "3" for rank 3, "/name" for anything else.
std::string key_of(const StragglerId& id) {
  return std::holds_alternative<int>(id) ? std::to_string(std::get<int>(id)) : "/" + std::get<std::string>(id);
}

StragglerId straggler_of(const std::string& key) {
  if (key.starts_with('/')) return key.substr(1);
  return std::stoi(key);
}

// The database says 507 where there is no room; anything else is ours.
std::exception_ptr as_answer(const DatabaseError& error) {
  if (!error.no_room()) return std::make_exception_ptr(error);
  return std::make_exception_ptr(HttpError(507,
                                           "the server cannot store this; its disk may be full. Nothing of it has "
                                           "been taken; send it again later"));
}

double wall_clock_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

class Store::Tables {
 public:
  explicit Tables(const std::string& path) : database_(path.empty() ? ":memory:" : path) {
    Statement format(database_, "PRAGMA user_version");
    format.next();
    const std::int64_t found = format.integer(0);
    format.next();
    if (found != 0 && found != kFormat) {
      throw InputError({path}, fmt::format("this database has format {}, this program writes {}", found, kFormat),
                       "use the program that wrote it, or name another file");
    }
    database_.execute(kTables);
    if (found == 0) database_.execute("PRAGMA user_version=1");
  }

  std::vector<LoadedJob> load();

  void commit(std::span<const Entry> batch) {
    const bool all_barriers = std::all_of(batch.begin(), batch.end(), [](const Entry& entry) {
      return std::holds_alternative<StoreBarrier>(entry.write);
    });
    if (all_barriers) return;
    database_.execute("BEGIN IMMEDIATE");
    for (const Entry& entry : batch) std::visit([&](const auto& what) { write(what); }, entry.write);
    database_.execute("COMMIT");
  }

  void roll_back() {
    // A full disk may have rolled back already.
    if (database_.in_transaction()) database_.execute("ROLLBACK");
    // Moves the log into the database, whose free pages may hold what the log has no room for.
    database_.execute("PRAGMA wal_checkpoint(TRUNCATE)");
  }

 private:
  Statement& statement(const char* sql) {
    auto& found = statements_[sql];
    if (!found) found = std::make_unique<Statement>(database_, sql);
    return *found;
  }

  void write(const StoredJob& job) {
    JobRequest request = job.request;
    request.token.clear();
    const std::string body = to_json(request).dump();
    statement("INSERT INTO jobs VALUES(?,?,?,?,?,?,?)")
        .bind(1, job.job)
        .bind(2, std::int64_t{job.kind == JobKind::kZeus ? 1 : 0})
        .bind(3, std::string_view(body))
        .bind_bytes(4, job.token)
        .bind(5, job.version)
        .bind(6, job.frontier_version)
        .bind(7, std::bit_cast<std::int64_t>(job.fingerprint))
        .run();
  }

  void write(const StoredRank& rank) {
    const std::string body = to_json(rank.rank).dump();
    statement("INSERT INTO ranks VALUES(?,?,?,?,?) ON CONFLICT DO UPDATE SET body=excluded.body")
        .bind(1, rank.job)
        .bind(2, std::int64_t{rank.rank.rank})
        .bind(3, std::string_view(body))
        .bind(4, rank.last_sequence)
        .bind(5, std::int64_t{rank.profiled})
        .run();
  }

  void write(const StoredReport& stored) {
    const MeasurementReport& report = stored.report;
    statement("UPDATE ranks SET last_sequence=?, profiled=0 WHERE job=? AND rank=?")
        .bind(1, report.sequence)
        .bind(2, stored.job)
        .bind(3, std::int64_t{report.rank})
        .run();
    Statement& add = statement(
        "INSERT INTO sums VALUES(?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET samples=samples+excluded.samples, "
        "time_s=time_s+excluded.time_s, energy_j=energy_j+excluded.energy_j");
    for (const Measurement& one : report.measurements) {
      const auto samples = static_cast<double>(one.samples);
      add.bind(1, stored.job)
          .bind(2, std::int64_t{report.rank})
          .bind(3, std::string_view(one.instruction))
          .bind(4, one.clock.value())
          .bind(5, samples)
          .bind(6, one.time.value() * samples)
          .bind(7, one.energy.value() * samples)
          .run();
    }
  }

  void write(const StoredProfiled& profiled) {
    for (const int rank : profiled.ranks) {
      statement("UPDATE ranks SET profiled=1 WHERE job=? AND rank=?")
          .bind(1, profiled.job)
          .bind(2, std::int64_t{rank})
          .run();
    }
  }

  void write(const StoredNotice& notice) {
    const std::string straggler = key_of(notice.straggler);
    // What a newer notice in force has overtaken will never be asked for again.
    statement(
        "DELETE FROM notices WHERE job=?1 AND straggler=?2 AND sequence < (SELECT max(sequence) FROM notices WHERE "
        "job=?1 AND straggler=?2 AND due<=?3)")
        .bind(1, notice.job)
        .bind(2, std::string_view(straggler))
        .bind(3, wall_clock_seconds())
        .run();
    statement("INSERT OR IGNORE INTO notices VALUES(?,?,?,?,?)")
        .bind(1, notice.job)
        .bind(2, std::string_view(straggler))
        .bind(3, notice.sequence)
        .bind(4, notice.degree)
        .bind(5, notice.due)
        .run();
  }

  void write(const StoredVersion& version) {
    statement("UPDATE jobs SET version=?, frontier_version=?, fingerprint=? WHERE job=?")
        .bind(1, version.version)
        .bind(2, version.frontier_version)
        .bind(3, std::bit_cast<std::int64_t>(version.fingerprint))
        .bind(4, version.job)
        .run();
  }

  void write(const DeletedJob& deleted) { statement("DELETE FROM jobs WHERE job=?").bind(1, deleted.job).run(); }

  void write(const StoreBarrier&) {}

  Database database_;
  std::map<const char*, std::unique_ptr<Statement>> statements_;
};

std::vector<LoadedJob> Store::Tables::load() {
  std::vector<LoadedJob> jobs;
  Statement job_rows(database_, "SELECT job,kind,request,token,version,frontier_version,fingerprint FROM jobs");
  Statement rank_rows(database_, "SELECT rank,body,last_sequence,profiled FROM ranks WHERE job=? ORDER BY rank");
  Statement sum_rows(database_,
                     "SELECT rank,instruction,clock_mhz,samples,time_s,energy_j FROM sums WHERE job=? ORDER BY rank, "
                     "instruction, clock_mhz DESC");
  Statement notice_rows(database_,
                        "SELECT straggler,sequence,degree,due FROM notices WHERE job=? ORDER BY straggler,sequence");
  while (job_rows.next()) {
    LoadedJob job;
    job.job.job = job_rows.integer(0);
    job.job.kind = job_rows.integer(1) == 1 ? JobKind::kZeus : JobKind::kOwn;
    job.job.request = read_job_request(parse_json("the database", job_rows.text(2)));
    const auto token = job_rows.bytes(3);
    std::copy_n(token.begin(), std::min(token.size(), job.job.token.size()), job.job.token.begin());
    job.job.version = job_rows.integer(4);
    job.job.frontier_version = job_rows.integer(5);
    job.job.fingerprint = std::bit_cast<std::uint64_t>(job_rows.integer(6));

    std::map<int, std::size_t> place;
    rank_rows.bind(1, job.job.job);
    while (rank_rows.next()) {
      LoadedRank rank;
      rank.rank = {job.job.job, read_rank_request(parse_json("the database", rank_rows.text(1))), rank_rows.integer(2),
                   rank_rows.integer(3) != 0};
      place[rank.rank.rank.rank] = job.ranks.size();
      job.ranks.push_back(std::move(rank));
    }
    sum_rows.bind(1, job.job.job);
    while (sum_rows.next()) {
      job.ranks[place.at(static_cast<int>(sum_rows.integer(0)))].sums.push_back(
          {sum_rows.text(1), Megahertz(sum_rows.number(2)), sum_rows.number(3), Seconds(sum_rows.number(4)),
           Joules(sum_rows.number(5))});
    }
    notice_rows.bind(1, job.job.job);
    while (notice_rows.next()) {
      job.notices.push_back({job.job.job, straggler_of(notice_rows.text(0)), notice_rows.integer(1),
                             notice_rows.number(2), notice_rows.number(3)});
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
}

Store::Store(const std::string& path, std::function<void(std::function<void()>)> post)
    : post_(std::move(post)), tables_(std::make_unique<Tables>(path)) {}

Store::~Store() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::vector<LoadedJob> Store::load() { return tables_->load(); }

void Store::submit(StoreWrite write, Done done) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(write), std::move(done)});
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  }
  changed_.notify_one();
}

Store::Counts Store::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.waiting = waiting_.size();
  return counts;
}

std::exception_ptr Store::try_to_commit(std::span<const Entry> batch, bool& no_room) {
  try {
    tables_->commit(batch);
    return nullptr;
  } catch (const DatabaseError& error) {
    no_room = error.no_room();
    std::exception_ptr answer = as_answer(error);
    try {
      tables_->roll_back();
    } catch (const DatabaseError&) {
      // The next transaction finds out whether the database is still usable.
    }
    return answer;
  }
}

std::vector<std::exception_ptr> Store::commit(const std::vector<Entry>& batch) {
  bool no_room = false;
  const std::exception_ptr error = try_to_commit(batch, no_room);
  std::vector<std::exception_ptr> errors(batch.size(), error);
  if (!error || no_room || batch.size() == 1) return errors;
  // One of them cannot be written; the others are not to suffer for it.
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
      batch = std::exchange(waiting_, {});
    }
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::exception_ptr> errors = commit(batch);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    {
      const std::lock_guard lock(mutex_);
      ++(errors.front() ? counts_.failed_commits : counts_.commits);
      counts_.writes += batch.size();
      counts_.commit_seconds += seconds;
    }
    post_([batch = std::make_shared<std::vector<Entry>>(std::move(batch)), errors = std::move(errors)] {
      for (std::size_t i = 0; i < batch->size(); ++i) (*batch)[i].done(errors[i]);
    });
  }
}

}  // namespace flyball
