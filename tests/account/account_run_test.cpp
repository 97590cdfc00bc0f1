// The engine of `flyball account` without its command: files to footprint, notes and what is told meanwhile.
#include "account/account_run.h"

#include <gmock/gmock.h>

#include <fstream>
#include <set>
#include <string>

#include "base/error.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class AccountRuns : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  testing::TempFolder folder_;
};

// GPU:0 draws 100 W from 0 to 2 s. "a" runs from 0 s to 1 s and "b" from 1 s to 1.5 s: 100 J and 50 J; the last 50 J
// lie outside the profile. The second run is the first with twice the power, so that the means are 1.5 times as much.
TEST_F(AccountRuns, GiveTheMeanOfTheirFootprints) {
  const std::string events = file("events.json", R"([
    {"ph":"X","name":"a","pid":"GPU 0","tid":1,"ts":0,"dur":1000000},
    {"ph":"X","name":"b","pid":"GPU 0","tid":1,"ts":1000000,"dur":500000}])");
  const auto power = [this](const char* watts) {
    std::string text = "timestamp,device,power_w\n";
    for (const char* time : {"0", "1", "2"}) text += std::string(time) + ",GPU:0," + watts + "\n";
    return file(std::string(watts) + ".csv", text);
  };
  AccountRequest request;
  request.runs = {{events, power("100"), {}}, {events, power("200"), {}}};
  request.settings.clock_offset = Seconds(0);
  request.tree = true;
  request.picture = true;
  std::set<std::string> doings;
  AccountListener listener;
  listener.progress = [&doings](std::string_view doing, double share) {
    EXPECT_GE(share, 0.0);
    EXPECT_LE(share, 1.0);
    doings.emplace(doing);
  };
  const AccountResult result = account_runs(request, listener);
  ASSERT_EQ(result.footprint.rows.size(), 2u);
  for (const FootprintRow& row : result.footprint.rows) {
    EXPECT_NEAR(row.energy.value(), row.name == "a" ? 150.0 : 75.0, 1e-9) << row.name;
  }
  EXPECT_EQ(result.footprint.runs, 2);
  EXPECT_TRUE(result.summary.rows.empty()) << "was not asked for";
  EXPECT_THAT(result.picture.devices, Contains("GPU:0"));
  ASSERT_TRUE(result.picture.activity);
  EXPECT_THAT(result.notes, Contains(HasSubstr("run 2 (")));
  EXPECT_THAT(doings, Contains("reading " + events));
}

TEST_F(AccountRuns, RefuseATraceInWhichNothingRan) {
  AccountRequest request;
  request.runs = {{file("events.json", "[]"), file("p.csv", "timestamp,device,power_w\n0,GPU:0,1\n1,GPU:0,1\n"), {}}};
  EXPECT_THROW(static_cast<void>(account_runs(request)), InputError);
}

}  // namespace
}  // namespace flyball
