// The public interface of accounting as its users see it: nothing but include/.
#include "flyball/account.h"

#include <gmock/gmock.h>

#include <stdexcept>
#include <string>
#include <nlohmann/json.hpp>

#include "support/temp_folder.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;

class AccountApi : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) { return folder_.file(name, text); }

  testing::TempFolder folder_;
};

// A reading is the power of the second before it, so that GPU:0 draws 100 W from -1 s to 2 s: 300 J. "model/a" runs
// from 0 s to 1 s and "model/b" from 1 s to 1.5 s: 100 J and 50 J. The other 150 J lie before and after the profile.
TEST_F(AccountApi, GivesEveryJouleToARowOrSaysWhereItWent) {
  const nlohmann::json options{
      {"events", file("events.json", R"([
         {"ph":"X","name":"model/a","pid":"GPU 0","tid":1,"ts":0,"dur":1000000},
         {"ph":"X","name":"model/b","pid":"GPU 0","tid":1,"ts":1000000,"dur":500000}])")},
      {"power", file("power.csv", "timestamp,device,power_w\n0,GPU:0,100\n1,GPU:0,100\n2,GPU:0,100\n")},
      {"clock_offset_s", 0}};
  const AccountedEnergy energy = account(options.dump());
  ASSERT_EQ(energy.rows.size(), 2u);
  EXPECT_EQ(energy.rows[0].name, "model/a");
  EXPECT_EQ(energy.rows[0].device, "GPU:0");
  EXPECT_NEAR(energy.rows[0].energy_j, 100.0, 1e-9);
  EXPECT_NEAR(energy.rows[0].busy_s, 1.0, 1e-9);
  EXPECT_NEAR(energy.rows[1].energy_j, 50.0, 1e-9);
  EXPECT_EQ(energy.rows[1].energy_std_j, 0.0);
  ASSERT_EQ(energy.devices.size(), 1u);
  EXPECT_NEAR(energy.devices[0].measured_j, 300.0, 1e-9);
  EXPECT_NEAR(energy.devices[0].attributed_j, 150.0, 1e-9);
  EXPECT_NEAR(energy.devices[0].outside_j, 150.0, 1e-9);
  EXPECT_EQ(energy.devices[0].elsewhere_j, 0.0);
  EXPECT_EQ(energy.runs, 1);
  EXPECT_NEAR(energy.profiled_s, 1.5, 1e-9);
  EXPECT_EQ(nlohmann::json::parse(energy.json)["footprint"].size(), 2u);
}

TEST_F(AccountApi, SaysWhatIsWrongAndWhere) {
  const auto error_of = [](const std::string& options) -> std::string {
    try {
      static_cast<void>(account(options));
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(error_of("{"), HasSubstr("the options"));
  EXPECT_THAT(error_of(R"({"events": "a", "power": "b", "sumary": true})"), HasSubstr("sumary"));
  EXPECT_THAT(error_of(R"({"events": "/nowhere/a", "power": "/nowhere/b"})"), HasSubstr("/nowhere/"));
}

}  // namespace
}  // namespace flyball
