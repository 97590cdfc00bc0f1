#include "plan/power_budget.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/text.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

std::vector<BudgetPeriod> periods_of(const std::string& rows) {
  return read_power_budget("budget.csv", "from,until,power_w\n" + rows);
}

void expect_no_budget(const std::string& rows, std::size_t line, std::size_t column, const std::string& words) {
  SCOPED_TRACE(rows);
  expect_input_error([&] { (void)periods_of(rows); }, line, column, words);
}

TEST(PowerBudget, PeriodsLastFromSecondsUntilSeconds) {
  const std::vector<BudgetPeriod> periods = periods_of("# at night\n-10,0.5,1e3\n0.5,3600.25,790.5\n");
  ASSERT_EQ(periods.size(), 2u);
  EXPECT_EQ(periods[0].from, "-10");
  EXPECT_EQ(periods[0].until, "0.5");
  EXPECT_EQ(periods[0].length, Seconds(10.5));
  EXPECT_EQ(periods[0].power, Watts(1000));
  EXPECT_EQ(periods[1].length, Seconds(3599.75));
  EXPECT_EQ(periods[1].power, Watts(790.5));
}

// 17:00 in UTC until 20:30 in a zone two hours ahead, which is 18:30 in UTC: an hour and a half. From the last day of
// February 2024, a leap year, until the first of March: a day.
TEST(PowerBudget, PeriodsLastFromDateToDateWhateverTheZone) {
  const std::vector<BudgetPeriod> periods =
      periods_of("2024-02-28T17:00,2024-02-28T20:30:00+02:00,860\n2024-02-29T00:00Z,2024-03-01T00:00Z,860\n");
  ASSERT_EQ(periods.size(), 2u);
  EXPECT_EQ(periods[0].length, Seconds(5400));
  EXPECT_EQ(periods[0].until, "2024-02-28T20:30:00+02:00");
  EXPECT_EQ(periods[1].length, Seconds(86400));
}

TEST(PowerBudget, SaysWhereAndWhyAFileIsNone) {
  expect_no_budget("", 0, 0, "there is no period");
  expect_no_budget("0,noon,1200\n", 2, 3, "'noon' is no time");
  expect_no_budget("0,3000000000,1200\n", 2, 3, "is no time");  // 2^61 ns are 2,305,843,009 s
  expect_no_budget("0,2026-11-24T18:00Z,1200\n", 2, 3, "dates as well as seconds");
  expect_no_budget("0,3600,1200\n1800,7200,1200\n", 3, 1, "begins before the one above it has ended");
  expect_no_budget("3600,3600,1200\n", 2, 6, "ends no later than it begins");
  expect_no_budget("0,3600,-5\n", 2, 8, "-5 W is no power");
  expect_no_budget("0,3600,0\n", 2, 8, "0 W is no power");
  expect_no_budget("0,3600,1e13\n", 2, 8, "is no power");
  expect_input_error([] { (void)read_power_budget("budget.csv", "from,until\n0,1\n"); }, 1, 1, "power_w");
}

TEST(PowerBudget, IsReadFromItsFile) {
  const testing::TempFolder folder;
  write_text_file(folder / "budget.csv", "from,until,power_w\n0,3600,1200\n");
  EXPECT_EQ(read_power_budget_file(folder / "budget.csv").front().length, Seconds(3600));
  EXPECT_THROW((void)read_power_budget_file(folder / "none.csv"), SystemError);
}

}  // namespace
}  // namespace flyball
