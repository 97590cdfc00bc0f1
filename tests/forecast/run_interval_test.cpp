// The four sources of a run's interval, one at a time, by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "forecast/forecast.h"
#include "forecast/run_interval.h"

namespace flyball {
namespace {

// Nothing but what a test puts in: stalls once in 1e18 iterations, no iteration unlike the others.
constexpr AssumedSpread kNothing{0.0, 1.0, 0.0, 1e18};

// 10 iterations of 2 s, of which 0.5 s are the all-reduce; 100 W in all stages but the wait, 40 W there.
std::string two_nodes(const std::string& forward, const std::string& wait, const std::string& more = "") {
  std::string text = R"(samples = 100
batch = 5
[[nodes]]
count = 2
power_w.processor = { active = 100, idle = 40 }
)" + more + "[nodes.stage]\n";
  for (const std::string name : {"set_dataset", "load_data", "preprocess", "model_in_out", "update"}) {
    text += name + ".seconds = 0\n";
  }
  return text + "forward.seconds = " + forward + "\nbackward.seconds = 0.5\ncommunication.seconds = 0.5\n" + wait;
}

struct Halves {
  double below;
  double above;
};

Halves halves_of(const std::string& text, const AssumedSpread& assumed) {
  const RunDescription run = read_run("RUN.toml", text);
  check_complete(run);
  const RunForecast forecast = forecast_run(run);
  const NodeType& type = run.node_types[0];
  const MeasuredPart part{Occurrence::kIteration,
                          10.0,
                          {samples_of(type, Occurrence::kIteration)},
                          forecast.node_types[0].local_time + forecast.node_types[0].wait};
  const IntervalHalves halves = interval_halves(run, {part}, {forecast.energy}, 0.9, assumed);
  return {halves.below.value(), halves.above.value()};
}

TEST(RunInterval, NodesThatWereNotMeasured) {
  // Of one node of two the power is known to the spread, and the speed of the other is not: sqrt(1 + 1 - 1/2). 4000 J
  // in 10 iterations of two nodes, without a wait; 1.644854 standard deviations.
  AssumedSpread assumed = kNothing;
  assumed.node_spread = 0.03;
  const Halves one = halves_of(two_nodes("1", "wait.seconds = 0"), assumed);
  EXPECT_NEAR(one.below, 1.644854 * 0.03 * 4000.0 * std::sqrt(1.5), 1e-2);
  EXPECT_NEAR(one.above, one.below, 1e-6);
  // Both measured: their power alone, sqrt(1/2). Stated, 1 % instead of 3.
  const Halves both = halves_of(two_nodes("1", "wait.seconds = 0", "measured_nodes = 2\nspread = 0.01\n"), assumed);
  EXPECT_NEAR(both.below, 1.644854 * 0.01 * 4000.0 * std::sqrt(0.5), 1e-2);
}

TEST(RunInterval, IterationsOfBothNodesTogether) {
  // One measurement, 10 % worth one: t of one degree of freedom at 95 % is 6.313752. At a correlation of r the mean of
  // 10 others has the variance 0.01 (1 + v(r)) where 1/10 <= v < 1: so much, and no more, of 400 J, ten times.
  AssumedSpread assumed = kNothing;
  assumed.iteration_spread = 0.1;
  const Halves halves = halves_of(two_nodes("1", "wait.seconds = 0"), assumed);
  EXPECT_GT(halves.below, 10 * 400.0 * 0.1 * 6.313752);
  EXPECT_LT(halves.below, 10 * 400.0 * 0.1 * 6.313752 * std::sqrt(2.0));
  EXPECT_NEAR(halves.above, halves.below, 1e-6);
}

TEST(RunInterval, TheWaitOfTheSlowestOfAllNodes) {
  // Two nodes whose 1.5 s before the barrier differ by 10 % and that were measured as equal: with 95 % both are below
  // 1.954508 standard deviations (0.974679 squared is 0.95). Both idle so much longer, at 40 W; nothing is saved.
  AssumedSpread assumed = kNothing;
  assumed.node_spread = 0.1;
  const Halves unknown = halves_of(two_nodes("1", ""), assumed);
  const double nodes = 1.644854 * 0.1 * 4000.0 * std::sqrt(1.5);
  EXPECT_NEAR(unknown.above, std::hypot(nodes, 10 * 2 * 40.0 * 0.15 * 1.954508), 1e-2);
  EXPECT_NEAR(unknown.below, nodes, 1e-2);
  // Forward of 0.9 or 1.1 s: the total waits 0.05 s for the slower of two, which may have been the same one's.
  AssumedSpread iterations = kNothing;
  iterations.iteration_weight = 1e9;  // each as the mean: the iterations themselves err by nothing
  EXPECT_NEAR(halves_of(two_nodes("[0.9, 1.1]", ""), iterations).below, 10 * 2 * 40.0 * 0.05, 1e-2);
}

TEST(RunInterval, StallsThatWereNotSeen) {
  // Beta(1/2, b) with b = 1 has the distribution sqrt(x): its 95 % quantile is 0.9025. One of two nodes stalls in
  // 1 - 0.0975^2 of the iterations, for 1.5 s; it works on at 100 W, the other idles at 40 W. As it is written, what
  // the stalled node draws above idling is its whole iteration's: 2 s of 60 W.
  AssumedSpread assumed = kNothing;
  assumed.stall_weight = 1e-12;
  const Halves halves = halves_of(two_nodes("1", "wait.seconds = 0"), assumed);
  EXPECT_NEAR(halves.above, 10 * (1.0 - 0.0975 * 0.0975) * (2 * 60.0 + 2 * 40.0 * 1.5), 1e-2);
  EXPECT_NEAR(halves.below, 0.0, 1e-6);
}

}  // namespace
}  // namespace flyball
