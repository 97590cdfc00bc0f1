// The runs are sorted by group and job; then a job's lines are next to each other, and the time in which it ran is the
// length of the union of their intervals, so that nodes that run at once count once.
#include "forecast/job_bill.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace flyball {
namespace {

using Interval = std::pair<Nanoseconds, Nanoseconds>;

// Sorts the intervals.
Nanoseconds length_of_union(std::vector<Interval>& intervals) {
  std::sort(intervals.begin(), intervals.end());
  Nanoseconds sum = 0;
  Nanoseconds until = 0;  // no interval begins before 1970
  for (const auto& [begin, end] : intervals) {
    sum += std::max<Nanoseconds>(0, end - std::max(begin, until));
    until = std::max(until, end);
  }
  return sum;
}

Nanoseconds end_of(const JobRun& run) { return run.begin + run.length.value_or(0); }

std::int64_t group_of(const JobRun& run, JobGrouping by) {
  switch (by) {
    case JobGrouping::kJob: return run.job;
    case JobGrouping::kUser: return run.user;
    case JobGrouping::kAccount: return run.account;
    case JobGrouping::kPartition: return run.partition;
    case JobGrouping::kKind: return run.kind;
  }
  return 0;
}

class Adder {
 public:
  explicit Adder(const Tariff& tariff) : tariff_(tariff) {}

  // Takes all runs of a job in a group.
  void add_job(JobBillRow& row, std::span<const JobRun> runs) {
    row.jobs += 1;
    all_.clear();
    metered_.clear();
    for (const JobRun& run : runs) {
      row.lines += 1;
      const Seconds length = to_seconds(run.length.value_or(0));
      row.node_time += length;
      row.gpu_time += length * static_cast<double>(run.gpus);
      if (run.length) all_.emplace_back(run.begin, end_of(run));
      if (!run.energy) {
        row.unmetered += 1;
        continue;
      }
      row.energy += *run.energy;
      if (tariff_.carbon) {
        const Seconds start = to_seconds(run.begin) - tariff_.carbon->first;
        row.co2_kg = row.co2_kg.value_or(0.0) + co2_kg(*tariff_.carbon, *run.energy, start, length);
      }
      if (tariff_.prices) {
        const Seconds start = to_seconds(run.begin) - tariff_.prices->first;
        row.cost = row.cost.value_or(0.0) + kilowatt_hours(*run.energy) * mean_per_kwh(*tariff_.prices, start, length);
      }
      if (!run.length) continue;
      metered_.emplace_back(run.begin, end_of(run));
      metered_energy_ += *run.energy;
    }
    row.time += to_seconds(length_of_union(all_));
    metered_time_ += to_seconds(length_of_union(metered_));
  }

  // To be called when a group has all its jobs.
  void finish(JobBillRow& row) {
    conclude(row, metered_energy_, metered_time_);
    total_energy_ += std::exchange(metered_energy_, Joules(0));
    total_time_ += std::exchange(metered_time_, Seconds(0));
    total_.lines += row.lines;
    total_.unmetered += row.unmetered;
    total_.time += row.time;
    total_.node_time += row.node_time;
    total_.gpu_time += row.gpu_time;
    total_.energy += row.energy;
    if (row.co2_kg) total_.co2_kg = total_.co2_kg.value_or(0.0) + *row.co2_kg;
    if (tariff_.prices && row.cost) total_.cost = total_.cost.value_or(0.0) + *row.cost;
  }

  JobBillRow total(std::int64_t jobs) {
    total_.name = "total";
    total_.jobs = jobs;
    conclude(total_, total_energy_, total_time_);
    return std::move(total_);
  }

 private:
  // Of energy and time of the lines in which both are known.
  void conclude(JobBillRow& row, Joules energy, Seconds time) const {
    if (time > Seconds(0)) row.power = energy / time;
    if (!tariff_.prices && row.unmetered < row.lines) row.cost = tariff_.cost(row.energy, Seconds(0));
  }

  const Tariff& tariff_;
  std::vector<Interval> all_;
  std::vector<Interval> metered_;
  Joules metered_energy_, total_energy_;
  Seconds metered_time_, total_time_;
  JobBillRow total_;
};

}  // namespace

JobBill bill_of_jobs(const JobTable& table, JobGrouping by, const JobPeriod& period, const Tariff& tariff) {
  std::vector<JobRun> runs;
  for (const JobRun& run : table.runs) {
    if (period.from && end_of(run) < *period.from) continue;
    if (period.until && end_of(run) >= *period.until) continue;
    runs.push_back(run);
  }
  // The table is sorted by job: this is the number of jobs, one of which may be in several groups.
  std::int64_t jobs = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) jobs += i == 0 || runs[i].job != runs[i - 1].job ? 1 : 0;
  std::ranges::stable_sort(runs, {}, [by](const JobRun& run) { return group_of(run, by); });
  JobBill bill;
  Adder adder(tariff);
  for (std::size_t begin = 0; begin < runs.size();) {
    const std::int64_t group = group_of(runs[begin], by);
    JobBillRow row;
    const auto in_group = [&](const JobRun& run) { return group_of(run, by) == group; };
    const std::size_t group_begin = begin;
    while (begin < runs.size() && in_group(runs[begin])) {
      std::size_t end = begin + 1;
      while (end < runs.size() && in_group(runs[end]) && runs[end].job == runs[begin].job) ++end;
      adder.add_job(row, std::span(runs).subspan(begin, end - begin));
      begin = end;
    }
    adder.finish(row);
    if (by == JobGrouping::kJob) {
      const auto own = std::span(runs).subspan(group_begin, begin - group_begin);
      const JobRun& latest = *std::max_element(own.begin(), own.end(),
                                               [](const JobRun& a, const JobRun& b) { return end_of(a) < end_of(b); });
      row.job = group;
      row.name = fmt::to_string(group);
      row.user = table.names[latest.user];
      row.account = table.names[latest.account];
      row.partition = table.names[latest.partition];
      row.kind = table.names[latest.kind];
    } else {
      row.name = table.names[static_cast<std::uint32_t>(group)];
    }
    bill.rows.push_back(std::move(row));
  }
  bill.total = adder.total(jobs);
  std::stable_sort(bill.rows.begin(), bill.rows.end(),
                   [](const JobBillRow& a, const JobBillRow& b) { return a.energy > b.energy; });
  return bill;
}

}  // namespace flyball
