// One SQL table for each kind of source, with rows of all steps: (step, source, time) and figures. Once a minute the
// rows of the last minutes and of the present hour are made anew of finer ones; after a restart, all of which there are
// finer ones. Once an hour old rows are deleted, whole minutes and hours at a time, so that what is left of a minute is
// never taken for all of it.
#include "fleet/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/contain.h"
#include "database/database.h"

namespace flyball {
namespace {

constexpr std::int64_t kFormat = 1;
constexpr std::size_t kMostWaiting = 600;  // batches, one a second
constexpr std::int64_t kMinute = 60;
constexpr std::int64_t kHour = 3600;
constexpr std::int64_t kDay = 24 * kHour;
constexpr std::int64_t kYear = 366 * kDay;

struct Keep {
  HistoryStep step;
  std::int64_t seconds;  // how long its rows are kept
};
constexpr std::array<Keep, 3> kKept = {
    {{HistoryStep::kSeconds, kHour}, {HistoryStep::kMinutes, 31 * kDay}, {HistoryStep::kHours, 5 * kYear}}};

std::int64_t seconds_of(HistoryStep step) { return std::llround(length_of(step).value()); }

std::int64_t floor_to(std::int64_t time, std::int64_t step) { return time - time % step; }

std::int64_t ceil_to(std::int64_t time, std::int64_t step) { return floor_to(time + step - 1, step); }

Seconds unix_time(std::int64_t time) { return Seconds(static_cast<double>(time)); }

std::int64_t bound(Seconds time) { return static_cast<std::int64_t>(std::floor(std::clamp(time.value(), 0.0, 1e12))); }

// The step of the finest rows of `time` that there are at `now`.
std::int64_t kept_step(std::int64_t time, std::int64_t now) {
  for (const Keep& keep : kKept) {
    if (time >= now - keep.seconds) return seconds_of(keep.step);
  }
  return kHour;
}

const char* sql_of(Coarser coarser) {
  return coarser == Coarser::kHighest ? "max" : coarser == Coarser::kSum ? "sum" : "avg";
}

}  // namespace

class History::Tables {
 public:
  Tables(const std::string& path, std::vector<HistoryTable> tables)
      : database_(path.empty() ? ":memory:" : path), tables_(std::move(tables)) {
    database_.begin_writing();
    database_.execute("PRAGMA synchronous=NORMAL");
    refuse_other_files();
    // As a whole: tables without their format's number would be another program's to the next server.
    database_.execute("BEGIN");
    database_.execute(
        "CREATE TABLE IF NOT EXISTS sources(source INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT "
        "NULL, UNIQUE(kind, name))");
    database_.execute(
        "CREATE TABLE IF NOT EXISTS events(event INTEGER PRIMARY KEY, source INTEGER NOT NULL, time INTEGER "
        "NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL)");
    database_.execute("CREATE INDEX IF NOT EXISTS events_of_source ON events(source, time)");
    for (const HistoryTable& table : tables_) prepare(table);
    allocations_.emplace(database_);
    note_.emplace(database_, "INSERT INTO events(source, time, kind, text) VALUES(?, ?, ?, ?)");
    trim_.emplace(database_,
                  "DELETE FROM events WHERE source=?1 AND event<=(SELECT event FROM events WHERE source=?1 "
                  "ORDER BY event DESC LIMIT 1 OFFSET ?2)");
    drop_events_.emplace(database_, "DELETE FROM events WHERE time<?");
    told_.emplace(database_,
                  "SELECT time, kind, text FROM events WHERE source=? AND time>=? AND time<? ORDER BY event");
    database_.execute(fmt::format("PRAGMA user_version={}; COMMIT", kFormat).c_str());
    read_sources();
    for (std::size_t table = 0; table < tables_.size(); ++table) {
      for (const auto& [name, source] : made_[table].sources) made_[table].fresh.insert(source);
    }
  }

  void write(std::int64_t time, const std::vector<Sample>& samples, const std::vector<Event>& events,
             const std::vector<HeldGpus>& held) {
    const std::int64_t minute = floor_to(time, kMinute);
    transaction([&] {
      for (const Sample& sample : samples) {
        Made& table = made_[sample.table];
        const std::int64_t source = source_of(sample.table, sample.source);
        table.fresh.insert(source);
        table.insert->bind(1, source).bind(2, time);
        for (std::size_t i = 0; i < sample.figures.size(); ++i) {
          const auto column = static_cast<int>(i) + 3;
          sample.figures[i] ? table.insert->bind(column, *sample.figures[i]) : table.insert->bind_nothing(column);
        }
        table.insert->run();
      }
      for (const Event& event : events) {
        const std::int64_t source = source_of(event.table, event.source);
        note_->bind(1, source).bind(2, time).bind(3, event.kind).bind(4, event.text).run();
        trim_->bind(1, source).bind(2, kMostEvents).run();
      }
      for (const HeldGpus& node : held) allocations_->note(node);
      if (minute == rolled_) return;
      roll(minute);
      if (floor_to(minute, kHour) != floor_to(rolled_, kHour)) drop(time);
    });
    if (minute == rolled_) return;
    rolled_ = minute;
    for (Made& table : made_) table.fresh.clear();
    for (const Sample& sample : samples) made_[sample.table].fresh.insert(source_of(sample.table, sample.source));
  }

