// What the jobs of a cluster took, by job, user, account, partition or kind, from the tables of its nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/names.h"
#include "base/units.h"
#include "forecast/bill.h"
#include "forecast/job_table.h"

namespace flyball {

enum class JobGrouping { kJob, kUser, kAccount, kPartition, kKind };
template <>
inline constexpr auto kNamesOf<JobGrouping> = name_list("job", "user", "account", "partition", "kind");

// Runs that ended in it count, whole: what a period adds up to does not change any more once it is over.
struct JobPeriod {
  std::optional<Nanoseconds> from;   // since 1970
  std::optional<Nanoseconds> until;  // not included
};

struct JobBillRow {
  std::string name;      // the job's number, the user, ...; empty where the table does not tell
  std::int64_t job = 0;  // by job only; user, account, partition, kind are then those of its latest run
  std::string user, account, partition, kind;
  std::int64_t jobs = 0;
  std::int64_t lines = 0;      // of the tables: one for each run of a job on a node
  std::int64_t unmetered = 0;  // of these, those whose energy is not known
  Seconds time;                // sum over the jobs, of the time in which a job ran on at least one node
  Seconds node_time;
  Seconds gpu_time;
  Joules energy;
  std::optional<Watts> power;   // of a job while it ran, the mean; of lines with a known time and energy
  std::optional<Joules> saved;  // none where no job's is known
  std::optional<double> co2_kg;
  std::optional<double> cost;
};

struct JobBill {
  std::vector<JobBillRow> rows;  // by falling energy
  JobBillRow total;
};

// Adds up a tidy table. Carbon dioxide is charged by the intensity while a run lasted, at its mean power;
// `tariff.start` is not used, since runs have dates. Cost: two sorts.
[[nodiscard]] JobBill bill_of_jobs(const JobTable& table, JobGrouping by, const JobPeriod& period,
                                   const Tariff& tariff);

}  // namespace flyball
