// Recorded runs: what each iteration of a training pipeline took and drew, and what its operations took at the clocks
// that a plan gave them. docs/formats/runs.md is the format; the means over a point's iterations are what counts.
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
  // Ran while the boards were getting warm; neither fitted to nor judged.
  bool warms_up = false;
  Seconds time;               // of an iteration
  Joules energy;              // of an iteration, all stages
  std::vector<Joules> drawn;  // the same, per stage
  // Per computation, in the order of RecordedRuns::index.
  std::vector<Megahertz> clock;
  std::vector<Seconds> taken;
  std::vector<Seconds> load;  // per stage and microbatch; 0 s where nothing is loaded
};

// Immutable once read; safe to share between threads.
struct RecordedRuns {
  std::string source;  // the folder, for messages
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
  // The points that do not warm up, as indices.
  [[nodiscard]] std::vector<std::size_t> judged() const;
};

// Reads points.csv, runs.csv and operations.csv (or operations.csv.gz) of `folder`. Throws SystemError where one cannot
// be read, InputError (file, line, column, mend) for columns that are missing, values out of range, rows that stand
// twice, points, stages or operations that one file has and another lacks. Cost: linear in the rows.
[[nodiscard]] RecordedRuns read_runs(const std::filesystem::path& folder);

}  // namespace flyball
