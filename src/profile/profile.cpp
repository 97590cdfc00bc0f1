// Rows, from a text or not, are collected by stage and instruction, and within them by rank, in the order of the file;
// clocks must fall or rise within each rank, unless labels tell rows apart. Ranks are merged by a map over clocks and
// labels.
#include "profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "profile/stage_limit.h"

namespace flyball {
namespace {

struct Row {
  ClockOption option;
  OptionLabels labels;
  InputLocation where;
};

struct OperationRows {
  int stage = 0;
  std::string instruction;
  std::size_t line = 0;
  std::map<long, std::vector<Row>> by_rank;
  bool labelled = false;  // some row has a label
};

// Where an operation begins; rows that come from no text have no line.
InputLocation begin_of(const std::string& source, std::size_t line) { return {source, line, line > 0 ? 1U : 0U}; }

// Rows by operation, operations in the order in which they come first.
struct RowsByOperation {
  std::map<std::pair<int, std::string>, std::size_t> index;
  std::vector<OperationRows> operations;

  void add(ProfileRow&& row, InputLocation where) {
    const auto stage = static_cast<int>(row.stage);
    const std::string instruction(row.instruction);
    const auto [entry, is_new] = index.try_emplace({stage, instruction}, operations.size());
    if (is_new) operations.push_back({stage, instruction, where.line, {}});
    OperationRows& operation = operations[entry->second];
    operation.labelled = operation.labelled || !row.labels.empty();
    operation.by_rank[row.rank].push_back({row.option, std::move(row.labels), std::move(where)});
  }
};

// Whole nanoseconds of solver time, and sums over an iteration, must hold every value; real ones are far inside.
constexpr double kLeastSeconds = 1e-9;
constexpr double kMostSeconds = 1e6;
constexpr double kLeastJoules = 1e-12;
constexpr double kMostJoules = 1e9;
constexpr double kMostMegahertz = 1e6;
constexpr double kMostWatts = 1e6;

// Columns that are no labels, besides those without a name and those that end with kDeviationEnd.
constexpr std::array<std::string_view, 9> kOwnColumns = {"stage",  "pp_rank", "instruction", "frequency", "time",
                                                         "energy", "rank",    "dp_rank",     "tp_rank"};
constexpr std::array<std::string_view, 3> kRankColumns = {"rank", "dp_rank", "tp_rank"};
constexpr std::string_view kDeviationEnd = "_sd";

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
  if (row.stage < 0 || row.stage >= kMostStagesOfFile) {
    throw InputError(where(stage_column),
                     fmt::format("{} is {}, it must be from 0 to {}", stage_column, row.stage, kMostStagesOfFile - 1),
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
  for (const Label& label : row.labels) {
    if (label.name != kPowerLimitLabel) continue;
    const double watts = parse_number(label.value).value_or(0.0);
    if (watts > 0.0 && watts <= kMostWatts) continue;
    throw InputError(where(kPowerLimitLabel),
                     fmt::format("power_limit is '{}', it must be above 0, at most {} W", label.value, kMostWatts),
                     "write the GPU's power limit in W, without a unit; leave the field empty where none was set");
  }
}

// "clock 1410 MHz", "clock 1410 MHz with sm=12".
std::string name_of(const Row& row) {
  const std::string clock = fmt::format("clock {} MHz", row.option.frequency.value());
  return row.labels.empty() ? clock : clock + " with " + label_text(row.labels);
}

[[noreturn]] void refuse_twice(const OperationRows& operation, const Row& row) {
  throw InputError(row.where,
                   fmt::format("{} stands twice for stage {} {}", name_of(row), operation.stage, operation.instruction),
                   "keep one row per clock (average repeated measurements)");
}

// Of rows without labels, clocks must fall or rise, each standing once.
void check_order(const OperationRows& operation, const std::vector<Row>& rows) {
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const Megahertz before = rows[i - 1].option.frequency;
    const Megahertz here = rows[i].option.frequency;
    if (before == here) refuse_twice(operation, rows[i]);
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

// Rows with labels may stand in any order: whoever composed them has often sorted them by time.
void check_distinct(const OperationRows& operation, const std::vector<Row>& rows) {
  std::set<std::pair<Megahertz, const OptionLabels&>> seen;
  for (const Row& row : rows) {
    if (!seen.emplace(row.option.frequency, row.labels).second) refuse_twice(operation, row);
  }
}

// The rows of one rank in the order of the file.
void check_rows(const OperationRows& operation, const std::vector<Row>& rows) {
  if (rows.size() > kMostOptions) {
    throw InputError(rows[kMostOptions].where,
                     fmt::format("stage {} {} has more than {} {}", operation.stage, operation.instruction,
                                 kMostOptions, operation.labelled ? "options" : "clocks"),
                     operation.labelled ? "keep the options that no other one beats in both time and energy"
                                        : "keep the clocks that the GPU really offers");
  }
  operation.labelled ? check_distinct(operation, rows) : check_order(operation, rows);
}

// What ranks measured of one option.
struct MergedOption {
  std::size_t count = 0;
  ClockOption sum;  // of energies; the greatest time
};

OperationProfile merge_ranks(const std::string& source, OperationRows&& rows) {
  OperationProfile merged{rows.stage, std::move(rows.instruction), {}, rows.line};
  std::map<std::pair<Megahertz, OptionLabels>, MergedOption> by_option;
  for (auto& [rank, measured] : rows.by_rank) {
    for (Row& row : measured) {
      auto& [count, sum] = by_option[{row.option.frequency, std::move(row.labels)}];
      sum.frequency = row.option.frequency;
      sum.time = std::max(sum.time, row.option.time);
      sum.energy += row.option.energy;
      ++count;
    }
  }
  std::vector<std::pair<ClockOption, const OptionLabels*>> kept;
  for (const auto& [key, entry] : by_option) {
    if (entry.count != rows.by_rank.size()) continue;
    kept.emplace_back(entry.sum, &key.second);
    kept.back().first.energy = entry.sum.energy / static_cast<double>(entry.count);
  }
  if (kept.empty()) {
    throw InputError(begin_of(source, rows.line),
                     fmt::format("the ranks of stage {} {} have no {} in common", merged.stage, merged.instruction,
                                 rows.labelled ? "option" : "clock"),
                     rows.labelled ? "profile the same clocks and labels on every rank; a column that is no choice, "
                                     "but was measured, goes, or ends with _sd"
                                   : "profile the same clocks on every rank");
  }
  std::stable_sort(kept.begin(), kept.end(), [](const auto& one, const auto& other) {
    const ClockOption& a = one.first;
    const ClockOption& b = other.first;
    return std::tie(b.frequency, a.time, a.energy) < std::tie(a.frequency, b.time, b.energy);
  });
  std::vector<OptionLabels> labels;
  for (const auto& [option, of_option] : kept) {
    merged.options.push_back(option);
    if (rows.labelled) labels.push_back(*of_option);
  }
  merged.labels = LabelTable(labels);
  return merged;
}

// The whole profile; operations in the order of their rows.
Profile merge_rows(const std::string& source, std::vector<OperationRows>&& operations,
                   std::vector<std::string> label_columns) {
  Profile profile{source, 0, {}};
  profile.label_columns = std::move(label_columns);
  for (OperationRows& operation : operations) {
    for (const auto& [rank, rows] : operation.by_rank) check_rows(operation, rows);
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

bool is_label_column(std::string_view name) {
  const bool own = std::find(kOwnColumns.begin(), kOwnColumns.end(), name) != kOwnColumns.end();
  return !own && !name.empty() && !name.ends_with(kDeviationEnd);
}

Profile read_profile(const std::string& source, std::string_view text) {
  CsvReader csv(source, text, {"instruction", "frequency", "time", "energy"}, {"frequency", kPowerLimitLabel});
  const char* stage_column = csv.has_column("stage") ? "stage" : "pp_rank";
  if (!csv.has_column(stage_column)) {
    throw InputError({source, csv.line(), 1}, "the header has no column 'stage' (nor 'pp_rank')",
                     "the first line must be stage,instruction,frequency,time,energy");
  }
  const bool sets_clocks = csv.has_column("frequency");
  std::vector<std::string> label_columns;
  std::copy_if(csv.columns().begin(), csv.columns().end(), std::back_inserter(label_columns), is_label_column);

  RowsByOperation rows;
  while (csv.next()) {
    // Ranks are told apart by whichever rank columns there are.
    long rank = 0;
    for (const std::string_view column : kRankColumns) {
      if (csv.has_column(column)) rank = rank * 65536 + csv.integer(column) % 65536;
    }
    ProfileRow row{csv.integer(stage_column),
                   csv.text("instruction"),
                   rank,
                   {Megahertz(sets_clocks ? csv.number("frequency") : 0.0), Seconds(csv.number("time")),
                    Joules(csv.number("energy"))}};
    for (const std::string& column : label_columns) {
      if (const std::string_view value = csv.text(column); !value.empty())
        row.labels.push_back({column, std::string(value)});
    }
    check_row(row, stage_column, [&](std::string_view column) { return csv.where(column); });
    rows.add(std::move(row), csv.where(sets_clocks ? "frequency" : kPowerLimitLabel));
  }
  if (rows.operations.empty()) {
    throw InputError({source, csv.line(), 1}, "the profile has a header but no rows",
                     "add one row per operation and clock");
  }
  return merge_rows(source, std::move(rows.operations), std::move(label_columns));
}

Profile profile_of_rows(const std::string& source, std::span<const ProfileRow> rows) {
  const auto where = [&](std::string_view /*column*/) { return InputLocation{source}; };
  RowsByOperation by_operation;
  std::vector<std::string> label_columns;
  for (const ProfileRow& row : rows) {
    check_row(row, "stage", where);
    for (const Label& label : row.labels) {
      const auto found = std::find(label_columns.begin(), label_columns.end(), label.name);
      if (found == label_columns.end()) label_columns.push_back(label.name);
    }
    by_operation.add(ProfileRow(row), {source});
  }
  if (rows.empty()) throw InputError({source}, "the profile has no rows", "add one row per operation and clock");
  return merge_rows(source, std::move(by_operation.operations), std::move(label_columns));
}

Profile read_profile_file(const std::filesystem::path& path) {
  return read_profile(path.string(), read_text_file(path));
}

std::string write_profile(const Profile& profile, const std::vector<std::string>& comment) {
  std::string text;
  for (const std::string& line : comment) text += line.empty() ? "#\n" : "# " + line + "\n";
  text += "stage,instruction,frequency";
  for (const std::string& column : profile.label_columns) text += "," + column;
  text += ",time,energy\n";
  for (const OperationProfile& operation : profile.operations) {
    for (std::size_t k = 0; k < operation.options.size(); ++k) {
      const ClockOption& option = operation.options[k];
      text += fmt::format("{},{},{}", operation.stage, operation.instruction, option.frequency.value());
      const OptionLabels& labels = operation.labels.of(k);
      for (const std::string& column : profile.label_columns) {
        const auto found =
            std::find_if(labels.begin(), labels.end(), [&](const auto& one) { return one.name == column; });
        text += "," + (found == labels.end() ? "" : found->value);
      }
      text += fmt::format(",{:.6g},{:.6g}\n", option.time.value(), option.energy.value());
    }
  }
  return text;
}

}  // namespace flyball
