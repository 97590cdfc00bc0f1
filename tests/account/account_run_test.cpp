// The engine of `flyball account` without its command: files to footprint, notes and what is told meanwhile.
#include "account/account_run.h"

#include <gmock/gmock.h>

#include <set>
#include <string>

#include "account/account_options.h"
#include "base/error.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class AccountRuns : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) { return folder_.file(name, text); }

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

// What account_request() says to this; "" where it takes it.
std::string refusal_of(const AccountOptions& options, const AccountNames& names = {}) {
  try {
    (void)account_request(options, names);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(AccountOptions, HaveOneSetOfBounds) {
  AccountOptions options;
  options.events = {"e"};
  options.power = {"p"};
  options.clock_offset = Seconds(-4e9);
  options.row_period = Seconds(3e6);
  options.method = AccountMethod::kRegress;
  options.sensor_window = Seconds(3e6);
  options.counter_ranges = {{"CPU:0", Joules(1e18)}};
  EXPECT_EQ(refusal_of(options), "");
  EXPECT_NO_THROW((void)read_account_options("test", R"({"events": "e", "power": "p", "clock_offset_s": -4e9,
    "row_period_s": 3e6, "method": "regress", "sensor_window_s": 3e6, "counter_ranges_j": {"CPU:0": 1e18}})"));

  AccountOptions other = options;
  // 1e10 s are 1e19 ns; a number of 64 bits ends at 9.2e18.
  other.clock_offset = Seconds(1e10);
  EXPECT_THAT(refusal_of(other, {.clock_offset = "--clock-offset"}), HasSubstr("--clock-offset is 1e+10; it must be"));
  other = options;
  other.row_period = Seconds(0);
  EXPECT_THAT(refusal_of(other), HasSubstr("row_period_s is 0"));
  other = options;
  other.sensor_window = Seconds(4e6);
  EXPECT_THAT(refusal_of(other), HasSubstr("sensor_window_s is 4e+06"));
  other = options;
  other.counter_ranges["CPU:1"] = Joules(1e19);
  EXPECT_THAT(refusal_of(other), HasSubstr("counter_ranges_j CPU:1 is 1e+19"));
}

TEST(AccountOptions, RefuseDevicesWithoutAName) {
  AccountOptions options;
  options.events = {"e"};
  options.power = {"p"};
  AccountOptions other = options;
  other.event_devices = {{"", "GPU:0"}};
  EXPECT_THAT(refusal_of(other), HasSubstr("event_devices: a device's name is empty"));
  other = options;
  other.power_devices = {{"GPU:0", ""}};
  EXPECT_THAT(refusal_of(other), HasSubstr("power_devices: a device's name is empty"));
  other = options;
  other.counter_ranges = {{"", Joules(1.0)}};
  EXPECT_THAT(refusal_of(other), HasSubstr("counter_ranges_j: a device's name is empty"));
}

TEST(AccountOptions, AreAProgramsArguments) {
  for (const char* wrong :
       {"{", R"({"events": [], "power": []})", R"({"events": "e", "power": "p", "method": "guess"})"}) {
    EXPECT_THROW((void)read_account_options("test", wrong), UsageError) << wrong;
  }
}

}  // namespace
}  // namespace flyball