  FleetAllocations allocations(Seconds from, Seconds until) { return allocations_->read(from, until); }

  Rows read(std::size_t table, const std::string& name, std::int64_t from, std::int64_t until, HistoryStep step) {
    Rows rows;
    rows.step = step;
    const auto known = made_[table].sources.find(name);
    if (known == made_[table].sources.end()) return rows;
    Statement& select = *made_[table].select;
    select.bind(1, seconds_of(step)).bind(2, known->second).bind(3, from).bind(4, until);
    while (select.next()) {
      Row& row = rows.rows.emplace_back();
      row.time = Seconds(static_cast<double>(select.integer(0)));
      for (std::size_t i = 0; i < tables_[table].columns.size(); ++i) {
        row.figures.push_back(select.number_or_nothing(static_cast<int>(i) + 1));
      }
    }
    told_->bind(1, known->second).bind(2, from).bind(3, until);
    while (told_->next()) {
      rows.events.push_back(
          {table, {}, told_->text(1), told_->text(2), Seconds(static_cast<double>(told_->integer(0)))});
    }
    return rows;
  }

  Total total(std::size_t table, const std::string& name, std::int64_t from, std::int64_t until, std::int64_t now) {
    from = floor_to(from, kept_step(from, now));
    until = ceil_to(until, kept_step(until, now));
    Total total{unix_time(from), unix_time(until), HistoryFigures(tables_[table].columns.size())};
    const auto known = made_[table].sources.find(name);
    if (known == made_[table].sources.end()) return total;
    Statement& newest = *made_[table].newest_minute;
    newest.bind(1, known->second);
    std::int64_t rolled = 0;
    while (newest.next()) rolled = newest.integer(0) + kMinute;
    add_up(total, *made_[table].sum, known->second, kKept.size() - 1, from, until, rolled);
    return total;
  }

 private:
  // Adds the rows of the coarsest steps up to kKept[kept] that lie within [from, until) as a whole, and finer ones
  // before and behind them. `rolled`: until when coarser rows are made.
  static void add_up(Total& total, Statement& sum, std::int64_t source, std::size_t kept, std::int64_t from,
                     std::int64_t until, std::int64_t rolled) {
    if (from >= until) return;
    const std::int64_t step = seconds_of(kKept[kept].step);
    const std::int64_t first = ceil_to(from, step);
    const std::int64_t last = kept == 0 ? until : floor_to(std::min(until, rolled), step);
    if (first >= last) return add_up(total, sum, source, kept - 1, from, until, rolled);
    sum.bind(1, step).bind(2, source).bind(3, first).bind(4, last);
    while (sum.next()) {
      for (std::size_t i = 0; i < total.sums.size(); ++i) {
        const auto more = sum.number_or_nothing(static_cast<int>(i));
        if (more) total.sums[i] = total.sums[i].value_or(0.0) + *more;
      }
    }
    if (kept == 0) return;
    add_up(total, sum, source, kept - 1, from, first, rolled);
    add_up(total, sum, source, kept - 1, last, until, rolled);
  }

  // What there is for one kind of source.
  struct Made {
    std::map<std::string, std::int64_t> sources;
    std::set<std::int64_t> fresh;  // those with rows from which no coarser ones are made yet
    std::unique_ptr<Statement> insert;
    std::unique_ptr<Statement> select;
    std::unique_ptr<Statement> sum;
    std::unique_ptr<Statement> oldest;
    std::unique_ptr<Statement> newest_minute;
    std::unique_ptr<Statement> roll;
    std::unique_ptr<Statement> drop;
    std::unique_ptr<Statement> forget;
  };

  void refuse_other_files() {
    Statement version(database_, "PRAGMA user_version");
    Statement count(database_, "SELECT count(*) FROM sqlite_master");
    const std::int64_t format = version.next() ? version.integer(0) : 0;
    const bool is_empty = count.next() && count.integer(0) == 0;
    if (format == kFormat || (format == 0 && is_empty)) return;
    throw InputError({database_.path()}, "is no history of this version of Flyball", "name another file (--history)");
  }

