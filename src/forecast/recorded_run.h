// A run together with what was recorded of its nodes: RUN.toml and the files that it names, as one value.
//
// A recording with spans gives stages their times and joules, and gives powers to the components for which RUN.toml has
// none. A recording without spans is only drawn. Cost: linear in the files.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "forecast/forecast.h"
#include "forecast/recording.h"
#include "forecast/run_description.h"

namespace flyball {

// What was recorded of one type of node.
struct RecordedType {
  std::size_t type = 0;  // index in RunDescription::node_types
  Recording recording;
  std::vector<StageSpan> spans;  // empty: none were given
};

struct RecordedRun {
  RunDescription run;
  std::vector<RecordedType> recordings;  // at most one for each type of node
};

// Reads RUN.toml and the files that it names, which are looked for beside it. Throws what read_run(), read_recording(),
// read_spans() and attach_recording() throw, and SystemError for a file that cannot be read. The caller must call
// check_complete().
[[nodiscard]] RecordedRun read_recorded_run(const std::string& file);

// Gives the components of a node type the active and idle powers that the recording in `file` shows, in place of those
// of RUN.toml. Where the type has no recording of its own, this one is drawn. Throws what read_recording() and
// calibrate() throw.
void calibrate_type(RecordedRun& all, std::size_t type, const std::string& file);

// Returns the power that a recorded node drew, for a picture. Each power holds until the next; the last only ends it.
// Times are shifted so that the first measured iteration begins with the first one of `pieces`, the forecast of the
// same type (power_over_time()).
[[nodiscard]] std::vector<std::pair<Seconds, Watts>> measured_power(const RecordedType& recorded,
                                                                    const std::vector<PowerPiece>& pieces);

}  // namespace flyball
