// Requests and ranks are kept as the JSON of their messages, numbers in columns of their own. Statements are prepared
// once, by the address of their text. An older format is brought up to date on opening, by adding what it lacks.
#include "server/store_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/json_object.h"
#include "base/record.h"
#include "base/text.h"
#include "base/wall_clock.h"

namespace flyball {
namespace {

// Format 1 had no table adjusted. Formats 1 and 2 had one table of sums: a rank that was measuring continues, and what
// there is also counts as its last sweep. Formats 1 to 3 did not know which plan file a job runs, nor when it was last
// heard; formats 1 to 4 did not know who had registered it, formats 1 to 5 not which orders its ranks do not run,
// formats 1 to 6 no limits but those of the registration, formats 1 to 7 no savings, formats 1 to 8 not by how much the
// runs of a measurement differ, and formats 1 to 9 not which clocks a job was ordered to run at.
constexpr std::int64_t kFormat = 10;

constexpr const char* kTables = R"(
CREATE TABLE IF NOT EXISTS jobs(
  job INTEGER PRIMARY KEY, kind INTEGER NOT NULL, request TEXT NOT NULL, token BLOB NOT NULL,
  version INTEGER NOT NULL, frontier_version INTEGER NOT NULL, fingerprint INTEGER NOT NULL,
  given_plan INTEGER NOT NULL DEFAULT 0, heard REAL NOT NULL DEFAULT 0, party TEXT NOT NULL DEFAULT '',
  order_seen INTEGER NOT NULL DEFAULT 0, limits TEXT NOT NULL DEFAULT '',
  ordered_maximum INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS ranks(
  job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE, rank INTEGER NOT NULL, body TEXT NOT NULL,
  last_sequence INTEGER NOT NULL, profiled INTEGER NOT NULL, PRIMARY KEY(job, rank)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sums(
  job INTEGER NOT NULL, rank INTEGER NOT NULL, instruction TEXT NOT NULL, clock_mhz REAL NOT NULL,
  samples REAL NOT NULL, time_s REAL NOT NULL, energy_j REAL NOT NULL, squares_s2 REAL NOT NULL DEFAULT 0,
  PRIMARY KEY(job, rank, instruction, clock_mhz),
  FOREIGN KEY(job, rank) REFERENCES ranks ON DELETE CASCADE) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS collected(
  job INTEGER NOT NULL, rank INTEGER NOT NULL, instruction TEXT NOT NULL, clock_mhz REAL NOT NULL,
  samples REAL NOT NULL, time_s REAL NOT NULL, energy_j REAL NOT NULL, squares_s2 REAL NOT NULL DEFAULT 0,
  PRIMARY KEY(job, rank, instruction, clock_mhz),
  FOREIGN KEY(job, rank) REFERENCES ranks ON DELETE CASCADE) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notices(
  job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE, straggler TEXT NOT NULL, sequence INTEGER NOT NULL,
  degree REAL NOT NULL, due REAL NOT NULL, PRIMARY KEY(job, straggler, sequence)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS adjusted(
  job INTEGER PRIMARY KEY REFERENCES jobs ON DELETE CASCADE, measurements INTEGER NOT NULL, finished INTEGER NOT NULL,
  clocks_mhz TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS savings(
  job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE, rank INTEGER NOT NULL, session INTEGER NOT NULL,
  promised_j REAL NOT NULL, earlier TEXT NOT NULL, now TEXT NOT NULL, PRIMARY KEY(job, rank)) WITHOUT ROWID;
INSERT INTO collected(job, rank, instruction, clock_mhz, samples, time_s, energy_j)
  SELECT job, rank, instruction, clock_mhz, samples, time_s, energy_j FROM sums JOIN ranks USING(job, rank)
  WHERE profiled=0 AND (SELECT user_version FROM pragma_user_version) BETWEEN 1 AND 2;
)";

// A column that older formats do not have.
struct NewColumn {
  const char* table;
  const char* name;
  const char* type;
};
constexpr NewColumn kNewColumns[] = {
    {"jobs", "given_plan", "INTEGER NOT NULL DEFAULT 0"},   {"jobs", "heard", "REAL NOT NULL DEFAULT 0"},
    {"jobs", "party", "TEXT NOT NULL DEFAULT ''"},          {"jobs", "order_seen", "INTEGER NOT NULL DEFAULT 0"},
    {"jobs", "limits", "TEXT NOT NULL DEFAULT ''"},         {"sums", "squares_s2", "REAL NOT NULL DEFAULT 0"},
    {"collected", "squares_s2", "REAL NOT NULL DEFAULT 0"}, {"jobs", "ordered_maximum", "INTEGER NOT NULL DEFAULT 0"},
};

// The key is "3" for rank 3, and "/name" for anything else.
std::string key_of(const StragglerId& id) {
  return std::holds_alternative<int>(id) ? std::to_string(std::get<int>(id)) : "/" + std::get<std::string>(id);
}

StragglerId straggler_of(const std::string& key) {
  if (key.starts_with('/')) return key.substr(1);
  const auto rank = parse_integer(key);
  if (!rank || *rank < 0 || *rank >= kMostRanks) throw Error(fmt::format("'{}' is no straggler", key));
  return static_cast<int>(*rank);
}

// The numbers in the order of RankSavings, as a list.
std::string text_of(const RankSavings& savings) {
  return nlohmann::json{savings.iterations,        savings.energy.value(),          savings.energy_at_maximum.value(),
                        savings.time.value(),      savings.time_at_maximum.value(), savings.energy_error.value(),
                        savings.time_error.value()}
      .dump();
}

RankSavings savings_of(const std::string& text) {
  const nlohmann::json list = parse_json("its JSON", text);
  const bool good = list.is_array() && list.size() == 7 &&
                    std::all_of(list.begin(), list.end(), [](const auto& one) { return one.is_number(); });
  if (!good) throw Error("is no list of seven numbers");
  const auto number = [&](std::size_t index) { return list[index].get<double>(); };
  return {list[0].get<std::int64_t>(), Joules(number(1)), Joules(number(2)), Seconds(number(3)),
          Seconds(number(4)),          Joules(number(5)), Seconds(number(6))};
}

double positive(double value, const char* column) {
  if (!(value > 0.0) || !std::isfinite(value)) throw Error(fmt::format("column {} holds {}", column, value));
  return value;
}

double not_negative(double value, const char* column) {
  if (!(value >= 0.0) || !std::isfinite(value)) throw Error(fmt::format("column {} holds {}", column, value));
  return value;
}

}  // namespace

StoreTables::StoreTables(const std::string& path) : database_(path.empty() ? ":memory:" : path) {
  Statement format(database_, "PRAGMA user_version");
  format.next();
  const std::int64_t found = format.integer(0);
  format.next();
  if (found < 0 || found > kFormat) {
    throw InputError({path}, fmt::format("this database has format {}, this program writes {}", found, kFormat),
                     "use the program that wrote it, or name another file");
  }
  Statement others(database_,
                   "SELECT name FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite_%' AND "
                   "name NOT IN ('jobs','ranks','sums','collected','notices','adjusted','savings') ORDER BY name");
  if (others.next()) {
    throw InputError({path}, fmt::format("is another program's database: it has a table {}", others.text(0)),
                     "name another file (--database)");
  }
  database_.begin_writing();
  database_.execute("BEGIN");
  database_.execute(kTables);
  for (const NewColumn& column : kNewColumns) {
    database_.add_column_if_missing(column.table, column.name, column.type);
  }
  database_.execute(fmt::format("PRAGMA user_version={}; COMMIT", kFormat).c_str());
}

void StoreTables::commit(std::span<const Store::Group> batch) {
  const auto is_barrier = [](const Store::Entry& entry) { return std::holds_alternative<StoreBarrier>(entry.write); };
  const bool all_barriers = std::all_of(batch.begin(), batch.end(), [&](const Store::Group& group) {
    return std::all_of(group.begin(), group.end(), is_barrier);
  });
  if (all_barriers) return;
  database_.execute("BEGIN IMMEDIATE");
  for (const Store::Group& group : batch) {
    for (const Store::Entry& entry : group) std::visit([&](const auto& what) { write(what); }, entry.write);
  }
  database_.execute("COMMIT");
}

void StoreTables::roll_back() {
  // A full disk may have caused a rollback already.
  if (database_.in_transaction()) database_.execute("ROLLBACK");
  // Moves the log into the database, whose free pages may hold what the log has no room for.
  database_.execute("PRAGMA wal_checkpoint(TRUNCATE)");
}

Statement& StoreTables::statement(const char* sql) {
  auto& found = statements_[sql];
  if (!found) found = std::make_unique<Statement>(database_, sql);
  return *found;
}

void StoreTables::write(const StoredJob& job) {
  JobRequest request = job.request;
  request.token.clear();
  const std::string body = to_json(request).dump();
  statement(
      "INSERT INTO jobs(job,kind,request,token,version,frontier_version,fingerprint,given_plan,heard,party) "
      "VALUES(?,?,?,?,?,?,?,?,?,?)")
      .bind(1, job.job)
      .bind(2, std::int64_t{job.kind == JobKind::kZeus ? 1 : 0})
      .bind(3, std::string_view(body))
      .bind_bytes(4, job.token)
      .bind(5, job.version)
      .bind(6, job.frontier_version)
      .bind(7, std::bit_cast<std::int64_t>(job.fingerprint))
      .bind(8, std::bit_cast<std::int64_t>(job.given_plan))
      .bind(9, job.heard)
      .bind(10, std::string_view(job.party))
      .run();
}

void StoreTables::write(const StoredRank& rank) {
  const std::string body = to_json(rank.rank).dump();
  statement("INSERT INTO ranks VALUES(?,?,?,?,?) ON CONFLICT DO UPDATE SET body=excluded.body")
      .bind(1, rank.job)
      .bind(2, std::int64_t{rank.rank.rank})
      .bind(3, std::string_view(body))
      .bind(4, rank.last_sequence)
      .bind(5, std::int64_t{rank.profiled})
      .run();
}

void StoreTables::write(const StoredReport& stored) {
  const MeasurementReport& report = stored.report;
  take_up_sweep(stored.job, report.rank);
  statement("UPDATE ranks SET last_sequence=?, profiled=0 WHERE job=? AND rank=?")
      .bind(1, report.sequence)
      .bind(2, stored.job)
      .bind(3, std::int64_t{report.rank})
      .run();
  if (report.begins_sweep) {
    statement("DELETE FROM collected WHERE job=? AND rank=?")
        .bind(1, stored.job)
        .bind(2, std::int64_t{report.rank})
        .run();
  }
  Statement& add = statement(
      "INSERT INTO collected VALUES(?,?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET samples=samples+excluded.samples, "
      "time_s=time_s+excluded.time_s, energy_j=energy_j+excluded.energy_j, squares_s2=squares_s2+excluded.squares_s2");
  for (const InstructionMeasurement& one : report.measurements) {
    const auto samples = static_cast<double>(one.samples);
    add.bind(1, stored.job)
        .bind(2, std::int64_t{report.rank})
        .bind(3, std::string_view(one.instruction))
        .bind(4, one.clock.value())
        .bind(5, samples)
        .bind(6, one.time.value() * samples)
        .bind(7, one.energy.value() * samples)
        .bind(8, squares_of(one))
        .run();
  }
}

void StoreTables::write(const StoredProfiled& profiled) {
  for (const int rank : profiled.ranks) {
    statement("UPDATE ranks SET profiled=1 WHERE job=? AND rank=?")
        .bind(1, profiled.job)
        .bind(2, std::int64_t{rank})
        .run();
  }
}

void StoreTables::write(const StoredSweeps& sweeps) {
  for (const int rank : sweeps.ranks) take_up_sweep(sweeps.job, rank);
}

// Does in the tables what Job::take_up_sweep() does.
void StoreTables::take_up_sweep(std::int64_t job, int rank) {
  for (const char* sql :
       {"DELETE FROM sums WHERE job=?1 AND rank=?2 AND instruction IN (SELECT instruction FROM collected WHERE "
        "job=?1 AND rank=?2 UNION SELECT 'waiting' FROM collected WHERE job=?1 AND rank=?2 UNION "
        "SELECT instruction || '.first' FROM collected WHERE job=?1 AND rank=?2 UNION "
        "SELECT instruction || '.last' FROM collected WHERE job=?1 AND rank=?2) AND (SELECT profiled "
        "FROM ranks WHERE job=?1 AND rank=?2)",
        "INSERT INTO sums SELECT * FROM collected WHERE job=?1 AND rank=?2 AND (SELECT profiled FROM ranks WHERE "
        "job=?1 AND rank=?2)",
        "DELETE FROM collected WHERE job=?1 AND rank=?2 AND (SELECT profiled FROM ranks WHERE job=?1 AND rank=?2)"}) {
    statement(sql).bind(1, job).bind(2, std::int64_t{rank}).run();
  }
}

void StoreTables::write(const StoredNotice& notice) {
  const std::string straggler = key_of(notice.straggler);
  // Notices older than the one in force will never be needed again.
  statement(
      "DELETE FROM notices WHERE job=?1 AND straggler=?2 AND sequence < (SELECT max(sequence) FROM notices WHERE "
      "job=?1 AND straggler=?2 AND due<=?3)")
      .bind(1, notice.job)
      .bind(2, std::string_view(straggler))
      .bind(3, now_seconds())
      .run();
  const auto insert = [&](std::int64_t sequence, double degree, double due) {
    statement("INSERT OR IGNORE INTO notices VALUES(?,?,?,?,?)")
        .bind(1, notice.job)
        .bind(2, std::string_view(straggler))
        .bind(3, sequence)
        .bind(4, degree)
        .bind(5, due)
        .run();
  };
  insert(notice.sequence, notice.degree, notice.due);
  if (notice.until) insert(notice.sequence + 1, 1.0, *notice.until);
}

void StoreTables::write(const StoredVersion& version) {
  statement("UPDATE jobs SET version=?, frontier_version=?, fingerprint=? WHERE job=?")
      .bind(1, version.version)
      .bind(2, version.frontier_version)
      .bind(3, std::bit_cast<std::int64_t>(version.fingerprint))
      .bind(4, version.job)
      .run();
  if (!version.adjusted) return;
  nlohmann::json stages = nlohmann::json::array();
  for (const std::vector<Megahertz>& clocks : version.adjusted->clocks) {
    nlohmann::json& stage = stages.emplace_back(nlohmann::json::array());
    for (const Megahertz clock : clocks) stage.push_back(clock.value());
  }
  const std::string clocks = stages.dump();
  statement("INSERT OR REPLACE INTO adjusted VALUES(?,?,?,?)")
      .bind(1, version.job)
      .bind(2, std::bit_cast<std::int64_t>(version.adjusted->measurements))
      .bind(3, std::int64_t{version.adjusted->finished})
      .bind(4, std::string_view(clocks))
      .run();
}

void StoreTables::write(const StoredHeard& stored) {
  for (const StoredHeard::One& one : stored.jobs) {
    statement("UPDATE jobs SET heard=? WHERE job=?").bind(1, one.heard).bind(2, one.job).run();
  }
}

void StoreTables::write(const StoredGivenPlan& stored) {
  statement("UPDATE jobs SET given_plan=? WHERE job=?")
      .bind(1, std::bit_cast<std::int64_t>(stored.given_plan))
      .bind(2, stored.job)
      .run();
}

void StoreTables::write(const StoredOrderSeen& stored) {
  statement("UPDATE jobs SET order_seen=? WHERE job=?")
      .bind(1, static_cast<std::int64_t>(stored.seen))
      .bind(2, stored.job)
      .run();
}

void StoreTables::write(const StoredLimits& stored) {
  const std::string limits = to_json(stored.limits).dump();
  statement("UPDATE jobs SET limits=? WHERE job=?").bind(1, std::string_view(limits)).bind(2, stored.job).run();
}

void StoreTables::write(const StoredClocksOrder& stored) {
  statement("UPDATE jobs SET ordered_maximum=? WHERE job=?")
      .bind(1, std::int64_t{stored.order.at_maximum})
      .bind(2, stored.job)
      .run();
}

void StoreTables::write(const StoredSavings& stored) {
  const std::string earlier = text_of(stored.earlier);
  const std::string now = text_of(stored.now);
  // A job may have been deleted since.
  statement("INSERT OR REPLACE INTO savings SELECT ?1,?2,?3,?4,?5,?6 WHERE EXISTS (SELECT 1 FROM jobs WHERE job=?1)")
      .bind(1, stored.job)
      .bind(2, std::int64_t{stored.rank})
      .bind(3, stored.session)
      .bind(4, stored.promised.value())
      .bind(5, std::string_view(earlier))
      .bind(6, std::string_view(now))
      .run();
}

void StoreTables::write(const DeletedJob& deleted) {
  statement("DELETE FROM jobs WHERE job=?").bind(1, deleted.job).run();
}

std::vector<LoadedJob> StoreTables::load() {
  std::vector<LoadedJob> jobs;
  Statement rows(database_,
                 "SELECT job,kind,request,token,version,frontier_version,fingerprint,given_plan,heard,party,"
                 "order_seen,limits,ordered_maximum FROM jobs ORDER BY job");
  while (rows.next()) {
    LoadedJob job;
    job.job.job = rows.integer(0);
    RowPlace place;
    try {
      load_job(rows, job, place);
      load_ranks(job, place);
      load_sums(job, place, "sums", &LoadedRank::sums);
      load_sums(job, place, "collected", &LoadedRank::collected);
      load_notices(job, place);
      load_adjusted(job, place);
      load_savings(job, place);
    } catch (const DatabaseError&) {
      throw;
    } catch (const Error& error) {  // a damaged row must not keep the other jobs from running
      const std::string& id = job.job.request.id;
      job.trouble = fmt::format(
          "{}: table {}{}{}: {}\n  To forget this job: stop the server, then sqlite3 {} 'PRAGMA foreign_keys=ON; "
          "DELETE "
          "FROM jobs WHERE job={}'",
          database_.path(), place.row, *place.column == '\0' ? "" : ", column ", place.column, error.what(),
          database_.path(), job.job.job);
      StoredJob left;
      left.job = job.job.job;
      left.request.id = id;
      job = LoadedJob{std::move(left), std::move(job.trouble), {}, {}, {}};
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
}

void StoreTables::load_job(Statement& row, LoadedJob& loaded, RowPlace& place) {
  StoredJob& job = loaded.job;
  place.row = fmt::format("jobs, job {}", job.job);
  const std::string request = row.text(2);
  place.column = "request";
  const nlohmann::json json = parse_json("its JSON", request);
  // The id is useful in messages, even if the request is damaged elsewhere.
  if (json.is_object() && json.contains("id") && json["id"].is_string()) job.request.id = json["id"];
  job.request = read_message<JobRequest>(json);
  if (job.request.id.empty()) throw Error("has no id");
  place.row = fmt::format("jobs, job {} ({})", job.job, job.request.id);
  place.column = "";
  job.kind = row.integer(1) == 1 ? JobKind::kZeus : JobKind::kOwn;
  const auto token = row.bytes(3);
  if (token.size() != job.token.size()) throw Error(fmt::format("column token holds {} bytes", token.size()));
  std::copy(token.begin(), token.end(), job.token.begin());
  job.version = row.integer(4);
  job.frontier_version = row.integer(5);
  if (job.version < 0 || job.frontier_version < 0 || job.frontier_version > job.version) {
    throw Error(
        fmt::format("versions {} and {} of schedules and frontier do not fit", job.version, job.frontier_version));
  }
  job.fingerprint = std::bit_cast<std::uint64_t>(row.integer(6));
  job.given_plan = std::bit_cast<std::uint64_t>(row.integer(7));
  job.heard = row.number(8);
  job.party = row.text(9);
  const std::int64_t seen = row.integer(10);
  if (seen < 0 || seen > static_cast<std::int64_t>(OrderSeen::kNotAsScheduled)) {
    throw Error(fmt::format("column order_seen holds {}", seen));
  }
  job.order_seen = static_cast<OrderSeen>(seen);
  const std::string limits = row.text(11);
  place.column = "limits";
  if (!limits.empty()) job.limits = read_message<JobLimits>(parse_json("its JSON", limits));
  place.column = "";
  job.ordered_maximum = row.integer(12) != 0;
}

void StoreTables::load_ranks(LoadedJob& job, RowPlace& place) {
  Statement rows(database_, "SELECT rank,body,last_sequence,profiled FROM ranks WHERE job=? ORDER BY rank");
  rows.bind(1, job.job.job);
  while (rows.next()) {
    place.row = fmt::format("ranks, job {} ({}), rank {}", job.job.job, job.job.request.id, rows.integer(0));
    const std::string body = rows.text(1);
    place.column = "body";
    const RankRequest rank = read_message<RankRequest>(parse_json("its JSON", body));
    if (rank.rank != rows.integer(0)) throw Error(fmt::format("is of rank {}", rank.rank));
    place.column = "";
    job.ranks.push_back({{job.job.job, rank, rows.integer(2), rows.integer(3) != 0}, {}, {}});
  }
}

void StoreTables::load_sums(LoadedJob& job, RowPlace& place, const char* table, MeasurementSums LoadedRank::*sums) {
  Statement rows(database_, fmt::format("SELECT rank,instruction,clock_mhz,samples,time_s,energy_j,squares_s2 FROM {} "
                                        "WHERE job=? ORDER BY rank, instruction, clock_mhz DESC",
                                        table));
  rows.bind(1, job.job.job);
  auto rank = job.ranks.begin();
  while (rows.next()) {
    const std::int64_t number = rows.integer(0);
    place.row = fmt::format("{}, job {} ({}), rank {}", table, job.job.job, job.job.request.id, number);
    while (rank != job.ranks.end() && rank->rank.rank.rank < number) ++rank;
    if (rank == job.ranks.end() || rank->rank.rank.rank != number) throw Error("the rank has not registered");
    ((*rank).*sums)
        .push_back({rows.text(1), Megahertz(rows.number(2)), positive(rows.number(3), "samples"),
                    Seconds(positive(rows.number(4), "time_s")), Joules(positive(rows.number(5), "energy_j")),
                    not_negative(rows.number(6), "squares_s2")});
  }
}

void StoreTables::load_notices(LoadedJob& job, RowPlace& place) {
  Statement rows(database_,
                 "SELECT straggler,sequence,degree,due FROM notices WHERE job=? ORDER BY straggler,sequence");
  rows.bind(1, job.job.job);
  while (rows.next()) {
    place.row = fmt::format("notices, job {} ({})", job.job.job, job.job.request.id);
    const double degree = rows.number(2);
    if (!(degree >= 1.0) || !std::isfinite(degree)) throw Error(fmt::format("column degree holds {}", degree));
    job.notices.push_back({job.job.job, straggler_of(rows.text(0)), rows.integer(1), degree, rows.number(3)});
  }
}

void StoreTables::load_adjusted(LoadedJob& job, RowPlace& place) {
  Statement rows(database_, "SELECT measurements,finished,clocks_mhz FROM adjusted WHERE job=?");
  rows.bind(1, job.job.job);
  if (!rows.next()) return;
  place.row = fmt::format("adjusted, job {} ({})", job.job.job, job.job.request.id);
  AdjustedPlan adjusted{std::bit_cast<std::uint64_t>(rows.integer(0)), rows.integer(1) != 0, {}};
  const std::string clocks = rows.text(2);
  place.column = "clocks_mhz";
  const nlohmann::json stages = parse_json("its JSON", clocks);
  const auto refuse = [] { throw Error("is no list of every stage's clocks"); };
  if (!stages.is_array()) refuse();
  for (const nlohmann::json& stage : stages) {
    if (!stage.is_array()) refuse();
    std::vector<Megahertz>& of_stage = adjusted.clocks.emplace_back();
    for (const nlohmann::json& clock : stage) {
      if (!clock.is_number()) refuse();
      of_stage.emplace_back(clock.get<double>());
    }
  }
  job.adjusted = std::move(adjusted);
}

void StoreTables::load_savings(LoadedJob& job, RowPlace& place) {
  Statement rows(database_, "SELECT rank,session,promised_j,earlier,now FROM savings WHERE job=? ORDER BY rank");
  rows.bind(1, job.job.job);
  while (rows.next()) {
    const std::int64_t rank = rows.integer(0);
    place.row = fmt::format("savings, job {} ({}), rank {}", job.job.job, job.job.request.id, rank);
    if (rank < 0 || rank >= kMostRanks) throw Error("there is no such rank");
    place.column = "earlier";
    const RankSavings earlier = savings_of(rows.text(3));
    place.column = "now";
    const RankSavings now = savings_of(rows.text(4));
    place.column = "";
    job.savings.push_back({job.job.job, static_cast<int>(rank), rows.integer(1), earlier, now, Joules(rows.number(2))});
  }
}

}  // namespace flyball