  void prepare(const HistoryTable& table) {
    std::string declared;
    std::string names;
    std::string places;
    std::string rolled;
    std::string sums;
    for (const HistoryTable::Column& column : table.columns) {
      declared += fmt::format(", {} REAL", column.name);
      names += fmt::format(", {}", column.name);
      places += ", ?";
      rolled += fmt::format(", {}({})", sql_of(column.coarser), column.name);
      sums += (sums.empty() ? "" : ", ");
      sums += column.coarser == Coarser::kSum ? fmt::format("sum({})", column.name) : "NULL";
    }
    database_.execute(fmt::format("CREATE TABLE IF NOT EXISTS {}(step INTEGER NOT NULL, source INTEGER NOT NULL, time "
                                  "INTEGER NOT NULL{}, PRIMARY KEY(step, source, time)) WITHOUT ROWID",
                                  table.name, declared)
                          .c_str());
    for (const HistoryTable::Column& column : table.columns) {
      database_.add_column_if_missing(table.name, column.name, "REAL");
    }
    const auto statement = [this](const std::string& sql) { return std::make_unique<Statement>(database_, sql); };
    Made& made = made_.emplace_back();
    made.insert = statement(
        fmt::format("INSERT OR REPLACE INTO {}(step, source, time{}) VALUES(1, ?, ?{})", table.name, names, places));
    made.select = statement(fmt::format(
        "SELECT time{} FROM {} WHERE step=?1 AND source=?2 AND time>=?3 AND time<?4 ORDER BY time", names, table.name));
    made.sum = statement(
        fmt::format("SELECT {} FROM {} WHERE step=?1 AND source=?2 AND time>=?3 AND time<?4", sums, table.name));
    made.newest_minute = statement(
        fmt::format("SELECT time FROM {} WHERE step=60 AND source=?1 ORDER BY time DESC LIMIT 1", table.name));
    made.oldest = statement(fmt::format("SELECT time FROM {} WHERE step=1 AND source=?1 LIMIT 1", table.name));
    made.roll = statement(
        fmt::format("INSERT OR REPLACE INTO {0}(step, source, time{1}) SELECT ?1, source, time/?1*?1{2} FROM {0} WHERE "
                    "step=?2 AND source=?3 AND time>=?4 AND time<?5 GROUP BY time/?1",
                    table.name, names, rolled));
    made.drop = statement(fmt::format("DELETE FROM {} WHERE step=?1 AND source=?2 AND time<?3", table.name));
    std::string empty = " AND NOT EXISTS(SELECT 1 FROM events WHERE events.source=sources.source)";
    for (const Keep& keep : kKept) {
      empty += fmt::format(" AND NOT EXISTS(SELECT 1 FROM {} AS rows WHERE step={} AND rows.source=sources.source)",
                           table.name, seconds_of(keep.step));
    }
    made.forget = statement(fmt::format("DELETE FROM sources WHERE kind='{}'{}", table.name, empty));
  }

  void read_sources() {
    for (std::size_t table = 0; table < tables_.size(); ++table) {
      made_[table].sources.clear();
      Statement known(database_, "SELECT source, name FROM sources WHERE kind=?");
      known.bind(1, std::string_view(tables_[table].name));
      while (known.next()) made_[table].sources[known.text(1)] = known.integer(0);
    }
  }

  std::int64_t source_of(std::size_t table, const std::string& name) {
    const auto known = made_[table].sources.find(name);
    if (known != made_[table].sources.end()) return known->second;
    Statement insert(database_, "INSERT INTO sources(kind, name) VALUES(?, ?) RETURNING source");
    insert.bind(1, std::string_view(tables_[table].name)).bind(2, std::string_view(name));
    (void)insert.next();
    const std::int64_t source = insert.integer(0);
    (void)insert.next();
    return made_[table].sources[name] = source;
  }

  // Makes the rows of the minutes before `minute`, and of the hours that hold them, of sources with finer ones.
  void roll(std::int64_t minute) {
    for (Made& made : made_) {
      for (const std::int64_t source : made.fresh) {
        std::int64_t first = std::min(rolled_, minute) - 3 * kMinute;
        if (rolled_ == 0) {
          made.oldest->bind(1, source);
          first = minute;
          while (made.oldest->next()) first = floor_to(made.oldest->integer(0), kMinute);
        }
        made.roll->bind(1, kMinute).bind(2, std::int64_t{1}).bind(3, source).bind(4, first).bind(5, minute).run();
        made.roll->bind(1, kHour)
            .bind(2, kMinute)
            .bind(3, source)
            .bind(4, floor_to(first, kHour))
            .bind(5, minute)
            .run();
      }
    }
  }

