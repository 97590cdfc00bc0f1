// The Chrome trace of an account: what viewers read of it, and where it ends.
#include "report/account_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

namespace flyball {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WrittenTrace : public ::testing::Test {
 protected:
  WrittenTrace() {
    forward_ = operations_.intern("bert/<dense> \"0\"/MatMul", Phase::kForward);
    other_ = operations_.intern("Memset");
    gpu_ = devices_.intern("GPU:0");
    cpu_ = devices_.intern("CPU:0");
  }

  OperationTable operations_;
  DeviceTable devices_;
  OperationId forward_ = 0;
  OperationId other_ = 0;
  DeviceId gpu_ = 0;
  DeviceId cpu_ = 0;
};

std::vector<json> of_kind(const json& trace, const std::string& phase) {
  std::vector<json> found;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase) found.push_back(event);
  }
  return found;
}

// 5 s after 1970 the traces begin, and an event 1.5 us and 1 ns later.
TEST_F(WrittenTrace, HasEventsWithTheirJoules) {
  std::ostringstream out;
  AccountTrace trace(out);
  trace.begin(5 * kSecond, operations_, devices_);
  trace.on_event({5 * kSecond + 1501, 5 * kSecond + 3501, gpu_, forward_, Joules(0.25)});
  EXPECT_EQ(trace.finish(), std::nullopt);
  const json file = json::parse(out.str());
  EXPECT_EQ(file.at("baseTimeNanoseconds"), 5 * kSecond);
  const json event = of_kind(file, "X").at(0);
  EXPECT_EQ(event.at("name"), "MatMul");
  EXPECT_EQ(event.at("cat"), "forward");
  EXPECT_EQ(event.at("ts"), 1.501);
  EXPECT_EQ(event.at("dur"), 2.0);
  EXPECT_EQ(event.at("args"),
            (json{{"operation", "bert/<dense> \"0\"/MatMul"}, {"pass", "forward"}, {"joules", 0.25}}));
  std::set<std::string> names;
  for (const json& metadata : of_kind(file, "M")) {
    if (metadata.at("args").contains("name")) names.insert(metadata.at("args").at("name"));
    EXPECT_EQ(metadata.at("pid"), event.at("pid"));
  }
  EXPECT_THAT(names, ElementsAre("GPU:0", "GPU:0 (1)"));
}

// Two that overlap are on two threads; the third begins when the first ends, and the fourth when all have ended.
TEST_F(WrittenTrace, NeverLetsEventsOfAThreadOverlap) {
  std::ostringstream out;
  AccountTrace trace(out);
  trace.begin(0, operations_, devices_);
  trace.on_event({0, 10, gpu_, forward_, Joules(1)});
  trace.on_event({5, 15, gpu_, other_, Joules(1)});
  trace.on_event({10, 20, gpu_, forward_, Joules(1)});
  trace.on_event({20, 20, gpu_, forward_, Joules(0)});
  trace.on_event({0, 30, cpu_, other_, Joules(1)});
  EXPECT_EQ(trace.finish(), std::nullopt);
  const std::vector<json> events = of_kind(json::parse(out.str()), "X");
  const auto thread = [&](std::size_t i) { return events.at(i).at("tid").get<int>(); };
  EXPECT_NE(thread(0), thread(1));
  EXPECT_EQ(thread(2), thread(0));
  EXPECT_EQ(thread(3), thread(2));
  EXPECT_NE(thread(4), thread(0));
  EXPECT_NE(thread(4), thread(1));
  EXPECT_NE(events.at(4).at("pid"), events.at(0).at("pid"));
}

// 100 W in two pieces, as events divide it; a gap; 200 W, and its end.
TEST_F(WrittenTrace, CountsPowerWhereItChanges) {
  std::ostringstream out;
  AccountTrace trace(out);
  trace.begin(0, operations_, devices_);
  trace.on_power(gpu_, 0, 1000, Watts(100));
  trace.on_power(gpu_, 1000, 2000, Watts(100));
  trace.on_power(gpu_, 3000, 4000, Watts(200));
  EXPECT_EQ(trace.finish(), std::nullopt);
  std::vector<std::pair<double, double>> steps;
  for (const json& step : of_kind(json::parse(out.str()), "C")) {
    EXPECT_EQ(step.at("name"), "power");
    steps.emplace_back(step.at("ts"), step.at("args").at("W"));
  }
  EXPECT_THAT(steps,
              ElementsAre(std::pair(0.0, 100.0), std::pair(2.0, 0.0), std::pair(3.0, 200.0), std::pair(4.0, 0.0)));
}

// 20,000 events of 1 J take more than 1 MiB. What is there and what is said to be left out are all.
TEST_F(WrittenTrace, EndsAtItsMostBytes) {
  std::ostringstream out;
  AccountTrace trace(out, 1 << 20);
  trace.begin(0, operations_, devices_);
  constexpr int kEvents = 20'000;
  for (int i = 0; i < kEvents; ++i) trace.on_event({i, i + 1, gpu_, forward_, Joules(1)});
  const std::optional<std::string> left_out = trace.finish();
  EXPECT_LT(out.str().size(), (1u << 20) + 1000u);
  const std::size_t there = of_kind(json::parse(out.str()), "X").size();
  ASSERT_TRUE(left_out);
  EXPECT_THAT(*left_out, HasSubstr("full at 1 MiB"));
  EXPECT_THAT(*left_out, HasSubstr(std::to_string(kEvents - there) + ".000 J left out"));
}

}  // namespace
}  // namespace flyball
