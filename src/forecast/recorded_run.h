// A run together with what was recorded of its nodes: RUN.toml and the files that it names, as one value.
//
// A recording with spans gives stages their times and joules, and components that RUN.toml leaves open their powers;
// one without is only drawn. Values; not thread-safe while they are changed. Cost: linear in the files.
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

struct RecordedType {
  std::size_t type = 0;  // index in RunDescription::node_types
  Recording recording;
  std::vector<StageSpan> spans;  // empty: none were given
};

struct RecordedRun {
  RunDescription run;
  std::vector<RecordedType> recordings;  // of a node type one at most
};

// Files that RUN.toml names are looked for beside it. Throws what read_run(), read_recording(), read_spans() and
// attach_recording() throw, and InputError for a file that cannot be read. check_complete() is left to the caller.
[[nodiscard]] RecordedRun read_recorded_run(const std::string& file);

// Components of a node type get the powers that the recording shows, active and idle, in place of RUN.toml's. It is
// drawn, too, where the type has no recording of its own. Throws what read_recording() and calibrate() throw.
void calibrate_type(RecordedRun& all, std::size_t type, const std::string& file);

// What one recorded node drew, for a picture: each power until the next, the last of no length. Moved in time so that
// the first measured iteration lies on the first one of `pieces`, the forecast of the same type (power_over_time()).
[[nodiscard]] std::vector<std::pair<Seconds, Watts>> measured_power(const RecordedType& recorded,
                                                                    const std::vector<PowerPiece>& pieces);

}  // namespace flyball
