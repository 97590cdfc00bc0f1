// The database of a planning server: one SQLite file with a table each for jobs, ranks, sums, collected sums, notices,
// adjusted plans and savings; store.h has what is written and read. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "database/database.h"
#include "server/store.h"

namespace flyball {

// The row that is being read, for error messages.
struct RowPlace {
  std::string row = "jobs";  // "ranks, rank 3"
  const char* column = "";
};

class StoreTables {
 public:
  // Opens or makes the file; an empty path is a database in memory. Brings older formats to this one. Throws
  // DatabaseError, and InputError where the file is another program's or of a newer format.
  explicit StoreTables(const std::string& path);

  // Reads all jobs. Throws DatabaseError. A damaged row costs only its job.
  [[nodiscard]] std::vector<LoadedJob> load();

  // Writes all of it in one transaction. Throws DatabaseError; roll_back() must follow then.
  void commit(std::span<const Store::Group> batch);
  void roll_back();

 private:
  Statement& statement(const char* sql);

  void write(const StoredJob& job);
  void write(const StoredRank& rank);
  void write(const StoredReport& stored);
  void write(const StoredProfiled& profiled);
  void write(const StoredSweeps& sweeps);
  void write(const StoredNotice& notice);
  void write(const StoredVersion& version);
  void write(const StoredHeard& stored);
  void write(const StoredGivenPlan& stored);
  void write(const StoredOrderSeen& stored);
  void write(const StoredLimits& stored);
  void write(const StoredClocksOrder& stored);
  void write(const StoredSavings& stored);
  void write(const DeletedJob& deleted);
  void write(const StoreBarrier& /*barrier*/) {}
  void take_up_sweep(std::int64_t job, int rank);

  void load_job(Statement& row, LoadedJob& job, RowPlace& place);
  void load_ranks(LoadedJob& job, RowPlace& place);
  void load_sums(LoadedJob& job, RowPlace& place, const char* table, MeasurementSums LoadedRank::*sums);
  void load_notices(LoadedJob& job, RowPlace& place);
  void load_adjusted(LoadedJob& job, RowPlace& place);
  void load_savings(LoadedJob& job, RowPlace& place);

  Database database_;
  std::map<const char*, std::unique_ptr<Statement>> statements_;
};

}  // namespace flyball
