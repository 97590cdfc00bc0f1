// The past of sources, by figures that are worked out by hand.
#include "fleet/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>

#include "base/error.h"
#include "database/database.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::TempFolder;

constexpr double kBegin = 1'800'000'000.0;  // 500,000 hours after 1970, the begin of an hour
constexpr double kDay = 86'400.0;

std::vector<HistoryTable> two_tables() {
  return {{"nodes", {{"power_w"}, {"hottest_c", Coarser::kHighest}}}, {"jobs", {{"saved_j"}}}};
}

class Past {
 public:
  explicit Past(const std::string& path = {}) : history_(path, two_tables()) {}

  void add(double time, const std::string& source, std::optional<double> power, std::optional<double> hottest = {}) {
    history_.add(Seconds(time), {{0, source, {power, hottest}}});
  }
  History::Rows read(const std::string& source, double from, double until, double now) {
    std::promise<History::Rows> told;
    history_.read(0, source, Seconds(from), Seconds(until), Seconds(now),
                  [&](History::Rows rows, const std::exception_ptr& error) {
                    error ? told.set_exception(error) : told.set_value(std::move(rows));
                  });
    return told.get_future().get();
  }

 private:
  History history_;
};

std::vector<double> times_of(const History::Rows& rows) {
  std::vector<double> times;
  for (const History::Row& row : rows.rows) times.push_back(row.time.value() - kBegin);
  return times;
}

std::vector<double> figures_of(const History::Rows& rows, std::size_t column) {
  std::vector<double> figures;
  for (const History::Row& row : rows.rows) figures.push_back(row.figures[column].value_or(-1.0));
  return figures;
}

TEST(History, TellsSecondsAndNothingOfTimesWithout) {
  Past past;
  past.add(kBegin + 0.9, "n1", 100.0, 40.0);
  past.add(kBegin + 2.1, "n1", 120.0);
  past.add(kBegin + 2.2, "n2", 7.0);
  const History::Rows rows = past.read("n1", kBegin, kBegin + 10, kBegin + 10);
  EXPECT_EQ(rows.step, HistoryStep::kSeconds);
  EXPECT_THAT(times_of(rows), ElementsAre(0.0, 2.0));
  EXPECT_THAT(figures_of(rows, 0), ElementsAre(100.0, 120.0));
  EXPECT_THAT(figures_of(rows, 1), ElementsAre(40.0, -1.0));
  EXPECT_THAT(past.read("n3", kBegin, kBegin + 10, kBegin + 10).rows, IsEmpty());
  EXPECT_THAT(past.read("n1", kBegin + 1, kBegin + 2, kBegin + 10).rows, IsEmpty());
}

// Minutes hold means of what was known, and highest figures; hours the same of minutes.
TEST(History, MakesMinutesAndHours) {
  Past past;
  past.add(kBegin + 0, "n1", 100.0, 40.0);
  past.add(kBegin + 30, "n1", 200.0, 50.0);
  past.add(kBegin + 59, "n1", std::nullopt, 45.0);  // the mean of power is of two: 150
  past.add(kBegin + 60, "n1", 250.0);
  past.add(kBegin + 180, "n1", 500.0);  // of this minute there is no row yet
  const double later = kBegin + 2 * kDay;
  const History::Rows minutes = past.read("n1", kBegin, kBegin + 3600, later);
  EXPECT_EQ(minutes.step, HistoryStep::kMinutes);
  EXPECT_THAT(times_of(minutes), ElementsAre(0.0, 60.0));
  EXPECT_THAT(figures_of(minutes, 0), ElementsAre(150.0, 250.0));
  EXPECT_THAT(figures_of(minutes, 1), ElementsAre(50.0, -1.0));
  const History::Rows hours = past.read("n1", kBegin, kBegin + 40 * kDay, kBegin + 40 * kDay);
  EXPECT_EQ(hours.step, HistoryStep::kHours);
  EXPECT_THAT(figures_of(hours, 0), ElementsAre(200.0));  // of 150 and 250
  EXPECT_THAT(figures_of(hours, 1), ElementsAre(50.0));
}

