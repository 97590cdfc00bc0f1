// The nodes of a transition are one text with commas between, which no node's name holds.
#include "controller/controller_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/text.h"

namespace flyball {
namespace {

constexpr std::int64_t kFormat = 6;
constexpr std::int64_t kApplication = 0x666c7963;  // "flyc"

constexpr const char* kTables = R"(
CREATE TABLE IF NOT EXISTS transitions(job INTEGER PRIMARY KEY, restarts INTEGER NOT NULL, nodes TEXT NOT NULL,
  gpus_per_node INTEGER NOT NULL, speed INTEGER NOT NULL, since REAL NOT NULL);
CREATE TABLE IF NOT EXISTS jobs(job INTEGER PRIMARY KEY, iteration REAL NOT NULL, iterations REAL NOT NULL,
  failures INTEGER NOT NULL, told INTEGER NOT NULL, held INTEGER NOT NULL,
  released INTEGER NOT NULL, ran INTEGER NOT NULL, reported INTEGER NOT NULL, in_doubt INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS costs(kind TEXT NOT NULL, gpus INTEGER NOT NULL, nodes INTEGER NOT NULL,
  clock_mhz REAL NOT NULL, time_s REAL NOT NULL, energy_j REAL NOT NULL,
  PRIMARY KEY(kind, gpus, nodes, clock_mhz)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS change_times(kind TEXT NOT NULL, part TEXT NOT NULL, mean_s REAL NOT NULL,
  measured INTEGER NOT NULL, PRIMARY KEY(kind, part)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS orders(one INTEGER PRIMARY KEY CHECK(one=1), budget_w REAL NOT NULL, until REAL NOT NULL,
  afterwards_w REAL NOT NULL);
CREATE TABLE IF NOT EXISTS nodes(node TEXT PRIMARY KEY, asked REAL NOT NULL, mean_s REAL NOT NULL,
  measured INTEGER NOT NULL, failed INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS shrinks(job INTEGER PRIMARY KEY, told INTEGER NOT NULL, nodes TEXT NOT NULL,
  goes_on INTEGER NOT NULL, refused INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS periods(from_s REAL PRIMARY KEY, until_s REAL NOT NULL, power_w REAL NOT NULL) WITHOUT ROWID;
)";

std::int64_t pragma(Database& database, const char* sql) {
  Statement statement(database, sql);
  const std::int64_t value = statement.next() ? statement.integer(0) : 0;
  while (statement.next()) {
  }
  return value;
}

std::vector<std::string> nodes_in(const std::string& text) {
  std::vector<std::string> nodes;
  if (text.empty()) return nodes;
  for (const std::string_view node : split_at(',', text)) nodes.emplace_back(node);
  return nodes;
}

}  // namespace

Watts PowerOrder::at(Seconds now) const {
  if (until && now < *until) return budget;
  for (const JobLimits::Period& one : periods) {
    if (one.from <= now && now < one.until) return one.power;
  }
  return until ? afterwards : budget;
}

std::optional<Seconds> PowerOrder::next_change(Seconds now) const {
  std::optional<Seconds> next;
  const auto consider = [&](Seconds time) {
    if (time > now && (!next || time < *next)) next = time;
  };
  if (until) consider(*until);
  for (const JobLimits::Period& one : periods) {
    consider(one.from);
    consider(one.until);
  }
  return next;
}

ControllerStore::ControllerStore(const std::string& path) : database_(path.empty() ? ":memory:" : path) {
  const std::int64_t application = pragma(database_, "PRAGMA application_id");
  const std::int64_t format = pragma(database_, "PRAGMA user_version");
  const std::int64_t tables = pragma(database_, "SELECT count(*) FROM sqlite_master");
  if (tables > 0 && application != kApplication) {
    throw InputError({path}, "is another program's database", "name another file (--database)");
  }
  if (format > kFormat) {
    throw InputError({path}, fmt::format("this database has format {}, this program writes {}", format, kFormat),
                     "use the program that wrote it, or name another file");
  }
  database_.begin_writing();
  in_transaction([&] {
    // Format 1 did not say who holds a job; it was we, then.
    if (tables > 0 && format < 2) database_.execute("ALTER TABLE jobs ADD COLUMN held INTEGER NOT NULL DEFAULT 1");
    if (tables > 0 && format < 3) {
      database_.execute("ALTER TABLE jobs ADD COLUMN released INTEGER NOT NULL DEFAULT -1");
      database_.execute("ALTER TABLE jobs ADD COLUMN ran INTEGER NOT NULL DEFAULT -1");
    }
    if (tables > 0 && format < 4) {
      database_.execute("ALTER TABLE jobs ADD COLUMN reported INTEGER NOT NULL DEFAULT -1");
      database_.execute("ALTER TABLE jobs ADD COLUMN in_doubt INTEGER NOT NULL DEFAULT -1");
      database_.execute("UPDATE jobs SET reported=ran");
    }
    database_.execute(kTables);
    // Until format 5 restarts had a table of their own.
    if (pragma(database_, "SELECT count(*) FROM sqlite_master WHERE name='restarts'") > 0) {
      database_.execute("INSERT INTO change_times SELECT kind, 'restart', mean_s, measured FROM restarts");
      database_.execute("DROP TABLE restarts");
    }
    database_.execute(fmt::format("PRAGMA application_id={}; PRAGMA user_version={}", kApplication, kFormat).c_str());
  });
}

template <class Write>
void ControllerStore::in_transaction(const Write& write) {
  database_.execute("BEGIN IMMEDIATE");
  try {
    write();
    database_.execute("COMMIT");
  } catch (...) {
    if (database_.in_transaction()) database_.execute("ROLLBACK");
    throw;
  }
}

std::vector<Transition> ControllerStore::transitions() {
  std::vector<Transition> all;
  Statement rows(database_, "SELECT job, restarts, nodes, gpus_per_node, speed, since FROM transitions ORDER BY job");
  while (rows.next()) {
    Transition one;
    one.job = rows.integer(0);
    one.restarts = static_cast<int>(rows.integer(1));
    one.target.nodes = nodes_in(rows.text(2));
    one.target.gpus_per_node = static_cast<int>(rows.integer(3));
    one.speed = static_cast<int>(rows.integer(4));
    one.since = Seconds(rows.number(5));
    all.push_back(std::move(one));
  }
  return all;
}

std::vector<JobRecord> ControllerStore::jobs() {
  std::vector<JobRecord> all;
  Statement rows(database_,
                 "SELECT job, iteration, iterations, failures, told, held, released, ran, reported, in_doubt FROM jobs "
                 "ORDER BY job");
  while (rows.next()) {
    all.push_back({rows.integer(0), rows.number(1), rows.number(2), static_cast<int>(rows.integer(3)),
                   static_cast<int>(rows.integer(4)), rows.integer(5) != 0, static_cast<int>(rows.integer(6)),
                   static_cast<int>(rows.integer(7)), static_cast<int>(rows.integer(8)),
                   static_cast<int>(rows.integer(9))});
  }
  return all;
}

std::vector<MeasuredCost> ControllerStore::costs() {
  std::vector<MeasuredCost> all;
  Statement rows(
      database_,
      "SELECT kind, gpus, nodes, clock_mhz, time_s, energy_j FROM costs ORDER BY kind, gpus, nodes, clock_mhz");
  while (rows.next()) {
    all.push_back({rows.text(0), static_cast<int>(rows.integer(1)), static_cast<int>(rows.integer(2)), rows.number(3),
                   rows.number(4), rows.number(5)});
  }
  return all;
}

std::vector<ChangeTime> ControllerStore::change_times() {
  std::vector<ChangeTime> all;
  Statement rows(database_, "SELECT kind, part, mean_s, measured FROM change_times ORDER BY kind, part");
  while (rows.next()) {
    const std::optional<ChangePart> part = value_named<ChangePart>(rows.text(1));
    if (part) all.push_back({rows.text(0), *part, rows.number(2), static_cast<int>(rows.integer(3))});
  }
  return all;
}

std::vector<ShrinkRecord> ControllerStore::shrinks() {
  std::vector<ShrinkRecord> all;
  Statement rows(database_, "SELECT job, told, nodes, goes_on, refused FROM shrinks ORDER BY job");
  while (rows.next()) {
    all.push_back({rows.integer(0), static_cast<int>(rows.integer(1)), nodes_in(rows.text(2)), rows.integer(3) != 0,
                   static_cast<int>(rows.integer(4))});
  }
  return all;
}

std::vector<NodeRecord> ControllerStore::nodes() {
  std::vector<NodeRecord> all;
  Statement rows(database_, "SELECT node, asked, mean_s, measured, failed FROM nodes ORDER BY node");
  while (rows.next()) {
    all.push_back({rows.text(0), Seconds(rows.number(1)), rows.number(2), static_cast<int>(rows.integer(3)),
                   static_cast<int>(rows.integer(4))});
  }
  return all;
}

std::optional<PowerOrder> ControllerStore::order() {
  Statement rows(database_, "SELECT budget_w, until, afterwards_w FROM orders");
  if (!rows.next()) return std::nullopt;
  PowerOrder order{Watts(rows.number(0)), std::nullopt, Watts(rows.number(2)), {}};
  if (rows.number(1) > 0.0) order.until = Seconds(rows.number(1));
  rows.next();
  Statement periods(database_, "SELECT from_s, until_s, power_w FROM periods ORDER BY from_s");
  while (periods.next()) {
    order.periods.push_back({Seconds(periods.number(0)), Seconds(periods.number(1)), Watts(periods.number(2))});
  }
  return order;
}

void ControllerStore::want(const std::vector<Transition>& changes) {
  in_transaction([&] {
    Statement statement(database_, "REPLACE INTO transitions VALUES(?,?,?,?,?,?)");
    for (const Transition& one : changes) {
      const std::string nodes = fmt::format("{}", fmt::join(one.target.nodes, ","));
      statement.bind(1, one.job)
          .bind(2, std::int64_t{one.restarts})
          .bind(3, std::string_view(nodes))
          .bind(4, std::int64_t{one.target.gpus_per_node})
          .bind(5, std::int64_t{one.speed})
          .bind(6, one.since.value())
          .run();
    }
  });
}

void ControllerStore::settled(std::int64_t job) {
  in_transaction([&] { Statement(database_, "DELETE FROM transitions WHERE job=?").bind(1, job).run(); });
}

void ControllerStore::keep(const std::vector<JobRecord>& jobs) {
  in_transaction([&] {
    Statement statement(database_, "REPLACE INTO jobs VALUES(?,?,?,?,?,?,?,?,?,?)");
    for (const JobRecord& one : jobs) {
      statement.bind(1, one.job)
          .bind(2, one.iteration)
          .bind(3, one.iterations)
          .bind(4, std::int64_t{one.failures})
          .bind(5, std::int64_t{one.told})
          .bind(6, std::int64_t{one.held})
          .bind(7, std::int64_t{one.released})
          .bind(8, std::int64_t{one.ran})
          .bind(9, std::int64_t{one.reported})
          .bind(10, std::int64_t{one.in_doubt})
          .run();
    }
  });
}

void ControllerStore::forget(std::int64_t job) {
  in_transaction([&] {
    Statement(database_, "DELETE FROM transitions WHERE job=?").bind(1, job).run();
    Statement(database_, "DELETE FROM jobs WHERE job=?").bind(1, job).run();
    Statement(database_, "DELETE FROM shrinks WHERE job=?").bind(1, job).run();
  });
}

void ControllerStore::keep(const MeasuredCost& cost) {
  in_transaction([&] {
    Statement(database_, "REPLACE INTO costs VALUES(?,?,?,?,?,?)")
        .bind(1, std::string_view(cost.kind))
        .bind(2, std::int64_t{cost.gpus})
        .bind(3, std::int64_t{cost.nodes})
        .bind(4, cost.clock_mhz)
        .bind(5, cost.time_s)
        .bind(6, cost.energy_j)
        .run();
  });
}

void ControllerStore::keep(const ChangeTime& time) {
  in_transaction([&] {
    Statement(database_, "REPLACE INTO change_times VALUES(?,?,?,?)")
        .bind(1, std::string_view(time.kind))
        .bind(2, name_of(time.part))
        .bind(3, time.mean_s)
        .bind(4, std::int64_t{time.measured})
        .run();
  });
}

void ControllerStore::keep(const ShrinkRecord& shrink) {
  in_transaction([&] {
    const std::string nodes = fmt::format("{}", fmt::join(shrink.nodes, ","));
    Statement(database_, "REPLACE INTO shrinks VALUES(?,?,?,?,?)")
        .bind(1, shrink.job)
        .bind(2, std::int64_t{shrink.told})
        .bind(3, std::string_view(nodes))
        .bind(4, std::int64_t{shrink.goes_on})
        .bind(5, std::int64_t{shrink.refused})
        .run();
  });
}

void ControllerStore::keep(const std::vector<NodeRecord>& nodes) {
  in_transaction([&] {
    Statement statement(database_, "REPLACE INTO nodes VALUES(?,?,?,?,?)");
    for (const NodeRecord& one : nodes) {
      statement.bind(1, std::string_view(one.node))
          .bind(2, one.asked.value())
          .bind(3, one.mean_s)
          .bind(4, std::int64_t{one.measured})
          .bind(5, std::int64_t{one.failed})
          .run();
    }
  });
}

void ControllerStore::keep(const PowerOrder& order) {
  in_transaction([&] {
    Statement(database_, "REPLACE INTO orders VALUES(1,?,?,?)")
        .bind(1, order.budget.value())
        .bind(2, order.until ? order.until->value() : 0.0)
        .bind(3, order.afterwards.value())
        .run();
    Statement(database_, "DELETE FROM periods").run();
    Statement statement(database_, "INSERT INTO periods VALUES(?,?,?)");
    for (const JobLimits::Period& one : order.periods) {
      statement.bind(1, one.from.value()).bind(2, one.until.value()).bind(3, one.power.value()).run();
    }
  });
}

}  // namespace flyball
