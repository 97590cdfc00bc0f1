// Keeps figures of many sources (nodes, jobs) over time, on disk and bounded: seconds for an hour, minutes for a month,
// hours for five years. Coarser rows are made of finer ones, and a source without rows is forgotten. Beside them it
// keeps who had which GPU (allocation_table.h).
//
// A thread of its own writes and reads, so that nobody waits for the disk. What it writes is not flushed one by one: a
// machine that loses its power may lose the last seconds, a process that is killed loses nothing that was taken.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/units.h"
#include "fleet/allocation_table.h"
#include "wire/fleet_messages.h"

namespace flyball {

// What a coarser row has of the finer ones.
enum class Coarser { kMean, kHighest, kSum };

// Figures of one kind of source, one column each.
struct HistoryTable {
  struct Column {
    const char* name;
    Coarser coarser = Coarser::kMean;
  };
  const char* name;
  std::vector<Column> columns;
};

using HistoryFigures = std::vector<std::optional<double>>;  // in the order of the columns

class History {
 public:
  struct Sample {
    std::size_t table = 0;
    std::string source;
    HistoryFigures figures;
  };
  // Something that happened to a source. The newest kMostEvents of each are kept.
  struct Event {
    std::size_t table = 0;
    std::string source;
    std::string kind;
    std::string text;
    Seconds time{};  // Unix time, whole seconds; set by add()
  };
  struct Row {
    Seconds time;  // Unix time at which it begins
    HistoryFigures figures;
  };
  struct Rows {
    HistoryStep step = HistoryStep::kSeconds;
    std::vector<Row> rows;      // the oldest first
    std::vector<Event> events;  // likewise; table and source are left out
  };
  struct Total {
    Seconds from;
    Seconds until;
    HistoryFigures sums;  // empty of columns that are no sums, and where no row has the figure
  };
  // At most so many rows are read at a time.
  static constexpr std::int64_t kMostRows = 4000;
  static constexpr std::int64_t kMostEvents = 1000;

  // Opens or makes the file; an empty path keeps all in memory. Throws DatabaseError, and InputError where the file is
  // damaged or another program's.
  History(const std::string& path, std::vector<HistoryTable> tables);
  ~History();  // what was taken is written
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  // Takes what was measured in the second of `time`, in place of what was taken for it before, what happened in it, and
  // who has the GPUs of the nodes that answer. Thread-safe; waits for nothing. Where the disk does not keep up, the
  // oldest that wait are dropped.
  void add(Seconds time, std::vector<Sample> samples, std::vector<Event> events = {}, std::vector<HeldGpus> held = {});

  // Calls `done` in the history's thread with what is known of a source in [from, until), in the finest step that at
  // `now` reaches back to `from` and has no more than kMostRows rows; or with what went wrong. Thread-safe.
  using Done = std::function<void(Rows, std::exception_ptr)>;
  void read(std::size_t table, std::string source, Seconds from, Seconds until, Seconds now, Done done);

  // Returns the step of such an answer.
  [[nodiscard]] static HistoryStep step_of(Seconds from, Seconds until, Seconds now);

  // Calls `done` in the history's thread with the sums of a source's columns over [from, until), or with what went
  // wrong. Where at `now` seconds are kept no more, the stretch is widened to whole minutes, and to whole hours where
  // minutes are not. Reads few rows, however long it is. Thread-safe.
  using TotalDone = std::function<void(Total, std::exception_ptr)>;
  void total(std::size_t table, std::string source, Seconds from, Seconds until, Seconds now, TotalDone done);

  // Calls `done` in the history's thread with who had which GPU in [from, until), or with what went wrong. Thread-safe.
  using AllocationsDone = std::function<void(FleetAllocations, std::exception_ptr)>;
  void read_allocations(Seconds from, Seconds until, AllocationsDone done);

 private:
  class Tables;
  struct Batch {
    Seconds time;
    std::vector<Sample> samples;
    std::vector<Event> events;
    std::vector<HeldGpus> held;
  };
  void work();
  // Has the thread find something, and `done` called with it, or with what went wrong.
  template <class Found>
  void have(std::function<Found()> find, std::function<void(Found, std::exception_ptr)> done);

  std::unique_ptr<Tables> tables_;  // in the thread alone, once it has begun
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> batches_;  // guarded by mutex_, as are the next two
  std::deque<std::function<void()>> reads_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace flyball