TEST(History, KeepsSecondsForAnHourAndMinutesForAMonth) {
  Past past;
  past.add(kBegin + 10, "n1", 100.0);
  past.add(kBegin + 7300, "n1", 300.0);
  EXPECT_THAT(times_of(past.read("n1", kBegin, kBegin + 3600, kBegin + 3600)), IsEmpty());
  EXPECT_THAT(times_of(past.read("n1", kBegin, kBegin + 7300, kBegin + 7300)), ElementsAre(0.0));
  past.add(kBegin + 32 * kDay, "n1", 400.0);
  past.add(kBegin + 32 * kDay + 60, "n1", 400.0);
  EXPECT_THAT(times_of(past.read("n1", kBegin, kBegin + kDay, kBegin + kDay)), IsEmpty());
  EXPECT_THAT(times_of(past.read("n1", kBegin, kBegin + 32 * kDay + 3600, kBegin + 32 * kDay + 3600)),
              ElementsAre(0.0, 7200.0, 32 * kDay));
}

// What was taken before a restart in the midst of a minute counts with what comes after it.
TEST(History, AMinuteMayHaveARestart) {
  const TempFolder folder;
  {
    Past past(folder / "history.db");
    past.add(kBegin + 10, "n1", 100.0);
  }
  {
    Past past(folder / "history.db");
    past.add(kBegin + 20, "n1", 200.0);
  }
  Past past(folder / "history.db");
  past.add(kBegin + 61, "n2", 1.0);
  const History::Rows minutes = past.read("n1", kBegin, kBegin + 3600, kBegin + kDay);
  EXPECT_THAT(figures_of(minutes, 0), ElementsAre(150.0));
}

// A restart hours later: seconds are older than an hour by then, and of their minutes there are no rows yet.
TEST(History, ARestartLosesNoMinute) {
  const TempFolder folder;
  {
    Past past(folder / "history.db");
    past.add(kBegin + 10, "n1", 100.0);
    past.add(kBegin + 11, "n1", 140.0);
  }
  Past past(folder / "history.db");
  past.add(kBegin + 5 * 3600, "n2", 1.0);
  EXPECT_THAT(figures_of(past.read("n1", kBegin, kBegin + 3600, kBegin + kDay), 0), ElementsAre(120.0));
}

// Sums are those of all seconds, whatever rows they are in by now: of 1 J a second over five hours and ten seconds each
// stretch has as many joules as it has seconds. Seconds of which there is no figure add nothing.
TEST(History, AddsUpOverAnyTime) {
  History history({}, {{"fleet", {{"energy_j", Coarser::kSum}, {"power_w"}}}});
  const int end = 5 * 3600 + 10;
  const auto total = [&](double from, double until, double now) {
    std::promise<History::Total> told;
    history.total(0, "all", Seconds(kBegin + from), Seconds(kBegin + until), Seconds(kBegin + now),
                  [&](History::Total found, const std::exception_ptr&) { told.set_value(std::move(found)); });
    return told.get_future().get();
  };
  for (int i = 0; i < end; ++i) {
    history.add(Seconds(kBegin + i), {{0, "all", {1.0, 7.0}}});
    if (i % 300 == 0) (void)total(0, 1, 0);  // until what was taken is written, of which the oldest would be dropped
  }
  history.add(Seconds(kBegin + end), {{0, "all", {std::nullopt, 7.0}}});
  EXPECT_EQ(total(0, end + 1, end).sums[0], end);
  EXPECT_EQ(total(end - 3599, end, end).sums[0], 3599.0) << "seconds, whole minutes and seconds";
  EXPECT_EQ(total(end - 5, end - 2, end).sums[0], 3.0);
  EXPECT_FALSE(total(0, end, end).sums[1].has_value()) << "a mean has no sum";
  EXPECT_FALSE(total(end, end + 60, end).sums[0].has_value()) << "nothing was known";
  EXPECT_FALSE(total(-7200, -3600, end).sums[0].has_value());
  // Seconds of more than an hour ago are not kept: whole minutes, from 00:16:40 to 02:46:41.
  const History::Total minutes = total(1000, 10001, end);
  EXPECT_EQ(minutes.from, Seconds(kBegin + 960));
  EXPECT_EQ(minutes.until, Seconds(kBegin + 10020));
  EXPECT_EQ(minutes.sums[0], 10020.0 - 960.0);
  // Forty days later there are only hours.
  const History::Total hours = total(3700, 7300, 40 * kDay);
  EXPECT_EQ(hours.from, Seconds(kBegin + 3600));
  EXPECT_EQ(hours.until, Seconds(kBegin + 10800));
  EXPECT_EQ(hours.sums[0], 7200.0);
}

