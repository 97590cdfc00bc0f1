// Rows are read in order; each must begin no earlier than the one before it ends.
#include "plan/power_budget.h"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "base/time_text.h"

namespace flyball {
namespace {

constexpr double kMostWatts = 1e12;

struct BudgetTime {
  Nanoseconds time = 0;
  bool is_date = false;
};

BudgetTime budget_time(const CsvReader& csv, std::string_view column) {
  const std::string_view text = csv.text(column);
  if (const auto time = parse_decimal(text, 9); time && std::abs(*time) <= kFarthestTime) return {*time, false};
  if (const auto time = parse_date_time(text, Seconds(0)); time && std::abs(*time) <= kFarthestTime) {
    return {*time, true};
  }
  throw InputError(csv.where(column), fmt::format("'{}' is no time", text),
                   "write seconds, or a date and time such as 2026-11-24T18:00:00Z");
}

}  // namespace

std::vector<BudgetPeriod> read_power_budget(const std::string& source, std::string_view text) {
  CsvReader csv(source, text, {"from", "until", "power_w"});
  std::vector<BudgetPeriod> periods;
  std::optional<Nanoseconds> last;
  std::optional<bool> dates;
  while (csv.next()) {
    const auto time_in = [&](std::string_view column) {
      const BudgetTime read = budget_time(csv, column);
      if (dates.value_or(read.is_date) != read.is_date) {
        throw InputError(csv.where(column), "this file has dates as well as seconds", "write all times alike");
      }
      dates = read.is_date;
      return read.time;
    };
    const Nanoseconds from = time_in("from");
    const Nanoseconds until = time_in("until");
    if (last && from < *last) {
      throw InputError(csv.where("from"), "this period begins before the one above it has ended",
                       "sort the rows by time, and let no two of them overlap");
    }
    if (until <= from) {
      throw InputError(csv.where("until"), "this period ends no later than it begins", "exchange the two times");
    }
    const double power = csv.number("power_w");
    if (!(power > 0.0) || power > kMostWatts) {
      throw InputError(csv.where("power_w"), fmt::format("{} W is no power that a job could keep to", power),
                       fmt::format("write watts above 0, up to {}", kMostWatts));
    }
    last = until;
    periods.push_back(
        {std::string(csv.text("from")), std::string(csv.text("until")), to_seconds(until - from), Watts(power), {}});
    if (*dates) periods.back().begin = to_seconds(from);
  }
  if (periods.empty()) {
    throw InputError({source}, "there is no period", "add a row such as 0,3600,1200 below from,until,power_w");
  }
  return periods;
}

std::vector<BudgetPeriod> read_power_budget_file(const std::filesystem::path& path) {
  return read_power_budget(path.string(), read_text_file(path));
}

}  // namespace flyball
