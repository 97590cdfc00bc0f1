// Rows, from a text or not, are collected by stage and instruction, and within them by rank, in the order of the file;
// clocks must fall or rise within each rank. Ranks are merged by a map over clocks.
#include "profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace flyball {
namespace {

struct Row {
  ClockOption option;
  InputLocation where;
};

struct OperationRows {
  int stage = 0;
  std::string instruction;
  std::size_t line = 0;
  std::map<long, std::vector<Row>> by_rank;
};

// Where an operation begins; rows that come from no text have no line.
InputLocation begin_of(const std::string& source, std::size_t line) { return {source, line, line > 0 ? 1U : 0U}; }

// Rows by operation, operations in the order in which they come first.
struct RowsByOperation {
  std::map<std::pair<int, std::string>, std::size_t> index;
  std::vector<OperationRows> operations;

  void add(const ProfileRow& row, InputLocation where) {
    const auto stage = static_cast<int>(row.stage);
    const std::string instruction(row.instruction);
    const auto [entry, is_new] = index.try_emplace({stage, instruction}, operations.size());
    if (is_new) operations.push_back({stage, instruction, where.line, {}});
    operations[entry->second].by_rank[row.rank].push_back({row.option, std::move(where)});
  }
};

// Whole nanoseconds of solver time, and sums over an iteration, must hold every value; real ones are far inside.
constexpr double kLeastSeconds = 1e-9;
constexpr double kMostSeconds = 1e6;
constexpr double kLeastJoules = 1e-12;
constexpr double kMostJoules = 1e9;
constexpr double kMostMegahertz = 1e6;
constexpr std::size_t kMostClocks = 10'000;  // a ClockPlan counts them in 16 bits

// `where` tells the place of a column of the row. Nothing else of the row need be valid yet.
template <class Where>
void check_positive(double value, const char* column, double least, double most, const char* unit, const Where& where) {
  if (value >= least && value <= most) return;
  if (value > 0.0) {
    throw InputError(where(column),
                     fmt::format("{} is {} {}, it must be from {} to {}", column, value, unit, least, most),
                     fmt::format("write the {} in {}", column, unit));
  }
  throw InputError(where(column), fmt::format("{} is {}, it must be above zero", column, value),
                   "measure the operation again, or delete the row");
}

template <class Where>
void check_row(const ProfileRow& row, const char* stage_column, const Where& where) {
  constexpr long kMostStages = 100000;
  if (row.stage < 0 || row.stage >= kMostStages) {
    throw InputError(where(stage_column),
                     fmt::format("{} is {}, it must be from 0 to {}", stage_column, row.stage, kMostStages - 1),
                     "count pipeline stages from 0");
  }
  if (row.instruction.empty()) {
    throw InputError(where("instruction"), "the instruction has no name", "write forward, backward, ...");
  }
  const double frequency = row.option.frequency.value();
  if (!(frequency >= 0.0 && frequency <= kMostMegahertz)) {
    throw InputError(where("frequency"),
                     fmt::format("frequency is {} MHz, it must be from 0 to {}", frequency, kMostMegahertz),
                     "write the locked SM clock in MHz");
  }
  check_positive(row.option.time.value(), "time", kLeastSeconds, kMostSeconds, "s", where);
  check_positive(row.option.energy.value(), "energy", kLeastJoules, kMostJoules, "J", where);
}

// The rows of one rank in the order of the file: clocks must fall or rise, each standing once.
void check_order(const OperationRows& operation, const std::vector<Row>& rows) {
  if (rows.size() > kMostClocks) {
    throw InputError(
        rows[kMostClocks].where,
        fmt::format("stage {} {} has more than {} clocks", operation.stage, operation.instruction, kMostClocks),
        "keep the clocks that the GPU really offers");
  }
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const Megahertz before = rows[i - 1].option.frequency;
    const Megahertz here = rows[i].option.frequency;
    if (before == here) {
      throw InputError(rows[i].where,
                       fmt::format("clock {} MHz stands twice for stage {} {}", here.value(), operation.stage,
                                   operation.instruction),
                       "keep one row per clock (average repeated measurements)");
    }
    const bool falls = rows[1].option.frequency < rows[0].option.frequency;
    if ((here < before) != falls) {
      throw InputError(
          rows[i].where,
          fmt::format("the clocks of stage {} {} are unsorted: {} MHz follows {} MHz in a {} list", operation.stage,
                      operation.instruction, here.value(), before.value(), falls ? "falling" : "rising"),
          "sort the rows of each operation by frequency, e.g. with sort -t, -k1,1n -k2,2 -k3,3nr");
    }
  }
}

