// Reads the tables of jobs that packaging/slurm/epilog writes on every node: a line for each time that a job ran there.
// What cannot be counted is left out and named, since a month's report is not to fail by one line that a crash tore.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "trace/byte_source.h"
#include "trace/string_pool.h"

namespace flyball {

// What a job took of a node's GPUs, from when it got them until it gave them back.
struct JobRun {
  std::int64_t job = 0;
  // Indices of JobTable::names; 0, the empty name, where the table does not tell.
  std::uint32_t user = 0;
  std::uint32_t account = 0;
  std::uint32_t partition = 0;
  std::uint32_t kind = 0;
  std::uint32_t node = 0;
  std::uint32_t gpus = 0;             // their number
  Nanoseconds begin = 0;              // since 1970, by the node's clock
  std::optional<Nanoseconds> length;  // none where the clock was set back meanwhile
  std::optional<Joules> energy;       // none where it is not known
  std::uint32_t file = 0;             // index of JobTable::files
  std::uint32_t line = 0;
};

// A line with which something is wrong.
struct JobTableNote {
  std::uint32_t file = 0;
  std::uint32_t line = 0;
  std::string what;  // "...; it is left out"
};

struct JobTable {
  StringPool names;
  std::vector<std::string> files;
  std::vector<JobRun> runs;
  std::vector<JobTableNote> notes;
  std::size_t repeated = 0;  // lines that are there already, as in a copy of a file, and were left out
};

// Adds the lines of a file. Its header names the columns: job, user, node, gpus (numbers with blanks between), begin_s,
// seconds, energy_j (empty: unknown) and, in newer tables, account, partition, kind. Further columns are ignored.
// Another header may follow, where a newer epilog went on with the file, or files were put together. `progress` gets
// the share of the file that is read, now and then, and may throw. Throws InputError where there is no header, and what
// ByteSource throws. 1,000,000 lines take about a second.
void read_job_table(ByteSource& bytes, JobTable& table, const std::function<void(double)>& progress);

// To be called after the last file: sorts the runs by job, node and begin, and leaves out lines that are there twice.
// Lines that differ, but have job, node and time in common, are noted, and all count.
void tidy_job_table(JobTable& table);

}  // namespace flyball
