#include "report/timeline_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "pipeline/pipeline_spec.h"
#include "support/pipelines.h"
#include "support/small_pipelines.h"

namespace flyball {
namespace {

using nlohmann::json;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::operation;
using testing::profile_of;

// A plan before and after, without the planning.
struct Traced {
  ComputationDag dag;
  PlanProblem problem;
  ReportInput input;

  Traced(const Traced&) = delete;
  explicit Traced(ComputationDag of, const ClockPlan& chosen, Watts blocking = Watts(100), Nanoseconds straggler = 0)
      : dag(std::move(of)), problem(testing::problem_of(dag, blocking)) {
    input.title = "test";
    input.problem = &problem;
    input.baseline = realise_plan("all-maximum clocks", dag, same_clock_plan(dag, 0), problem.blocking, straggler);
    input.chosen = realise_plan("perseus", dag, chosen, problem.blocking, straggler);
    if (straggler > 0) input.t_straggler = to_seconds(straggler);
  }

  [[nodiscard]] const RealisedPlan& plan(int process) const { return process == 1 ? input.baseline : input.chosen; }
};

// The events of a kind and process, in the order of the text.
std::vector<json> events(const std::string& text, const std::string& phase, int process) {
  std::vector<json> found;
  const json document = json::parse(text);
  for (const json& event : document.at("traceEvents")) {
    if (event.at("ph") == phase && event.at("pid") == process) found.push_back(event);
  }
  return found;
}

// The names of the threads by their numbers.
std::map<int, std::string> threads(const std::string& text, int process) {
  std::map<int, std::string> names;
  for (const json& event : events(text, "M", process)) {
    if (event.at("name") == "thread_name") names[event.at("tid")] = event.at("args").at("name");
  }
  return names;
}

std::string process_name(const std::string& text, int process) {
  for (const json& event : events(text, "M", process)) {
    if (event.at("name") == "process_name") return event.at("args").at("name");
  }
  return "";
}

Nanoseconds nanoseconds(const json& microseconds) { return std::llround(microseconds.get<double>() * 1e3); }

// "stage 0: F0 0+2000" for each slice.
std::vector<std::string> slices(const std::string& text, int process) {
  const std::map<int, std::string> names = threads(text, process);
  std::vector<std::string> lines;
  for (const json& event : events(text, "X", process)) {
    lines.push_back(names.at(event.at("tid")) + ": " + event.at("name").get<std::string>() + " " +
                    event.at("ts").dump() + "+" + event.at("dur").dump());
  }
  return lines;
}

// The steps of a counter: microseconds and watts.
std::vector<std::pair<double, double>> counter(const std::string& text, int process, const std::string& name) {
  std::vector<std::pair<double, double>> steps;
  for (const json& event : events(text, "C", process)) {
    if (event.at("name") == name) steps.emplace_back(event.at("ts"), event.at("args").at("W"));
  }
  return steps;
}

double joules_of(const std::vector<std::pair<double, double>>& steps) {
  double joules = 0.0;
  for (std::size_t k = 0; k + 1 < steps.size(); ++k) {
    joules += steps[k].second * (steps[k + 1].first - steps[k].first) * 1e-6;
  }
  return joules;
}

// 1F1B of two microbatches on two stages that wait at 100 W. A forward takes 2 and 3 ms, a backward 4 and 6 ms, at
// 1000, 1200, 800 and 800 W; a transfer 1 ms at 300 W. Stage 0's forward has a slower clock, 4 ms at 300 W.
//
//   stage 0    F0 0-2, F1 2-4, B0 13-17, B1 22-26     transfers of activations 2-3, 4-5
//   stage 1    F0 3-6, B0 6-12, F1 12-15, B1 15-21    transfers of gradients 12-13, 21-22
//
// All of it is critical but F1 on stage 0 with its transfer, which has to be there at 12 ms, and the gradient of B0
// with B0 on stage 0, which has to end at 22 ms.
ComputationDag two_by_two() {
  const Profile profile = profile_of(
      {operation(0, "forward", {{1000, 0.002, 2.0}, {500, 0.004, 1.2}}), operation(0, "backward", {{1000, 0.004, 3.2}}),
       operation(1, "forward", {{1000, 0.003, 3.6}}), operation(1, "backward", {{1000, 0.006, 4.8}})});
  PipelineSpec spec;
  spec.microbatches = 2;
  spec.p2p = ConstantOperation{Seconds(0.001), Joules(0.3)};
  return build_dag(spec, profile);
}

// F1 of stage 0 at the slower clock: it ends at 6 ms and its transfer at 7, and nothing else moves.
ClockPlan slower_f1(const ComputationDag& dag) {
  ClockPlan plan = same_clock_plan(dag, 0);
  plan[static_cast<std::size_t>(testing::find_operation(dag, 0, "forward", 1))] = 1;
  return plan;
}

TEST(TimelineTrace, OfTwoStagesAndMicrobatches) {
  const Traced traced(two_by_two(), slower_f1(two_by_two()));
  const std::string text = timeline_trace(traced.input);
  EXPECT_EQ(json::parse(text).at("displayTimeUnit"), "ms");
  EXPECT_THAT(slices(text, 1), ElementsAre("stage 0: F0 0+2000", "stage 0: F1 2000+2000", "stage 0: B0 13000+4000",
                                           "stage 0: B1 22000+4000", "stage 0 transfers: P0 2000+1000",
                                           "stage 0 transfers: P1 4000+1000", "stage 1: F0 3000+3000",
                                           "stage 1: B0 6000+6000", "stage 1: F1 12000+3000", "stage 1: B1 15000+6000",
                                           "stage 1 transfers: P0 12000+1000", "stage 1 transfers: P1 21000+1000"));
  const std::vector<std::string> after = slices(text, 2);
  ASSERT_EQ(after.size(), 12u);
  EXPECT_EQ(after[1], "stage 0: F1 2000+4000");
  EXPECT_EQ(after[5], "stage 0 transfers: P1 6000+1000");
  EXPECT_THAT(process_name(text, 1), HasSubstr("all-maximum clocks: 0.026 s"));
  EXPECT_THAT(process_name(text, 2), HasSubstr("perseus: 0.026 s"));
}

TEST(TimelineTrace, SaysWhatAnOperationTakes) {
  const Traced traced(two_by_two(), slower_f1(two_by_two()));
  const std::string text = timeline_trace(traced.input);
  const json f1 = events(text, "X", 1).at(1);
  EXPECT_EQ(f1.at("cat"), "forward");
  EXPECT_EQ(f1.at("args"), json::parse(R"({"clock_mhz": 1000, "power_w": 1000.0, "energy_j": 2, "slack_s": 0.007,
                                           "critical": false, "microbatch": 1})"));
  EXPECT_EQ(events(text, "X", 2).at(1).at("args"),
            json::parse(R"({"clock_mhz": 500, "power_w": 300.0, "energy_j": 1.2, "slack_s": 0.005, "critical": false,
                            "microbatch": 1})"));
  const json gradient = events(text, "X", 1).at(10);
  EXPECT_EQ(gradient.at("cat"), "p2p");
  EXPECT_EQ(gradient.at("args"), json::parse(R"({"power_w": 300.0, "energy_j": 0.3, "slack_s": 0.005,
                                                 "critical": false, "microbatch": 0})"));
  const json b1 = events(text, "X", 1).at(3);
  EXPECT_EQ(b1.at("cat"), "backward");
  EXPECT_EQ(b1.at("args").at("critical"), true);
  EXPECT_EQ(b1.at("args").at("slack_s"), 0);
}

// A transfer's 300 W are 200 above what its stage would take waiting, and come on top of what the stage does. Three
// GPUs on each stage make the job's power.
TEST(TimelineTrace, CountsThePowerOfStagesAndJob) {
  Traced traced(two_by_two(), slower_f1(two_by_two()));
  EXPECT_THAT(counter(timeline_trace(traced.input), 1, "job power"), IsEmpty()) << "nobody said how many GPUs";
  traced.input.power = JobPower{{}, {}, {}, 3};
  const std::string text = timeline_trace(traced.input);
  using Step = std::pair<double, double>;
  EXPECT_THAT(counter(text, 1, "stage 0 power"),
              ElementsAre(Step(0, 1000), Step(2000, 1200), Step(3000, 1000), Step(4000, 300), Step(5000, 100),
                          Step(13000, 800), Step(17000, 100), Step(22000, 800), Step(26000, 0)));
  EXPECT_THAT(counter(text, 1, "stage 1 power"),
              ElementsAre(Step(0, 100), Step(3000, 1200), Step(6000, 800), Step(12000, 1400), Step(13000, 1200),
                          Step(15000, 800), Step(21000, 300), Step(22000, 100), Step(26000, 0)));
  EXPECT_THAT(counter(text, 2, "stage 0 power"),
              ElementsAre(Step(0, 1000), Step(2000, 500), Step(3000, 300), Step(7000, 100), Step(13000, 800),
                          Step(17000, 100), Step(22000, 800), Step(26000, 0)))
      << "from 6 to 7 ms, waiting and a transfer take as much as the slower forward";
  // Forwards and backwards 10.4 + 16.8 J, transfers 4 * 0.2 J above waiting, waiting 14 + 8 ms at 100 W.
  EXPECT_THAT(joules_of(counter(text, 1, "job power")), DoubleNear(3 * 30.2, 1e-9));
  // The slower forward takes 0.8 J less itself, and 2 ms of waiting.
  EXPECT_THAT(joules_of(counter(text, 2, "job power")), DoubleNear(3 * 29.2, 1e-9));
}

// Until 40 ms both stages wait at 100 W, after the iteration's 26 ms.
TEST(TimelineTrace, WaitsForAStraggler) {
  const Traced traced(two_by_two(), slower_f1(two_by_two()), Watts(100), 40 * kMillisecond);
  const std::string text = timeline_trace(traced.input);
  const auto steps = counter(text, 1, "stage 0 power");
  EXPECT_EQ(steps.back(), std::pair(40000.0, 0.0));
  EXPECT_THAT(joules_of(steps) + joules_of(counter(text, 1, "stage 1 power")), DoubleNear(30.2 + 2.8, 1e-9));
}

// Forwards begin at 0, 1,234,567 and 2,469,134 ns.
TEST(TimelineTrace, KeepsEveryNanosecond) {
  const Profile profile = profile_of(
      {operation(0, "forward", {{1000, 0.001234567, 1.0}}), operation(0, "backward", {{1000, 0.002000010, 1.0}})});
  PipelineSpec spec;
  spec.schedule = ScheduleKind::kGpipe;
  spec.microbatches = 2;
  const ComputationDag dag = build_dag(spec, profile);
  const Traced traced(dag, same_clock_plan(dag, 0));
  EXPECT_THAT(slices(timeline_trace(traced.input), 1),
              ElementsAre("stage 0: F0 0+1234.567", "stage 0: F1 1234.567+1234.567", HasSubstr(" 2469.134+2000.01"),
                          HasSubstr(" 4469.144+2000.01")));
}

// Forwards of 1 ms each send for 5 ms, from 1, 2, 3, ... ms on: five transfers are under way from 5 to 6 ms.
TEST(TimelineTrace, TransfersAtOnceHaveThreadsOfTheirOwn) {
  const Profile profile = uniform_profile(2, {{"forward", 1}, {"backward", 2}});
  PipelineSpec spec;
  spec.schedule = ScheduleKind::kGpipe;
  spec.microbatches = 6;
  spec.p2p = ConstantOperation{Seconds(0.005), Joules(0)};
  const ComputationDag dag = build_dag(spec, profile);
  const Traced traced(dag, same_clock_plan(dag, 0));
  const std::string text = timeline_trace(traced.input);
  std::set<std::string> names;
  for (const auto& [number, name] : threads(text, 1)) names.insert(name);
  // A gradient follows the one before after 2 ms: three of 5 ms at once.
  EXPECT_THAT(names, ElementsAre("stage 0", "stage 0 transfers", "stage 0 transfers (2)", "stage 0 transfers (3)",
                                 "stage 0 transfers (4)", "stage 0 transfers (5)", "stage 1", "stage 1 transfers",
                                 "stage 1 transfers (2)", "stage 1 transfers (3)"));
  // The sixth, from 6 ms on, takes the place of the first.
  EXPECT_THAT(slices(text, 1), ::testing::Contains("stage 0 transfers: P5 6000+5000"));
}

// A DAG file may leave the order on a stage open.
TEST(TimelineTrace, OperationsThatOverlapOnAStageAreBesideEachOther) {
  const std::vector<ClockOption> option{{Megahertz(1000), Seconds(0.001), Joules(1)}};
  const Traced traced(ComputationDag("test", 1, {{0, "forward", option}}, {{0, 0, 0}, {0, 1, 0}}, {}), {0, 0});
  EXPECT_THAT(slices(timeline_trace(traced.input), 1), ElementsAre("stage 0: F0 0+1000", "stage 0 (2): F1 0+1000"));
}

// What must hold of the trace of any plan.
void expect_sound(const Traced& traced) {
  const std::string text = timeline_trace(traced.input);
  EXPECT_EQ(text, timeline_trace(traced.input));
  std::set<int> all_threads;
  for (const int process : {1, 2}) {
    const RealisedPlan& plan = traced.plan(process);
    const std::map<int, std::string> names = threads(text, process);
    for (const auto& [number, name] : names) {
      EXPECT_TRUE(all_threads.insert(number).second) << number;
      EXPECT_GT(number, 2) << "no process's number";
    }
    std::multiset<std::tuple<std::string, std::string>> shown;
    std::map<int, std::vector<std::pair<Nanoseconds, Nanoseconds>>> by_thread;
    double joules = 0.0;
    for (const json& event : events(text, "X", process)) {
      const std::string thread = names.at(event.at("tid"));
      shown.emplace(thread.substr(0, thread.find(' ', 6)), event.at("name"));
      const Nanoseconds begin = nanoseconds(event.at("ts"));
      by_thread[event.at("tid")].emplace_back(begin, begin + nanoseconds(event.at("dur")));
      joules += event.at("args").at("energy_j").get<double>();
    }
    std::multiset<std::tuple<std::string, std::string>> wanted;
    for (int i = 0; i < traced.dag.size(); ++i) {
      const std::string label = traced.dag.label(i);  // "F12 stage 3"
      const std::size_t space = label.find(' ');
      wanted.emplace(label.substr(space + 1), label.substr(0, space));
    }
    EXPECT_EQ(shown, wanted);
    Nanoseconds last = 0;
    for (auto& [thread, spans] : by_thread) {
      std::sort(spans.begin(), spans.end());
      for (std::size_t k = 1; k < spans.size(); ++k) EXPECT_GE(spans[k].first, spans[k - 1].second) << names.at(thread);
      last = std::max(last, spans.back().second);
    }
    EXPECT_EQ(last, plan.makespan);
    const EnergyBreakdown energy = energy_of(traced.dag, plan.plan, plan.makespan, traced.problem.blocking);
    EXPECT_NEAR(joules, energy.computation.value(), 1e-9 * joules);
    double counted = 0.0;
    for (int stage = 0; stage < traced.dag.stages(); ++stage) {
      counted += joules_of(counter(text, process, "stage " + std::to_string(stage) + " power"));
    }
    // Powers are rounded to half a milliwatt.
    EXPECT_NEAR(counted, energy.total().value(), 1e-5 * counted);
  }
}

TEST(TimelineTrace, HoldsEveryOperationOnce) {
  for (const ScheduleKind schedule : {ScheduleKind::k1f1b, ScheduleKind::kGpipe, ScheduleKind::kZbH1,
                                      ScheduleKind::kInterleaved1f1b, ScheduleKind::kEarlyRecompute1f1b}) {
    for (const bool extras : {false, true}) {
      SCOPED_TRACE(std::string(schedule_name(schedule)) + (extras ? " with all" : " alone"));
      Profile profile = testing::modelled_profile({0.0301234567, 0.0407654321, 0.025});
      for (int stage = 0; stage < 3; ++stage)
        profile.operations.push_back(testing::modelled_operation(stage, "recompute", 0.0123));
      PipelineSpec spec;
      spec.schedule = schedule;
      spec.microbatches = 6;
      if (schedule == ScheduleKind::kInterleaved1f1b) spec.chunks = 2;
      if (schedule == ScheduleKind::kZbH1) spec.split_backward = 0.4;
      if (extras) {
        spec.p2p = ConstantOperation{Seconds(0.0712345678), Joules(20)};
        spec.data_load = ConstantOperation{Seconds(0.0021234), Joules(1)};
        spec.gradient_sync = ConstantOperation{Seconds(0.01), Joules(1)};
        spec.optimizer_step = ConstantOperation{Seconds(0)};
      }
      const ComputationDag dag = build_dag(spec, profile);
      expect_sound(Traced(dag, same_clock_plan(dag, 9)));
    }
  }
}

TEST(TimelineTrace, NamesChunks) {
  PipelineSpec spec;
  spec.schedule = ScheduleKind::kInterleaved1f1b;
  spec.microbatches = 2;
  spec.chunks = 2;
  const ComputationDag dag = build_dag(spec, testing::modelled_profile({0.03, 0.04}));
  const Traced traced(dag, same_clock_plan(dag, 0));
  std::multiset<int> chunks;
  for (const json& event : events(timeline_trace(traced.input), "X", 1)) {
    chunks.insert(event.at("args").at("chunk").get<int>());
  }
  EXPECT_EQ(chunks.count(0), 8u);
  EXPECT_EQ(chunks.count(1), 8u);
}

// Clock changes that take hold late: operations take longer than measured, and draw what was measured meanwhile.
TEST(TimelineTrace, ShowsWhatOperationsReallyTake) {
  Traced traced(two_by_two(), slower_f1(two_by_two()));
  const auto b1 = static_cast<std::size_t>(testing::find_operation(traced.dag, 0, "backward", 1));
  traced.input.chosen.durations[b1] = 5 * kMillisecond;
  const std::string text = timeline_trace(traced.input);
  EXPECT_EQ(slices(text, 2)[3], "stage 0: B1 22000+5000");
  EXPECT_EQ(events(text, "X", 2).at(3).at("args").at("power_w"), 800.0);
  const auto steps = counter(text, 2, "stage 0 power");
  EXPECT_EQ(steps[steps.size() - 2], std::pair(22000.0, 800.0));
  EXPECT_EQ(steps.back(), std::pair(27000.0, 0.0));
}

// The first three to begin: F0 at 0, its transfer and F1 at 2 ms. The fourth begins at 3 ms.
TEST(TimelineTrace, IsCutOffWhereItIsTooLong) {
  const Traced traced(two_by_two(), slower_f1(two_by_two()));
  const std::string text = timeline_trace(traced.input, 3);
  EXPECT_THAT(slices(text, 1),
              ElementsAre("stage 0: F0 0+2000", "stage 0: F1 2000+2000", "stage 0 transfers: P0 2000+1000"));
  EXPECT_THAT(process_name(text, 1), HasSubstr("(cut off at 0.003 s)"));
  EXPECT_EQ(counter(text, 1, "stage 0 power").back(), std::pair(3000.0, 1000.0));
  EXPECT_THAT(process_name(timeline_trace(traced.input, 12), 1), Not(HasSubstr("cut off")));
}

// 16 stages and 512 microbatches, 16,384 computations before and after.
TEST(TimelineTrace, StaysSmallForLongIterations) {
  const ComputationDag dag = testing::dag_of(testing::modelled_profile(std::vector<double>(16, 0.0312345678)), 512);
  const Traced traced(dag, same_clock_plan(dag, 3));
  EXPECT_LT(timeline_trace(traced.input).size(), 2u * 16384u * 512u);
}

TEST(TimelineTrace, HostileNamesStayText) {
  const std::string hostile = "</script>\"\\\n\x01\x7f\xff,{}]";
  OperationType type{0, "\"_\\_\n_\xff", {{Megahertz(1000), Seconds(0.001), Joules(1)}}};
  type.labels = LabelTable(std::vector<OptionLabels>{{{"\"a\\", "\n\xfe"}}});
  Traced traced(ComputationDag("test", 1, {type}, {{0, 0, 0}}, {}), {0});
  traced.input.title = hostile;
  traced.input.baseline.name = hostile;
  traced.input.chosen.name = hostile;
  const std::string text = timeline_trace(traced.input);
  const json slice = events(text, "X", 1).at(0);
  EXPECT_EQ(slice.at("name"),
            "\"\\\n\xef\xbf\xbd"
            "0");
  EXPECT_EQ(slice.at("cat"), "\"_\\_\n_\xef\xbf\xbd");
  EXPECT_EQ(slice.at("args").at("labels"), "\"a\\=\n\xef\xbf\xbd");
  EXPECT_THAT(process_name(text, 1), HasSubstr("</script>\"\\\n\x01\x7f\xef\xbf\xbd,{}]: 0.001 s"));
}

}  // namespace
}  // namespace flyball
