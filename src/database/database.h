// A thin wrapper of SQLite, with statements that clean up after themselves, and with errors that tell a full disk from
// other failures.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace flyball {

class DatabaseError : public SystemError {
 public:
  DatabaseError(const std::string& problem, int code) : SystemError(problem), code_(code) {}

  // Returns whether the file cannot grow or cannot be written; it is then unharmed, and a later write may succeed.
  [[nodiscard]] bool no_room() const;
  // Returns whether the file is damaged, or not one of this program's; no later call will then succeed.
  [[nodiscard]] bool damaged() const;

 private:
  int code_;
};

enum class DatabaseUse : std::uint8_t {
  kOwn,      // for this process alone; the file is made where it is missing
  kForeign,  // somebody else's file, only to be read: nothing that its schema defines is trusted or run
};

// One connection to a database. Not thread-safe.
class Database {
 public:
  // A foreign file's longest text or row; a longer one is an error when it is read.
  static constexpr int kLongestForeign = 1 << 20;

  // Opens the file, and changes nothing in it. Throws DatabaseError.
  explicit Database(const std::string& path, DatabaseUse use = DatabaseUse::kOwn);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Switches to a write-ahead log, with which every commit is on the disk before it returns. Throws DatabaseError, also
  // where another process has the file open.
  void begin_writing();

  void execute(const char* sql);  // without parameters or results
  // Adds a column to a table of before that lacks it. `declared` is its type, with its default.
  void add_column_if_missing(const char* table, const char* column, const char* declared);
  [[nodiscard]] bool in_transaction() const;
  [[nodiscard]] sqlite3* handle() const { return handle_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[noreturn]] void fail(const std::string& what) const;

 private:
  sqlite3* handle_ = nullptr;
  std::string path_;
};

// A prepared statement. Parameters count from 1, columns from 0. Texts that are bound must live until the statement has
// run. All functions throw DatabaseError where SQLite fails. Not thread-safe.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(int parameter, std::int64_t value);
  Statement& bind(int parameter, double value);
  Statement& bind(int parameter, std::string_view value);
  Statement& bind_nothing(int parameter);
  Statement& bind_bytes(int parameter, std::span<const std::uint8_t> value);

  void run();   // runs to the end; the statement is then ready to be bound again
  bool next();  // goes to the next row; false after the last one, when the statement is ready to be bound again

  // The next seven read a column of the present row. They throw Error, which names the column, where it holds another
  // kind of value.
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] std::optional<std::int64_t> integer_or_nothing(int column) const;
  [[nodiscard]] double number(int column) const;
  [[nodiscard]] std::optional<double> number_or_nothing(int column) const;
  [[nodiscard]] std::string text(int column) const;
  [[nodiscard]] std::optional<std::string_view> text_or_nothing(int column) const;  // valid until the next row
  [[nodiscard]] std::span<const std::uint8_t> bytes(int column) const;

 private:
  [[noreturn]] void refuse(int column, const char* wanted) const;

  Database& database_;
  sqlite3_stmt* handle_ = nullptr;
};

}  // namespace flyball