  void drop(std::int64_t now) {
    drop_events_->bind(1, now - kKept.back().seconds).run();
    allocations_->drop(Seconds(static_cast<double>(now)));
    for (Made& made : made_) {
      for (const auto& [name, source] : made.sources) {
        for (const Keep& keep : kKept) {
          const std::int64_t end = floor_to(now - keep.seconds, keep.step == HistoryStep::kSeconds ? kMinute : kHour);
          made.drop->bind(1, seconds_of(keep.step)).bind(2, source).bind(3, end).run();
        }
      }
      made.forget->run();
    }
    read_sources();
  }

  template <class Body>
  void transaction(const Body& body) {
    database_.execute("BEGIN IMMEDIATE");
    try {
      body();
      database_.execute("COMMIT");
    } catch (...) {
      contained("taking back what a history could not write", [&] {
        if (database_.in_transaction()) database_.execute("ROLLBACK");
        read_sources();
        allocations_->reload();
      });
      throw;
    }
  }

  Database database_;
  std::vector<HistoryTable> tables_;
  std::vector<Made> made_;  // by table
  std::optional<Statement> note_;
  std::optional<Statement> trim_;
  std::optional<Statement> told_;
  std::optional<Statement> drop_events_;
  std::optional<AllocationTable> allocations_;
  std::int64_t rolled_ = 0;  // the minute up to which coarser rows are made; 0: this process has made none
};

HistoryStep History::step_of(Seconds from, Seconds until, Seconds now) {
  for (const Keep& keep : kKept) {
    const bool reaches = from.value() >= now.value() - static_cast<double>(keep.seconds) - 1.0;
    if (reaches && (until - from).value() <= static_cast<double>(kMostRows * seconds_of(keep.step))) return keep.step;
  }
  return HistoryStep::kHours;
}

History::History(const std::string& path, std::vector<HistoryTable> tables) {
  try {
    tables_ = std::make_unique<Tables>(path, std::move(tables));
  } catch (const DatabaseError& error) {
    if (!error.damaged()) throw;
    throw InputError({path}, error.what(), "delete the file, or name another one (--history); only the past is lost");
  }
  thread_ = std::thread([this] { work(); });
}

History::~History() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void History::add(Seconds time, std::vector<Sample> samples, std::vector<Event> events, std::vector<HeldGpus> held) {
  if (samples.empty() && events.empty() && held.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    if (batches_.size() >= kMostWaiting) batches_.pop_front();
    batches_.push_back({time, std::move(samples), std::move(events), std::move(held)});
  }
  changed_.notify_one();
}

template <class Found>
void History::have(std::function<Found()> find, std::function<void(Found, std::exception_ptr)> done) {
  {
    const std::lock_guard lock(mutex_);
    reads_.push_back([find = std::move(find), done = std::move(done)] {
      Found found;
      std::exception_ptr error;
      try {
        found = find();
      } catch (...) {
        error = std::current_exception();
      }
      done(std::move(found), error);
    });
  }
  changed_.notify_one();
}

void History::read(std::size_t table, std::string source, Seconds from, Seconds until, Seconds now, Done done) {
  const HistoryStep step = step_of(from, until, now);
  have<Rows>([this, table, source = std::move(source), step, begin = floor_to(bound(from), seconds_of(step)),
              end = bound(until)] { return tables_->read(table, source, begin, end, step); },
             std::move(done));
}

void History::total(std::size_t table, std::string source, Seconds from, Seconds until, Seconds now, TotalDone done) {
  have<Total>([this, table, source = std::move(source), begin = bound(from), end = bound(until),
               at = bound(now)] { return tables_->total(table, source, begin, end, at); },
              std::move(done));
}

void History::read_allocations(Seconds from, Seconds until, AllocationsDone done) {
  have<FleetAllocations>([this, from, until] { return tables_->allocations(from, until); }, std::move(done));
}

void History::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !batches_.empty() || !reads_.empty(); });
    if (!batches_.empty()) {
      const Batch batch = std::move(batches_.front());
      batches_.pop_front();
      lock.unlock();
      contained("writing a history", [&] {
        tables_->write(std::llround(std::floor(batch.time.value())), batch.samples, batch.events, batch.held);
      });
      lock.lock();
    } else if (!reads_.empty()) {
      const auto read = std::move(reads_.front());
      reads_.pop_front();
      lock.unlock();
      contained("reading a history", read);
      lock.lock();
    } else if (stopping_) {
      return;
    }
  }
}

}  // namespace flyball