OperationProfile merge_ranks(const std::string& source, OperationRows&& rows) {
  OperationProfile merged{rows.stage, std::move(rows.instruction), {}, rows.line};
  std::map<double, std::pair<std::size_t, ClockOption>, std::greater<>> by_clock;
  for (const auto& [rank, measured] : rows.by_rank) {
    for (const Row& row : measured) {
      auto& [count, sum] = by_clock[row.option.frequency.value()];
      sum.frequency = row.option.frequency;
      sum.time = std::max(sum.time, row.option.time);
      sum.energy += row.option.energy;
      ++count;
    }
  }
  for (const auto& [clock, entry] : by_clock) {
    auto [count, option] = entry;
    if (count != rows.by_rank.size()) continue;
    option.energy = option.energy / static_cast<double>(count);
    merged.options.push_back(option);
  }
  if (merged.options.empty()) {
    throw InputError(begin_of(source, rows.line),
                     fmt::format("the ranks of stage {} {} have no clock in common", merged.stage, merged.instruction),
                     "profile the same clocks on every rank");
  }
  return merged;
}

// The whole profile; operations in the order of their rows.
Profile merge_rows(const std::string& source, std::vector<OperationRows>&& operations) {
  Profile profile{source, 0, {}};
  for (OperationRows& operation : operations) {
    for (const auto& [rank, rows] : operation.by_rank) check_order(operation, rows);
    profile.stages = std::max(profile.stages, operation.stage + 1);
    profile.operations.push_back(merge_ranks(source, std::move(operation)));
  }
  std::stable_sort(profile.operations.begin(), profile.operations.end(),
                   [](const OperationProfile& a, const OperationProfile& b) { return a.stage < b.stage; });
  int expected = 0;
  for (const OperationProfile& operation : profile.operations) {
    if (operation.stage > expected) {
      throw InputError(begin_of(source, operation.line),
                       fmt::format("stage {} has rows but stage {} has none", operation.stage, expected),
                       "profile every stage, and count stages from 0 without gaps");
    }
    expected = operation.stage + 1;
  }
  return profile;
}

}  // namespace

const OperationProfile* Profile::find(int stage, std::string_view instruction) const {
  const auto found = std::find_if(operations.begin(), operations.end(), [&](const OperationProfile& operation) {
    return operation.stage == stage && operation.instruction == instruction;
  });
  return found == operations.end() ? nullptr : &*found;
}

Profile read_profile(const std::string& source, std::string_view text) {
  CsvReader csv(source, text, {"instruction", "frequency", "time", "energy"});
  const char* stage_column = csv.has_column("stage") ? "stage" : "pp_rank";
  if (!csv.has_column(stage_column)) {
    throw InputError({source, csv.line(), 1}, "the header has no column 'stage' (nor 'pp_rank')",
                     "the first line must be stage,instruction,frequency,time,energy");
  }

  RowsByOperation rows;
  while (csv.next()) {
    // Ranks are told apart by whichever rank columns there are.
    long rank = 0;
    for (const char* column : {"rank", "dp_rank", "tp_rank"}) {
      if (csv.has_column(column)) rank = rank * 65536 + csv.integer(column) % 65536;
    }
    const ProfileRow row{
        csv.integer(stage_column),
        csv.text("instruction"),
        rank,
        {Megahertz(csv.number("frequency")), Seconds(csv.number("time")), Joules(csv.number("energy"))}};
    check_row(row, stage_column, [&](std::string_view column) { return csv.where(column); });
    rows.add(row, csv.where("frequency"));
  }
  if (rows.operations.empty()) {
    throw InputError({source, csv.line(), 1}, "the profile has a header but no rows",
                     "add one row per operation and clock");
  }
  return merge_rows(source, std::move(rows.operations));
}

Profile profile_of_rows(const std::string& source, std::span<const ProfileRow> rows) {
  const auto where = [&](std::string_view /*column*/) { return InputLocation{source}; };
  RowsByOperation by_operation;
  for (const ProfileRow& row : rows) {
    check_row(row, "stage", where);
    by_operation.add(row, {source});
  }
  if (rows.empty()) throw InputError({source}, "the profile has no rows", "add one row per operation and clock");
  return merge_rows(source, std::move(by_operation.operations));
}

Profile read_profile_file(const std::filesystem::path& path) {
  return read_profile(path.string(), read_text_file(path));
}

std::string write_profile(const Profile& profile, const std::vector<std::string>& comment) {
  std::string text;
  for (const std::string& line : comment) text += line.empty() ? "#\n" : "# " + line + "\n";
  text += "stage,instruction,frequency,time,energy\n";
  for (const OperationProfile& operation : profile.operations) {
    for (const ClockOption& option : operation.options) {
      text += fmt::format("{},{},{},{:.6g},{:.6g}\n", operation.stage, operation.instruction, option.frequency.value(),
                          option.time.value(), option.energy.value());
    }
  }
  return text;
}

}  // namespace flyball