// Those of a time, the oldest first, and the newest 1,000 of a source.
TEST(History, TellsWhatHappened) {
  const TempFolder folder;
  std::vector<History::Event> many(1200, {0, "n1", "state", "on"});
  many.back().text = "off";
  {
    History history(folder / "history.db", two_tables());
    history.add(Seconds(kBegin), {}, {{0, "n2", "state", "early"}});
    history.add(Seconds(kBegin + 5), {}, many);
  }
  Past past(folder / "history.db");
  const auto events = past.read("n1", kBegin, kBegin + 10, kBegin + 10).events;
  ASSERT_THAT(events, SizeIs(1000));
  EXPECT_EQ(events.back().text, "off");
  EXPECT_EQ(events.back().time, Seconds(kBegin + 5));
  EXPECT_EQ(events.front().text, "on");
  EXPECT_THAT(past.read("n2", kBegin, kBegin + 1, kBegin + 10).events, SizeIs(1));
  EXPECT_THAT(past.read("n2", kBegin + 1, kBegin + 10, kBegin + 10).events, IsEmpty());
}

// The finest step that was kept from `from` on and gives 4,000 rows at most: an hour of seconds, 66 hours of minutes.
TEST(History, ChoosesItsStep) {
  const auto step = [](double from, double until) {
    return History::step_of(Seconds(kBegin + from), Seconds(kBegin + until), Seconds(kBegin));
  };
  EXPECT_EQ(step(-3600, 0), HistoryStep::kSeconds);
  EXPECT_EQ(step(-3700, -3000), HistoryStep::kMinutes);
  EXPECT_EQ(step(-66 * 3600, 0), HistoryStep::kMinutes);
  EXPECT_EQ(step(-67 * 3600, 0), HistoryStep::kHours);
  EXPECT_EQ(step(-32 * kDay, -32 * kDay + 60), HistoryStep::kHours);
}

// What was kept before there was a figure stays, without it.
TEST(History, AFileOfBeforeGetsTheFiguresThatCameLater) {
  const TempFolder folder;
  const std::string path = folder / "history.db";
  {
    History before(path, {{"nodes", {{"power_w"}}}});
    before.add(Seconds(kBegin), {{0, "n1", {100.0}}});
  }
  Past past(path);
  past.add(kBegin + 1, "n1", 120.0, 51.0);
  const History::Rows rows = past.read("n1", kBegin, kBegin + 10, kBegin + 10);
  EXPECT_THAT(figures_of(rows, 0), ElementsAre(100.0, 120.0));
  EXPECT_THAT(figures_of(rows, 1), ElementsAre(-1.0, 51.0)) << "-1: unknown";
}

// As where a server is killed while it makes the file: here a table cannot be made, and the one before it is given up.
TEST(History, AFileThatWasNotMadeWholeIsMadeAnew) {
  const TempFolder folder;
  const std::string path = folder / "history.db";
  EXPECT_THROW(History(path, {{"nodes", {{"power_w"}}}, {"jobs", {{"no column)"}}}}), Error);
  Past past(path);
  past.add(kBegin, "n1", 100.0);
  EXPECT_THAT(figures_of(past.read("n1", kBegin, kBegin + 10, kBegin + 10), 0), ElementsAre(100.0));
}

TEST(History, RefusesOtherFiles) {
  const TempFolder folder;
  const std::string text = folder.file("notes.db", std::string(8192, 'x'));
  try {
    Past past(text);
    FAIL() << "it was opened";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("name another one (--history)"));
  }
  {
    // Another program's: a table, and no format of ours.
    Database database(folder / "other.db");
    database.execute("CREATE TABLE things(thing TEXT)");
  }
  EXPECT_THROW(Past(folder / "other.db"), InputError);
}

}  // namespace
}  // namespace flyball
