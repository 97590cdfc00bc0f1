// The C interface's footprints, in a program that loads the library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <string>
#include <nlohmann/json.hpp>

#include "flyball/flyball.h"
#include "loop/library.h"
#include "support/temp_folder.h"

namespace flyball::testing {
namespace {

using ::testing::HasSubstr;

class FootprintLibrary : public Library {
 public:
  FootprintLibrary() {
    find(open, "flyball_footprint_open");
    find(close, "flyball_footprint_close");
    find(get_row, "flyball_footprint_get_row");
    find(json, "flyball_footprint_json");
  }

  decltype(&flyball_footprint_open) open;
  decltype(&flyball_footprint_close) close;
  decltype(&flyball_footprint_get_row) get_row;
  decltype(&flyball_footprint_json) json;
};

// Two operations on a processor of 100 W, and 200 W from 1.3 s on: layer 0 runs from 1.0 s to 1.2 s, layer 1 from 1.1 s
// to 1.4 s. Layer 0 has 0.1 s alone and half of 0.1 s: 10 J + 5 J. Layer 1 has half of 0.1 s, 0.1 s alone, and 0.1 s at
// 200 W: 5 J + 10 J + 20 J.
class CFootprint : public ::testing::Test {
 protected:
  CFootprint() {
    std::ofstream(folder_ / "events.json") << R"({"traceEvents": [
      {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:CPU:0"}},
      {"ph": "X", "name": "m/layer_0/MatMul", "pid": 1, "tid": 1, "ts": 1000000, "dur": 200000},
      {"ph": "X", "name": "m/layer_1/MatMul", "pid": 1, "tid": 2, "ts": 1100000, "dur": 300000}]})";
    std::ofstream(folder_ / "power.csv")
        << "timestamp,device,power_w\n0.9,CPU:0,100\n1.1,CPU:0,100\n1.3,CPU:0,200\n1.5,CPU:0,200\n";
    options_ = {{"events", folder_ / "events.json"}, {"power", folder_ / "power.csv"}};
  }

  TempFolder folder_;
  nlohmann::json options_;
  FootprintLibrary library_;
};

TEST_F(CFootprint, TellsRowByRowWhatEachOperationTook) {
  flyball_footprint* footprint = library_.open(options_.dump().c_str());
  ASSERT_NE(footprint, nullptr) << library_.last_error();
  flyball_footprint_row row{};
  row.size = sizeof row;
  ASSERT_EQ(library_.get_row(footprint, 0, &row), FLYBALL_OK);
  EXPECT_STREQ(row.name, "m/layer_1/MatMul");
  EXPECT_STREQ(row.device, "CPU:0");
  EXPECT_NEAR(row.energy_j, 35.0, 35e-9);
  EXPECT_NEAR(row.busy_s, 0.3, 1e-9);
  EXPECT_NEAR(row.powered_s, 0.3, 1e-9);
  EXPECT_EQ(row.energy_std_j, 0.0);
  EXPECT_GT(row.energy_error_j, 0.0);
  EXPECT_EQ(row.group, 0);
  ASSERT_EQ(library_.get_row(footprint, 1, &row), FLYBALL_OK);
  EXPECT_STREQ(row.name, "m/layer_0/MatMul");
  EXPECT_NEAR(row.energy_j, 15.0, 15e-9);
  EXPECT_EQ(library_.get_row(footprint, 2, &row), FLYBALL_USAGE);
  EXPECT_THAT(library_.last_error(), HasSubstr("2 rows"));
  EXPECT_EQ(nlohmann::json::parse(library_.json(footprint)).at("footprint").size(), 2u);
  library_.close(footprint);
}

TEST_F(CFootprint, TakesTheCommandsOptions) {
  options_["summary"] = true;
  options_["event_devices"] = {{"/device:CPU:0", "CPU:0"}};
  flyball_footprint* footprint = library_.open(options_.dump().c_str());
  ASSERT_NE(footprint, nullptr) << library_.last_error();
  // A caller that was compiled when a row ended with its energy gets that much and no more.
  flyball_footprint_row row{};
  row.size = offsetof(flyball_footprint_row, busy_s);
  row.busy_s = -1.0;
  ASSERT_EQ(library_.get_row(footprint, 0, &row), FLYBALL_OK);
  EXPECT_STREQ(row.name, "m/layer_*/MatMul");
  EXPECT_NEAR(row.energy_j, 50.0, 50e-9);
  EXPECT_EQ(row.busy_s, -1.0);
  library_.close(footprint);
}

TEST_F(CFootprint, SaysWhatIsWrong) {
  const auto refused = [&](const std::string& options, const std::string& words) {
    EXPECT_EQ(library_.open(options.c_str()), nullptr);
    EXPECT_THAT(library_.last_error(), HasSubstr(words));
  };
  EXPECT_EQ(library_.open(nullptr), nullptr);
  refused("{", "the options");
  refused(R"({"events": "a"})", "power: is missing");
  refused(R"({"events": "a", "power": "b", "methode": "sweep"})", "did you mean method?");
  refused(R"({"events": ["a", "b"], "power": "c"})", "2 event traces but 1 power trace");
  refused(R"({"events": "a", "power": "b", "method": "sweep", "sensor_window_s": 0.1})",
          "is for the methods auto and regress");
  refused(R"({"events": "a", "power": "/no/such/file"})", "/no/such/file");
  refused(R"({"events": "a", "power": "b", "counter_ranges_j": {"CPU:0": -1}})", "counter_ranges_j.CPU:0");
  library_.close(nullptr);
  flyball_footprint_row row{};
  row.size = sizeof row;
  EXPECT_EQ(library_.get_row(nullptr, 0, &row), FLYBALL_USAGE);
}

}  // namespace
}  // namespace flyball::testing
