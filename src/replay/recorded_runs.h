// Recorded runs: the time and energy of a training pipeline's iterations, and the times of their operations at the
// clocks that a plan gave them. All numbers are means over the iterations of a point. docs/formats/runs.md describes
// the format.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "base/index.h"
#include "base/units.h"

namespace flyball {

// One plan that ran, for some iterations.
struct RecordedPoint {
  int number = 0;
  // Whether the point ran while the boards were getting warm. Such points are neither fitted to nor judged.
  bool warms_up = false;
  Seconds time;               // of an iteration
  Joules energy;              // of an iteration, all stages
  std::vector<Joules> drawn;  // of an iteration, per stage
  // The clock and the time of each computation, in the order of RecordedRuns::index().
  std::vector<Megahertz> clock;
  std::vector<Seconds> taken;
  std::vector<Seconds> load;  // by RecordedRuns::load_index(); 0 s where nothing is loaded
};

// Immutable once read; safe to share between threads.
struct RecordedRuns {
  std::string source;  // the folder, for error messages
  int stages = 0;
  int microbatches = 0;
  std::vector<std::string> instructions;  // "forward", "backward", ..., in the order of their first rows
  std::vector<RecordedPoint> points;      // in the order of the file
  Megahertz top;                          // the highest clock of any operation

  [[nodiscard]] std::size_t index(int stage, int instruction, int microbatch) const {
    return (at(stage) * instructions.size() + at(instruction)) * at(microbatches) + at(microbatch);
  }
  [[nodiscard]] std::size_t load_index(int stage, int microbatch) const {
    return at(stage) * at(microbatches) + at(microbatch);
  }
  // The indices of the points that do not warm up.
  [[nodiscard]] std::vector<std::size_t> judged() const;
};

// Reads points.csv, runs.csv and operations.csv (or operations.csv.gz) of `folder`. Throws SystemError where one cannot
// be read, and InputError (file, line, column, mend) for columns that are missing, values out of range, rows that stand
// twice, and points, stages or operations that one file has and another lacks. Cost: linear in the rows.
[[nodiscard]] RecordedRuns read_runs(const std::filesystem::path& folder);

// Reads the runs of each of these folders. Throws what read_runs() does.
[[nodiscard]] std::vector<RecordedRuns> read_each(const std::vector<std::string>& folders);

// Returns runs of one pipeline, at least one of them, as one: with the points of all, those of the first runs first.
// Points keep their numbers. Throws InputError where stages, microbatches or instructions are not those of the first
// runs, where operations at the same clocks take times that are more than a fifth apart, and where runs come from one
// folder twice. Cost: linear in the operations.
[[nodiscard]] RecordedRuns join_runs(std::vector<RecordedRuns> runs);

}  // namespace flyball
