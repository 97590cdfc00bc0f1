// What a forecast is made from: the job, its nodes, and what was measured of each stage.
//
// Read from RUN.toml (docs/formats/run.md). Values only; the files that RUN.toml names are read by the caller and put
// in with attach_recording() (recording.h).
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
  std::vector<Seconds> times;                // of one occurrence; several: measured so often
  PerComponent<bool> active{};               // who works; the others idle
  bool active_stated = false;                // else it follows from the node's components, see set_usual_activity()
  PerComponent<std::optional<Watts>> power;  // overrides active and idle
  // Integrals over a recording, one per time; empty where power times time is to be used.
  PerComponent<std::vector<Joules>> recorded;
  InputLocation where;
};

struct NodeType {
  std::string name;
  int count = 1;
  double batch = 0.0;                                      // samples per node and iteration
  int measured_nodes = 1;                                  // every time is the mean over so many nodes
  std::optional<double> spread;                            // relative, of the nodes' speed and power; if it is known
  PerComponent<std::optional<ComponentPower>> components;  // of a whole node
  PerStage<StageMeasurement> stages;
  std::string recording_file;  // empty: none. Paths are as written, relative to RUN.toml.
  std::string spans_file;
  InputLocation where;

  [[nodiscard]] const StageMeasurement& stage(TrainingStage which) const { return stages[index_of(which)]; }
  [[nodiscard]] StageMeasurement& stage(TrainingStage which) { return stages[index_of(which)]; }
  [[nodiscard]] bool has(Component which) const { return components[index_of(which)].has_value(); }
};

struct RunDescription {
  std::string name;
  double samples = 0.0;  // n, of the data set
  int epochs = 1;
  std::optional<Seconds> iteration;  // as a clock on the wall shows it; what stage times are checked against
  std::vector<NodeType> node_types;

  [[nodiscard]] std::int64_t nodes() const;
  // n / (sum of the nodes' batches): how often eqs. 23, 33 and 38 charge a batch. Not rounded: the last, smaller batch
  // of an epoch costs its share.
  [[nodiscard]] double iterations_per_epoch() const;
};

// Throws InputError with line and column for what cannot be meant: unknown keys, negative powers, a batch of nothing,
// measurements of different units. The files that the text names are not opened.
[[nodiscard]] RunDescription read_run(const std::string& source, std::string_view text);

// Who works in the stages that do not say so; read_run() has done it for the powers that RUN.toml lists. For whoever
// adds components from a recording: with an accelerator it computes, not the processor.
void set_usual_activity(NodeType& type, bool accelerator);

// To be called once recordings and calibrated powers are in. Throws InputError where a stage or all powers are missing,
// where stages were measured in different iterations, where the stages of an iteration do not add up to `iteration`:
// minutes given for seconds, and where one type takes 50 times as long as another.
void check_complete(const RunDescription& run);

// What is possible but more likely a mistake, a sentence each with the reason: a batch of all nodes given as that of
// one, powers that only milliwatts explain, one stage in another unit, times that nothing checks. Of a complete
// description.
[[nodiscard]] std::vector<std::string> doubts_of(const RunDescription& run);

}  // namespace flyball
