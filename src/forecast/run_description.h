// What a forecast is made from: the job, its nodes, and what was measured of each stage. read_run() reads it from
// RUN.toml (docs/formats/run.md). The files that RUN.toml names are read by the caller, who adds their contents with
// attach_recording() (recording.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "forecast/stage.h"

namespace flyball {

struct ComponentPower {
  Watts active;
  Watts idle;
};

// One stage as measured on a node of one type.
struct StageMeasurement {
  bool stated = false;
  Occurrence occurrence = Occurrence::kIteration;
  std::vector<Seconds> times;                // one for each measured occurrence
  PerComponent<bool> active{};               // which components work; the others idle
  bool active_stated = false;                // if false, `active` follows from set_usual_activity()
  PerComponent<std::optional<Watts>> power;  // overrides the component's active and idle power
  // Integrals over a recording, one for each time; empty where power times time is to be used.
  PerComponent<std::vector<Joules>> recorded;
  InputLocation where;
};

struct NodeType {
  std::string name;
  int count = 1;
  double batch = 0.0;                                      // samples per node and iteration
  int measured_nodes = 1;                                  // every time is the mean over so many nodes
  std::optional<double> spread;                            // relative standard deviation of the nodes' speed and power
  PerComponent<std::optional<ComponentPower>> components;  // of a whole node
  PerStage<StageMeasurement> stages;
  std::string recording_file;  // empty: none. Paths are as written, relative to RUN.toml.
  std::string spans_file;
  InputLocation where;

  [[nodiscard]] const StageMeasurement& stage(TrainingStage which) const { return stages[index_of(which)]; }
  [[nodiscard]] StageMeasurement& stage(TrainingStage which) { return stages[index_of(which)]; }
  [[nodiscard]] bool has(Component which) const { return components[index_of(which)].has_value(); }
};

// What stops the iterations of all nodes together: a checkpoint, an evaluation, or the restart after a failure.
struct Pause {
  std::optional<double> every;  // iterations; none: once an epoch. Has no meaning for a restart.
  Seconds time;
  std::optional<PerComponent<bool>> active;  // which components work; none: the usual ones (interruptions.h)
  InputLocation where;
};

struct Restarts {
  Seconds between_failures;  // of one node, the mean; whatever ends the job counts
  Pause pause;               // from a failure until iterations go on
};

// How long the all-reduce took on other numbers of nodes, for change_run().
struct AllReduceTime {
  int nodes = 2;
  Seconds time;
};

struct RunDescription {
  std::string name;
  double samples = 0.0;  // n, of the data set
  int epochs = 1;
  std::optional<Seconds> iteration;  // by the wall clock; stage times are checked against it
  std::vector<NodeType> node_types;
  std::optional<Pause> checkpoint;
  std::optional<Pause> evaluation;
  std::optional<Restarts> restarts;
  std::vector<AllReduceTime> all_reduces;

  [[nodiscard]] std::int64_t nodes() const;
  // Returns n / (sum of the nodes' batches), which is how often eqs. 23, 33 and 38 charge a batch. It is not rounded,
  // since the last, smaller batch of an epoch costs its share.
  [[nodiscard]] double iterations_per_epoch() const;
};

// Reads the text of RUN.toml. Throws InputError with line and column for what cannot be meant: unknown keys, negative
// powers, an empty batch, measurements in different units. The files that the text names are not opened.
[[nodiscard]] RunDescription read_run(const std::string& source, std::string_view text);

// Sets which components work in the stages that do not state it. read_run() does this for the components that RUN.toml
// lists. A caller that adds components from a recording must do it again, since an accelerator computes in place of the
// processor.
void set_usual_activity(NodeType& type, bool accelerator);

// Checks a description, after recordings and calibrated powers have been added. Throws InputError where a stage or all
// powers are missing, where stages were measured in different iterations, where the stages of an iteration do not add
// up to `iteration` (as when minutes are given for seconds), and where one type takes 50 times as long as another.
void check_complete(const RunDescription& run);

// Returns sentences on what is possible in a description but more likely a mistake, with reasons: a batch of all nodes
// given as that of one, powers that only milliwatts explain, one stage in another unit, times that nothing checks. The
// description must be complete.
[[nodiscard]] std::vector<std::string> doubts_of(const RunDescription& run);

}  // namespace flyball
