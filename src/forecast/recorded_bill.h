// What a run, or a part of it, really took, beside what was forecast of it.
//
// Problem. A power trace of one node or a few was recorded while the run went on; how far was the forecast off, and was
// that more than its interval allows? A recording seldom has all nodes, all components or all iterations, and what it
// lacks must not count as a difference. So the forecast is cut down to what was recorded: to the recorded iterations,
// with what runs once if the recording has the run's begin; to the share of each type's nodes; and to the components
// that both know. The interval is that of the part, by run_interval.h. A recorded node is one of many, which differ in
// power by the type's spread: the power of k recorded ones of n has the variance 1/k - 1/n on top of that of the
// forecast, in squares of the spread.
//
// All functions are pure. Cost: linear in the recordings, and seven forecasts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "forecast/forecast.h"
#include "forecast/recording.h"
#include "forecast/run_description.h"
#include "forecast/stage.h"

namespace flyball {

// A recording of one node.
struct RecordedNode {
  std::size_t type = 0;  // index in RunDescription::node_types
  Recording recording;
};

// One figure, as forecast with its interval and as measured; either may be missing.
template <class Quantity>
struct Compared {
  std::optional<Quantity> forecast;
  Quantity low{};  // the ends of the interval, with a forecast
  Quantity high{};
  std::optional<Quantity> measured;

  [[nodiscard]] bool both() const { return forecast && measured; }
  // Returns whether the interval holds the measured value. Requires both().
  [[nodiscard]] bool holds() const { return *measured >= low && *measured <= high; }
};

struct RecordedBill {
  struct Nodes {
    std::string name;
    int count = 0;     // in the run
    int recorded = 0;  // of them
  };

  std::vector<std::string> files;
  std::vector<Nodes> node_types;
  RunPart part;
  double run_iterations = 0.0;  // of the whole run
  double confidence = 0.9;
  Compared<Seconds> duration;
  // Of the recorded nodes of all types; neither forecast nor measured: the component is not there.
  PerComponent<Compared<Joules>> components;
  Compared<Joules> total;  // of what is both forecast and measured
  Joules run_forecast;     // of the whole run with all nodes and components
  std::vector<std::string> notes;

  // Returns what the whole run takes if everything is off by as much as `total`; none without a total.
  [[nodiscard]] std::optional<Joules> run_at_this_rate() const;
};

// Compares. `iterations` says how many iterations the recordings have; none: those of the whole run. `begin` says
// whether they have what runs once, too. The description must be complete. Throws UsageError where the run has fewer
// iterations, or more nodes of a type were recorded than it has, and InputError for a recording without a counted
// device.
[[nodiscard]] RecordedBill recorded_bill(const RunDescription& run, const std::vector<RecordedNode>& nodes,
                                         std::optional<double> iterations, bool begin, double confidence);

}  // namespace flyball
