// Budgets for periods of time, on a scripted engine without agents, in which a job may take 3 s to stop and lower
// budgets count 2 s before that: 5 s before they begin. The first cycle is at second 1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/record.h"
#include "controller/controller_site.h"

namespace flyball {
namespace {

using testing::a100_cluster;
using testing::elastic;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Site;

constexpr Seconds kStart{1e9};

ControllerOptions slow_to_stop(double budget_w) {
  ControllerOptions how = a100_cluster();
  how.budget = Watts(budget_w);
  how.stop_within = Seconds(3.0);
  how.lower_before = Seconds(2.0);
  return how;
}

JobLimits::Period period(double from, double until, double power) {
  return {kStart + Seconds(from), kStart + Seconds(until), Watts(power)};
}

BudgetOrder periods(std::vector<JobLimits::Period> all) { return {Watts(0.0), std::nullopt, std::move(all)}; }

void cycle_to(Site& site, double second) {
  while (site.now < kStart + Seconds(second)) site.cycle();
}

struct Shown {
  double budget_w;
  double until_s;  // after the start; 0: for good
  double next_w;

  bool operator==(const Shown&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Shown& one) {
    return out << one.budget_w << " W until " << one.until_s << " s, then " << one.next_w << " W";
  }
};

Shown shown(const Site& site) {
  const ClusterRunStatus status = site.controller->status();
  return {status.budget.value(), status.until ? (*status.until - kStart).value() : 0.0, status.next.value()};
}

// Lower ones count 5 s before they begin, higher ones when they begin; in gaps and at the end --budget does.
TEST(BudgetPeriods, CountInTheirTimeAndLowerOnesBefore) {
  Site site(1, slow_to_stop(5000.0));
  site.cycle();
  site.controller->order_budget(periods({period(20, 30, 1200), period(30, 40, 3000), period(50, 60, 900)}));
  struct Row {
    double second;
    Shown shown;
  };
  for (const Row& row : {Row{14, {5000, 20, 1200}}, Row{15, {1200, 30, 3000}}, Row{29, {1200, 30, 3000}},
                         Row{30, {3000, 40, 5000}}, Row{40, {5000, 50, 900}}, Row{44, {5000, 50, 900}},
                         Row{45, {900, 60, 5000}}, Row{59, {900, 60, 5000}}, Row{60, {5000, 0, 0}}}) {
    SCOPED_TRACE(row.second);
    if (row.second == 29) site.start();  // they are kept
    cycle_to(site, row.second);
    EXPECT_EQ(shown(site), row.shown);
  }
}

// An order for a while counts first, then the period again, lowered to 5 s before; one for good ends them.
TEST(BudgetPeriods, AreBelowAnOrderForAWhileAndEndWithOneForGood) {
  Site site(1, slow_to_stop(5000.0));
  site.cycle();
  // Both at once: neither order is lost.
  site.controller->order_budget(periods({period(5, 50, 1200)}));
  site.controller->order_budget({Watts(2000.0), kStart + Seconds(25.0)});
  cycle_to(site, 19);
  EXPECT_EQ(shown(site), (Shown{2000, 25, 1200}));
  cycle_to(site, 20);
  EXPECT_EQ(shown(site), (Shown{1200, 50, 5000}));
  site.controller->order_budget({Watts(4000.0), std::nullopt});
  site.cycle();
  EXPECT_EQ(shown(site), (Shown{4000, 0, 0}));
  EXPECT_THAT(site.store->order()->periods, IsEmpty());
}

// 2848 W on eight GPUs, 1468 W on four with 200 W of four idle ones (LowersBeforeItRaises): a job on eight is moved to
// four before 2000 W are the limit, and gets eight again when they no longer are. It does not go back and forth.
TEST(BudgetPeriods, StopJobsBeforeTheyBegin) {
  Site site(2, slow_to_stop(6000.0));
  site.engine.submit(1, elastic("a"));
  site.cycle();
  site.controller->order_budget(periods({period(40, 60, 2000)}));
  cycle_to(site, 34);
  EXPECT_EQ(site.gpus(1), 8);
  cycle_to(site, 39);
  EXPECT_EQ(site.gpus(1), 4);
  cycle_to(site, 59);
  EXPECT_EQ(site.gpus(1), 4);
  EXPECT_EQ(site.engine.starts[1], 2);
  cycle_to(site, 66);
  EXPECT_EQ(site.gpus(1), 8);
  EXPECT_EQ(site.engine.starts[1], 3);
}

// Of `PUT /v1/cluster/budget`.
TEST(BudgetPeriods, AreOrderedInPlaceOfOneBudget) {
  const auto said = [](const char* text) -> std::string {
    try {
      (void)read_message<BudgetOrder>(nlohmann::json::parse(text));
    } catch (const InputError& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_EQ(said(R"({"budget_w": 900})"), "taken");
  EXPECT_EQ(said(R"({"budget_w": 900, "until_s": 5})"), "taken");
  EXPECT_EQ(said(R"({"periods": [{"from_unix_s": 1, "until_unix_s": 2, "power_w": 3},
                                 {"from_unix_s": 2, "until_unix_s": 4, "power_w": 5}]})"),
            "taken");
  EXPECT_THAT(said("{}"), HasSubstr("budget_w: is missing or below 1"));
  EXPECT_THAT(said(R"({"budget_w": 0.5})"), HasSubstr("budget_w: is missing or below 1"));
  EXPECT_THAT(said(R"({"budget_w": 9, "periods": [{"from_unix_s": 1, "until_unix_s": 2, "power_w": 3}]})"),
              HasSubstr("budget_w: is beside periods"));
  EXPECT_THAT(said(R"({"until_s": 9, "periods": [{"from_unix_s": 1, "until_unix_s": 2, "power_w": 3}]})"),
              HasSubstr("until_s: is beside periods"));
  EXPECT_THAT(said(R"({"periods": [{"from_unix_s": 3, "until_unix_s": 3, "power_w": 3}]})"),
              HasSubstr("periods[0].until_unix_s: is no later than from_unix_s"));
  EXPECT_THAT(said(R"({"periods": [{"from_unix_s": 1, "until_unix_s": 3, "power_w": 3},
                                   {"from_unix_s": 2, "until_unix_s": 4, "power_w": 5}]})"),
              HasSubstr("periods[1].from_unix_s: lies before the end"));
}

}  // namespace
}  // namespace flyball
