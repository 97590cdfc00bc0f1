// SQLite in exclusive locking mode with a write-ahead log and full synchronisation; the file and its log are readable
// by their owner only. Its result codes tell a full disk and a damaged file from other failures.
#include "database/database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace flyball {

bool DatabaseError::no_room() const {
  const int kind = code_ & 0xff;
  return kind == SQLITE_FULL || kind == SQLITE_IOERR || kind == SQLITE_READONLY || kind == SQLITE_CANTOPEN;
}

bool DatabaseError::damaged() const {
  const int kind = code_ & 0xff;
  return kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB || kind == SQLITE_ERROR || kind == SQLITE_FORMAT;
}

namespace {

// What users run, how they run it, and the hashes of their tokens are for the server alone. A failure here shows when
// the file is opened. SQLite gives its log the mode of the file.
void make_private(const std::string& path) {
  if (path == ":memory:") return;
  std::error_code ignored;
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty() && !std::filesystem::exists(folder, ignored)) {
    std::filesystem::create_directories(folder.parent_path(), ignored);
    ::mkdir(folder.c_str(), 0700);
  }
  const int made = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (made >= 0) {
    ::close(made);
    return;
  }
  // These files belong to a database of an older version, or are what a kill has left of its log.
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    const std::string file = path + suffix;
    struct stat state {};
    if (::lstat(file.c_str(), &state) == 0 && S_ISREG(state.st_mode) && (state.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
      ::chmod(file.c_str(), S_IRUSR | S_IWUSR);
    }
  }
}

}  // namespace

Database::Database(const std::string& path, DatabaseUse use) : path_(path) {
  const bool own = use == DatabaseUse::kOwn;
  if (own) make_private(path);
  try {
    const int access = own ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    if (sqlite3_open_v2(path.c_str(), &handle_, access | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr) !=
        SQLITE_OK) {
      fail("cannot be opened");
    }
    if (!own) {  // as https://www.sqlite.org/security.html advises
      sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
      sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
      sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, kLongestForeign);
      execute("PRAGMA cell_size_check=ON");
      return;
    }
    // This must come before the log is switched on: the log's index is then kept in this process's memory, and the lock
    // is never released.
    execute("PRAGMA locking_mode=EXCLUSIVE");
  } catch (const DatabaseError&) {
    sqlite3_close(handle_);
    throw;
  }
}

Database::~Database() { sqlite3_close(handle_); }

void Database::begin_writing() {
  execute("PRAGMA journal_mode=WAL");
  execute("PRAGMA synchronous=FULL");
  execute("PRAGMA foreign_keys=ON");
  execute("BEGIN IMMEDIATE; COMMIT");
}

void Database::fail(const std::string& what) const {
  const int code = sqlite3_extended_errcode(handle_);
  if ((code & 0xff) == SQLITE_BUSY) {
    throw DatabaseError(path_ + ": another process has this database open; stop it or name another file", code);
  }
  throw DatabaseError(fmt::format("{}: {}: {}", path_, what, sqlite3_errmsg(handle_)), code);
}

void Database::execute(const char* sql) {
  if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
    fail("the database cannot be used");
  }
}

void Database::add_column_if_missing(const char* table, const char* column, const char* declared) {
  {
    Statement there(*this, "SELECT 1 FROM pragma_table_info(?) WHERE name=?");
    if (there.bind(1, std::string_view(table)).bind(2, std::string_view(column)).next()) return;
  }
  execute(fmt::format("ALTER TABLE {} ADD COLUMN {} {}", table, column, declared).c_str());
}

bool Database::in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }

Statement::Statement(Database& database, std::string_view sql) : database_(database) {
  if (sqlite3_prepare_v3(database.handle(), sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                         &handle_, nullptr) != SQLITE_OK) {
    database.fail("its tables are not this program's");
  }
}

Statement::~Statement() { sqlite3_finalize(handle_); }

Statement& Statement::bind(int parameter, std::int64_t value) {
  sqlite3_bind_int64(handle_, parameter, value);
  return *this;
}

Statement& Statement::bind(int parameter, double value) {
  sqlite3_bind_double(handle_, parameter, value);
  return *this;
}

Statement& Statement::bind(int parameter, std::string_view value) {
  sqlite3_bind_text(handle_, parameter, value.data() == nullptr ? "" : value.data(), static_cast<int>(value.size()),
                    nullptr);
  return *this;
}

Statement& Statement::bind_nothing(int parameter) {
  sqlite3_bind_null(handle_, parameter);
  return *this;
}

Statement& Statement::bind_bytes(int parameter, std::span<const std::uint8_t> value) {
  sqlite3_bind_blob(handle_, parameter, value.data(), static_cast<int>(value.size()), nullptr);
  return *this;
}

void Statement::run() {
  while (next()) {
  }
}

bool Statement::next() {
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  sqlite3_reset(handle_);
  if (code != SQLITE_DONE) database_.fail("the database cannot be read or written");
  return false;
}

void Statement::refuse(int column, const char* wanted) const {
  const char* found = "text";
  switch (sqlite3_column_type(handle_, column)) {
    case SQLITE_INTEGER: found = "a whole number"; break;
    case SQLITE_FLOAT: found = "a fraction"; break;
    case SQLITE_BLOB: found = "bytes"; break;
    case SQLITE_NULL: found = "nothing"; break;
    default: break;
  }
  throw Error(fmt::format("column {} holds {}, not {}", sqlite3_column_name(handle_, column), found, wanted));
}

std::int64_t Statement::integer(int column) const {
  if (sqlite3_column_type(handle_, column) != SQLITE_INTEGER) refuse(column, "a whole number");
  return sqlite3_column_int64(handle_, column);
}

std::optional<std::int64_t> Statement::integer_or_nothing(int column) const {
  if (sqlite3_column_type(handle_, column) == SQLITE_NULL) return std::nullopt;
  return integer(column);
}

double Statement::number(int column) const {
  const int type = sqlite3_column_type(handle_, column);
  if (type != SQLITE_FLOAT && type != SQLITE_INTEGER) refuse(column, "a number");
  return sqlite3_column_double(handle_, column);
}

std::optional<double> Statement::number_or_nothing(int column) const {
  if (sqlite3_column_type(handle_, column) == SQLITE_NULL) return std::nullopt;
  return number(column);
}

std::string Statement::text(int column) const {
  if (sqlite3_column_type(handle_, column) != SQLITE_TEXT) refuse(column, "text");
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
}

std::optional<std::string_view> Statement::text_or_nothing(int column) const {
  if (sqlite3_column_type(handle_, column) == SQLITE_NULL) return std::nullopt;
  if (sqlite3_column_type(handle_, column) != SQLITE_TEXT) refuse(column, "text");
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
  return std::string_view(bytes, static_cast<std::size_t>(sqlite3_column_bytes(handle_, column)));
}

std::span<const std::uint8_t> Statement::bytes(int column) const {
  if (sqlite3_column_type(handle_, column) != SQLITE_BLOB) refuse(column, "bytes");
  const auto* bytes = static_cast<const std::uint8_t*>(sqlite3_column_blob(handle_, column));
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
}

}  // namespace flyball
