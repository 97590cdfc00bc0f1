// Other numbers of nodes, batches, clocks and budgets, worked out by hand.
#include "forecast/run_change.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/error.h"
#include "forecast/budget.h"
#include "forecast/plan_bill.h"

namespace flyball {
namespace {

// 100 iterations of 1 s forward, and 0.1 s of communication unless stated.
RunDescription asked_run(int nodes, const std::string& top = "", const std::string& more = "") {
  const std::string text = "samples = " + std::to_string(400 * nodes) + "\nbatch = 4\n" + top +
                           "[[nodes]]\ncount = " + std::to_string(nodes) + R"(
power_w.processor = { active = 100, idle = 20 }
power_w.accelerator = { active = 300, idle = 50 }
[nodes.stage]
set_dataset.seconds = 0
preprocess.seconds = 0
transfer.seconds = 0
model_in_out.seconds = 0
forward.seconds = 1
backward.seconds = 0
update.seconds = 0
)" + (more.find("communication") == std::string::npos ? "communication.seconds = 0.1\n" : "") +
                           (more.find("load_data") == std::string::npos ? "load_data.seconds = 0\n" : "") + more;
  RunDescription run = read_run("RUN.toml", text);
  check_complete(run);
  return run;
}

TEST(RunChange, ARingsTwoTerms) {
  // 2 (n-1)/n: 1.984375 on 128 nodes, 1.75 on 8.
  EXPECT_NEAR(ring_growth(8, 128), 1.984375 / 1.75, 1e-12);
  // Steps of 1 ms and 50 ms of transfer: 2 + 50, 6 + 75, 14 + 87.5 ms, and 254 + 99.21875 ms on 128 nodes.
  const RingFit fit = fit_ring({{2, Seconds(0.052)}, {4, Seconds(0.081)}, {8, Seconds(0.1015)}});
  EXPECT_NEAR(fit.step.value(), 0.001, 1e-9);
  EXPECT_NEAR(fit.transfer.value(), 0.050, 1e-9);
  EXPECT_NEAR(fit.time(128).value(), 0.35321875, 1e-8);
  // Nothing is off, so that the deviation is the usual one: 2 x 0.25^2 over 2 + 3 - 2, times 1 + 1/3.
  EXPECT_NEAR(fit.deviation, std::sqrt(2 * 0.0625 / 3.0 * 4.0 / 3.0), 1e-9);
  // The same time on 2 and on 8 nodes wants a negative step. Without it 50 ms are b and 1.75 b, and the least squares
  // of the relative errors are at b = 50 ms (1 + 1.75) / (1 + 1.75^2).
  const RingFit flat = fit_ring({{2, Seconds(0.05)}, {8, Seconds(0.05)}});
  EXPECT_EQ(flat.step.value(), 0.0);
  EXPECT_NEAR(flat.transfer.value(), 0.05 * 2.75 / 4.0625, 1e-9);
  // Times that double with the nodes want a negative transfer: steps alone, 2 (n-1) a.
  const RingFit steps = fit_ring({{2, Seconds(0.002)}, {4, Seconds(0.008)}});
  EXPECT_EQ(steps.transfer.value(), 0.0);
}

TEST(RunChange, MoreNodes) {
  const RunDescription run = asked_run(8, "", "load_data = { seconds = 10, per = \"epoch\" }\n");
  const ChangedRun more = change_run(run, {{128}, {}}, 0.9);
  // A sixteenth of the iterations, in which all-reduces take 1.984375 / 1.75 x 16^0.17 times as long; and of what a
  // node loads in an epoch.
  const double communication = 0.1 * 1.984375 / 1.75 * std::pow(16.0, 0.17);
  EXPECT_NEAR(more.forecast.iterations, 6.25, 1e-12);
  EXPECT_NEAR(more.forecast.duration.value(), 6.25 * (1.0 + communication) + 10.0 / 16.0, 1e-9);
  EXPECT_EQ(more.run.node_types[0].count, 128);
  // An all-reduce may grow by 16^0.58 as well, at 170 W, the accelerator's idle power and the processor's: at 90 % the
  // interval reaches at least that far.
  const double high = 0.1 * 1.984375 / 1.75 * std::pow(16.0, 0.58);
  EXPECT_GT((more.forecast.interval.high - more.forecast.energy).value(), 128 * 6.25 * 150.0 * (high - communication));
  const ChangedRun same = change_run(run, {{8}, {}}, 0.9);
  EXPECT_NEAR(same.forecast.energy / forecast_run(run).energy, 1.0, 1e-12);
  EXPECT_NEAR(same.forecast.interval.high / forecast_run(run).interval.high, 1.0, 1e-12);
}

TEST(RunChange, MeasuredAllReduces) {
  // On 8 nodes the fit has 101.5 ms and on 128 353.21875 ms; the run's own 0.1 s grow alike.
  const std::string measured = "[all_reduce]\nnodes = [2, 4, 8]\nmilliseconds = [52, 81, 101.5]\n";
  const ChangedRun more = change_run(asked_run(8, measured), {{128}, {}}, 0.9);
  EXPECT_NEAR(more.forecast.duration.value(), 6.25 * (1.0 + 0.1 * 353.21875 / 101.5), 1e-6);
  // A run of one node gets the fitted time; without one nothing is known of it.
  const ChangedRun four = change_run(asked_run(1, measured, "communication.seconds = 0\n"), {{4}, {}}, 0.9);
  EXPECT_NEAR(four.forecast.node_types[0].iteration.value(), 1.081, 1e-6);
  EXPECT_THROW((void)change_run(asked_run(1, "", "communication.seconds = 0\n"), {{4}, {}}, 0.9), UsageError);
  // One node alone has nobody to talk to.
  EXPECT_NEAR(change_run(asked_run(8), {{1}, {}}, 0.9).forecast.duration.value(), 800.0, 1e-9);
}

TEST(RunChange, TheWaitOfMoreNodes) {
  // The greatest of two standard normals is 1 / sqrt(pi) = 0.564190 on average, that of eight 1.423600 (Teichroew
  // 1956). Two nodes that wait for 0.0282095 s of 1 s thus differ by 5 %, and eight of them wait for 0.07118 s.
  const RunDescription run = asked_run(2, "", "wait.seconds = 0.0282095\n");
  const ChangedRun more = change_run(run, {{8}, {}}, 0.9);
  EXPECT_NEAR(more.forecast.node_types[0].wait.value(), 0.07118, 2e-4);
  // A stated spread counts: 2 %.
  RunDescription stated = run;
  stated.node_types[0].spread = 0.02;
  EXPECT_NEAR(change_run(stated, {{8}, {}}, 0.9).forecast.node_types[0].wait.value(), 0.02 * 1.4236, 2e-4);
}

TEST(RunChange, AnotherGlobalBatch) {
  // 32 samples become 64: half the iterations, whose forward takes 0.135 + 0.865 x 2 times as long.
  const ChangedRun twice = change_run(asked_run(8), {{}, 64.0}, 0.9);
  EXPECT_NEAR(twice.forecast.iterations, 50.0, 1e-9);
  EXPECT_NEAR(twice.forecast.node_types[0].iteration.value(), 1.865 + 0.1, 1e-9);
  EXPECT_NEAR(twice.run.node_types[0].batch, 8.0, 1e-12);
  // Twice the nodes with the batch of before: half a node's batch.
  const ChangedRun strong = change_run(asked_run(8), {{16}, 32.0}, 0.9);
  EXPECT_NEAR(strong.forecast.iterations, 100.0, 1e-9);
  EXPECT_NEAR(strong.run.node_types[0].batch, 2.0, 1e-12);
  EXPECT_NEAR(strong.forecast.node_types[0].local_time.value(), 0.135 + 0.865 * 0.5, 1e-9);
}

TEST(RunChange, ClocksOfAPlan) {
  // A quarter slower with 0.8 of the energy: the accelerator's 300 J of a forward become 240 J, the processor idles at
  // 20 W for 1.25 s; 0.1 s of communication at 100 + 50 W stay.
  const RunDescription slower = at_clocks(asked_run(8), {1.25, 0.8});
  const RunForecast forecast = forecast_run(slower);
  EXPECT_NEAR(forecast.duration.value(), 100 * 1.35, 1e-9);
  EXPECT_NEAR(forecast.of(TrainingStage::kForward).value(), 800 * (240.0 + 25.0), 1e-6);
  EXPECT_NEAR(forecast.of(TrainingStage::kCommunication).value(), 800 * 15.0, 1e-6);
  RunDescription none = asked_run(8);
  none.node_types[0].components[index_of(Component::kAccelerator)].reset();
  EXPECT_THROW((void)at_clocks(none, {1.25, 0.8}), UsageError);
}

TEST(RunChange, IterationsWithinABudget) {
  const auto cost = [](double iterations) { return RunCost{Joules(100.0 + 7.0 * iterations), Seconds(iterations)}; };
  EXPECT_EQ(iterations_within({{}, Joules(1000)}, {}, cost), 128.0);  // (1000 - 100) / 7 = 128.6
  EXPECT_EQ(iterations_within({{}, Joules(107)}, {}, cost), 1.0);
  EXPECT_EQ(iterations_within({{}, Joules(106)}, {}, cost), 0.0);
  Tariff tariff;
  tariff.price_per_kwh = 3.6;  // a thousandth for a kilojoule
  EXPECT_EQ(iterations_within({0.001, {}}, tariff, cost), 128.0);
  EXPECT_THROW((void)iterations_within({0.001, {}}, {}, cost), UsageError);
  tariff.price_per_kwh.reset();  // with prices below zero a longer run may cost less
  tariff.prices = read_prices("p", "timestamp,price_per_kwh\n0,3.6\n3600,-1\n");
  EXPECT_THROW((void)iterations_within({0.001, {}}, tariff, cost), UsageError);
  EXPECT_EQ(iterations_within({{}, Joules(1e30)}, {}, cost), 1e12);
}

}  // namespace
}  // namespace flyball
