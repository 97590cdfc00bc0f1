// The same run on other numbers of nodes or with another global batch, from what was measured.
//
// Four things change, each by a stated model. Where a model's parameter is not known from the run itself, its middle
// and range are those of published measurements of five models (bert, cifar10, deepspeech2, imagenet, yolov3) by the
// authors of Pollux (OSDI'21) and Sia (SOSP'23); docs/decisions/0118-what-if.md lists them. Every range that is used
// widens the run's interval.
//   Iterations. An epoch has samples / (global batch) of them. Each node keeps its batch, unless a global batch is
//     asked for; all nodes' batches then change by one factor. Stages of a batch that are stated per epoch or per run
//     change with the number of iterations.
//   The all-reduce. A ring takes 2 (n-1) steps on n nodes, in which each node sends 2 (n-1)/n of the gradients (Thakur,
//     Rabenseifner and Gropp 2005): a 2 (n-1) + b 2 (n-1)/n seconds. If RUN.toml has times on several numbers of nodes,
//     a and b are fitted to them. Otherwise a is 0, and times grow beyond the ring by a power of the number of nodes.
//   The wait. Nodes wait for the slowest of all, by the type's spread. A wait that was measured gives the spread with
//     which as many nodes wait for so long, where RUN.toml does not state one.
//   The stages of a batch. At another batch, a share of their time does not change, and the rest in proportion.
//
// All functions are pure. Cost: some twenty-five forecasts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "forecast/forecast.h"
#include "forecast/run_description.h"

namespace flyball {

struct RunChange {
  std::vector<std::optional<int>> counts;  // of nodes, by type; none: as measured. Empty: all as measured
  std::optional<double> global_batch;      // samples of all nodes in an iteration

  [[nodiscard]] bool any() const { return !counts.empty() || global_batch; }
};

struct ChangedRun {
  RunDescription run;    // with what was asked for
  RunForecast forecast;  // its interval has the ranges of the models
  std::vector<std::string> notes;
};

// Returns how the time of a ring's all-reduce changes from one number of nodes to another, from 2.
[[nodiscard]] double ring_growth(double from, double to);

// The two parts of a ring's all-reduce, neither of which is negative: `a` and `b` above.
struct RingFit {
  Seconds step;
  Seconds transfer;
  double deviation = 0.0;  // relative standard deviation of another time, from the fit and what it was taken from

  [[nodiscard]] Seconds time(double nodes) const { return 2.0 * (nodes - 1.0) * (step + transfer / nodes); }
};

// Fits by least squares of the relative error. With one number of nodes `step` is 0. A single time is taken beforehand
// to be 25 % off a ring's, which counts as much as two measurements. Requires a measurement.
[[nodiscard]] RingFit fit_ring(const std::vector<AllReduceTime>& measured);

// `run` must be complete. Throws UsageError where more nodes than one are asked for and only one was measured, without
// times of all-reduces, and for a batch greater than the data set.
[[nodiscard]] ChangedRun change_run(const RunDescription& run, const RunChange& question, double confidence);

}  // namespace flyball
