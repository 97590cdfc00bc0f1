// read_runs() reads the points first, then their stages, then their operations, and checks each file against those
// before it. Operations are stored by index, since every computation of an iteration is looked up again and again.
#include "replay/recorded_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "pipeline/instruction.h"
#include "trace/byte_source.h"

namespace flyball {
namespace {

constexpr long kMostPoints = 10'000;
constexpr long kMostRecordedStages = 10'000;
constexpr long kMostMicrobatches = 1'000'000;
constexpr std::size_t kMostComputations = 20'000'000;
constexpr double kMostSeconds = 1e6;
constexpr double kMostJoules = 1e9;
constexpr double kMostMegahertz = 1e6;
// Times of one pipeline's operations at the same clocks, from one series to another. Those that Perseus's authors
// recorded are within 2 %.
constexpr double kMostApart = 1.2;

// The whole text of a file that may be gzip.
std::string text_of(const std::filesystem::path& path) {
  ByteSource bytes(path.string());
  std::string text;
  std::array<char, 1u << 16> block{};
  while (const std::size_t got = bytes.read(block.data(), block.size())) {
    text.append(block.data(), got);
    if (text.size() <= kMaxInputBytes) continue;
    throw InputError({path.string()}, fmt::format("the file has more than {} MiB", kMaxInputBytes >> 20),
                     "record fewer points or microbatches");
  }
  if (bytes.cut_off()) {
    throw InputError({path.string()}, "the gzip stream ends before its end", "write or copy the file again");
  }
  return text;
}

double in_range(const CsvReader& csv, std::string_view column, double least, double most, std::string_view unit) {
  return csv.number_within(column, least, most, unit, fmt::format("write what was measured, in {}", unit));
}

int index_in(const CsvReader& csv, std::string_view column, long most) {
  const long value = csv.integer(column);
  if (value >= 0 && value < most) return static_cast<int>(value);
  throw InputError(csv.where(column), fmt::format("{} is {}, it must be from 0 to {}", column, value, most - 1),
                   "count from 0");
}

// One computation or one loading, as its row says.
struct Row {
  std::size_t point = 0;
  int stage = 0;
  int instruction = -1;  // -1: loading
  int microbatch = 0;
  Megahertz clock;
  Seconds time;
  std::size_t line = 0;
};

class RunsReader {
 public:
  explicit RunsReader(const std::filesystem::path& folder) : folder_(folder) { runs_.source = folder.string(); }

  RecordedRuns read() {
    read_points();
    read_stages();
    const std::filesystem::path packed = folder_ / "operations.csv.gz";
    operations_file_ = std::filesystem::exists(packed) ? packed : folder_ / "operations.csv";
    read_operations();
    place_operations();
    return std::move(runs_);
  }

 private:
  void read_points() {
    const std::string file = (folder_ / "points.csv").string();
    const std::string text = text_of(file);
    CsvReader csv(file, text, {"point", "max_clock", "iteration_time_s", "iteration_energy_j"});
    std::vector<std::size_t> at_max_clock;
    while (csv.next()) {
      RecordedPoint point;
      point.number = index_in(csv, "point", std::numeric_limits<int>::max());
      const bool is_new = point_of_.try_emplace(point.number, runs_.points.size()).second;
      if (!is_new || runs_.points.size() == static_cast<std::size_t>(kMostPoints)) {
        throw InputError(csv.where("point"),
                         is_new ? fmt::format("there are more than {} points", kMostPoints)
                                : fmt::format("point {} stands twice", point.number),
                         "keep one row for each plan that ran");
      }
      point.time = Seconds(in_range(csv, "iteration_time_s", 1e-9, kMostSeconds, "s"));
      point.energy = Joules(in_range(csv, "iteration_energy_j", 1e-9, kMostJoules, "J"));
      if (csv.integer("max_clock") != 0) at_max_clock.push_back(runs_.points.size());
      runs_.points.push_back(std::move(point));
    }
    if (runs_.points.empty()) throw InputError({file}, "there are no points", "add one row for each plan that ran");
    // Of several runs at maximum clocks the last finds the boards as warm as the plans do. The others only warm them
    // up.
    for (std::size_t k = 0; k + 1 < at_max_clock.size(); ++k) runs_.points[at_max_clock[k]].warms_up = true;
  }

  std::size_t known_point(const CsvReader& csv) const {
    const auto found = point_of_.find(index_in(csv, "point", std::numeric_limits<int>::max()));
    if (found != point_of_.end()) return found->second;
    throw InputError(csv.where("point"), fmt::format("points.csv has no point {}", csv.integer("point")),
                     "add it there, or delete its rows here");
  }

  void read_stages() {
    const std::string file = (folder_ / "runs.csv").string();
    const std::string text = text_of(file);
    CsvReader csv(file, text, {"point", "rank", "iteration_energy_j"});
    while (csv.next()) {
      RecordedPoint& point = runs_.points[known_point(csv)];
      const auto stage = static_cast<std::size_t>(index_in(csv, "rank", kMostRecordedStages));
      if (point.drawn.size() <= stage) point.drawn.resize(stage + 1);
      if (point.drawn[stage] > Joules(0)) {
        throw InputError(csv.where("rank"), fmt::format("rank {} of point {} stands twice", stage, point.number),
                         "keep one row per point and rank: the mean over its iterations");
      }
      point.drawn[stage] = Joules(in_range(csv, "iteration_energy_j", 1e-9, kMostJoules, "J"));
      runs_.stages = std::max(runs_.stages, static_cast<int>(stage) + 1);
    }
    for (const RecordedPoint& point : runs_.points) {
      for (std::size_t stage = 0; stage < at(runs_.stages); ++stage) {
        if (stage < point.drawn.size() && point.drawn[stage] > Joules(0)) continue;
        throw InputError({file}, fmt::format("there is no rank {} of point {}", stage, point.number),
                         "record every rank at every point; ranks are pipeline stages, counted from 0");
      }
    }
    if (runs_.stages == 0) throw InputError({file}, "there are no rows", "add one row per point and rank");
  }

  int instruction_of(std::string_view name) {
    // Perseus's files say "load".
    if (name == kDataLoadName || name == "load") return -1;
    const auto found = std::find(runs_.instructions.begin(), runs_.instructions.end(), name);
    if (found == runs_.instructions.end()) {
      runs_.instructions.emplace_back(name);
      return static_cast<int>(runs_.instructions.size()) - 1;
    }
    return static_cast<int>(found - runs_.instructions.begin());
  }

  void read_operations() {
    const std::string text = text_of(operations_file_);
    CsvReader csv(operations_file_.string(), text,
                  {"point", "rank", "instruction", "microbatch", "clock_mhz", "time_s"});
    while (csv.next()) {
      Row row;
      row.point = known_point(csv);
      row.stage = index_in(csv, "rank", kMostRecordedStages);
      if (row.stage >= runs_.stages) {
        throw InputError(csv.where("rank"), fmt::format("runs.csv has no rank {}", row.stage),
                         "add it there, or delete its rows here");
      }
      row.instruction = instruction_of(csv.text("instruction"));
      row.microbatch = index_in(csv, "microbatch", kMostMicrobatches);
      const bool computes = row.instruction >= 0;
      row.clock = Megahertz(in_range(csv, "clock_mhz", computes ? 1.0 : 0.0, kMostMegahertz, "MHz"));
      row.time = Seconds(in_range(csv, "time_s", 1e-9, kMostSeconds, "s"));
      row.line = csv.line();
      runs_.microbatches = std::max(runs_.microbatches, row.microbatch + 1);
      if (computes) runs_.top = std::max(runs_.top, row.clock);
      rows_.push_back(row);
    }
    if (runs_.instructions.empty()) {
      throw InputError({operations_file_.string()}, "there are no computations",
                       "add rows such as 0,0,forward,0,1410,0.0185 (point, rank, instruction, microbatch, MHz, s)");
    }
  }

  void place_operations() {
    const std::size_t computations = runs_.index(runs_.stages, 0, 0);
    if (computations * runs_.points.size() > kMostComputations) {
      throw InputError({operations_file_.string()},
                       fmt::format("{} points of {} computations are more than {}", runs_.points.size(), computations,
                                   kMostComputations),
                       "keep fewer points; microbatches are counted from 0 without gaps");
    }
    for (RecordedPoint& point : runs_.points) {
      point.clock.resize(computations);
      point.taken.resize(computations);
      point.load.resize(runs_.load_index(runs_.stages, 0));
    }
    for (const Row& row : rows_) {
      RecordedPoint& point = runs_.points[row.point];
      const std::size_t k = row.instruction < 0 ? runs_.load_index(row.stage, row.microbatch)
                                                : runs_.index(row.stage, row.instruction, row.microbatch);
      Seconds& time = row.instruction < 0 ? point.load[k] : point.taken[k];
      if (time > Seconds(0)) {
        throw InputError({operations_file_.string(), row.line, 1},
                         fmt::format("this operation of point {} stands twice", point.number),
                         "keep one row per point, rank, instruction and microbatch: the mean over its iterations");
      }
      time = row.time;
      if (row.instruction >= 0) point.clock[k] = row.clock;
    }
    for (const RecordedPoint& point : runs_.points) {
      const auto missing = std::find(point.taken.begin(), point.taken.end(), Seconds(0));
      if (missing == point.taken.end()) continue;
      const auto k = static_cast<std::size_t>(missing - point.taken.begin());
      const auto microbatches = at(runs_.microbatches);
      throw InputError({operations_file_.string()},
                       fmt::format("point {} has no {} of microbatch {} on rank {}", point.number,
                                   runs_.instructions[k / microbatches % runs_.instructions.size()], k % microbatches,
                                   k / microbatches / runs_.instructions.size()),
                       "record every operation of every point");
    }
  }

  std::filesystem::path folder_;
  std::filesystem::path operations_file_;
  RecordedRuns runs_;
  std::map<int, std::size_t> point_of_;
  std::vector<Row> rows_;
};

// The means of an instruction's times by clock, over all points and all microbatches of a stage.
std::map<Megahertz, double> times_by_clock(const RecordedRuns& runs, int stage, int instruction) {
  std::map<Megahertz, std::pair<double, long>> sums;
  for (const RecordedPoint& point : runs.points) {
    for (int m = 0; m < runs.microbatches; ++m) {
      const std::size_t i = runs.index(stage, instruction, m);
      auto& [sum, count] = sums[point.clock[i]];
      sum += point.taken[i].value();
      ++count;
    }
  }
  std::map<Megahertz, double> means;
  for (const auto& [clock, one] : sums) means[clock] = one.first / static_cast<double>(one.second);
  return means;
}

void expect_other_folder(const RecordedRuns& one, const RecordedRuns& other) {
  std::error_code not_there;  // runs need not come from files
  if (one.source != other.source && !std::filesystem::equivalent(one.source, other.source, not_there)) return;
  throw InputError({other.source}, "these runs are named twice", "name each folder of runs once");
}

// Runs of another model may have the same stages, microbatches and instructions; at the same clocks their operations
// take other times.
void expect_same_pipeline(const RecordedRuns& first, const RecordedRuns& more) {
  if (more.stages != first.stages || more.microbatches != first.microbatches ||
      more.instructions != first.instructions) {
    const auto shape = [](const RecordedRuns& one) {
      return fmt::format("{} and {} with {}", counted(one.stages, "stage"),
                         counted(one.microbatches, "microbatch", "es"), fmt::join(one.instructions, ", "));
    };
    throw InputError({more.source},
                     fmt::format("these runs have {}, those of {} have {}", shape(more), first.source, shape(first)),
                     "fit together only runs of one pipeline, with their instructions in the same order");
  }
  for (int stage = 0; stage < first.stages; ++stage) {
    for (int k = 0; k < static_cast<int>(first.instructions.size()); ++k) {
      const std::map<Megahertz, double> known = times_by_clock(first, stage, k);
      double here = 0.0;
      double there = 0.0;
      double clocks = 0.0;
      for (const auto& [clock, time] : times_by_clock(more, stage, k)) {
        const auto found = known.find(clock);
        if (found == known.end()) continue;
        here += time;
        there += found->second;
        ++clocks;
      }
      if (std::max(here, there) <= kMostApart * std::min(here, there)) continue;
      throw InputError({more.source},
                       fmt::format("at the clocks that both have, a {} of stage {} takes {:.3g} s here and {:.3g} s in "
                                   "{}",
                                   first.instructions[at(k)], stage, here / clocks, there / clocks, first.source),
                       "fit together only runs of one pipeline: of one model, split and sized in one way");
    }
  }
}

}  // namespace

std::vector<std::size_t> RecordedRuns::judged() const {
  std::vector<std::size_t> indices;
  for (std::size_t k = 0; k < points.size(); ++k) {
    if (!points[k].warms_up) indices.push_back(k);
  }
  return indices;
}

RecordedRuns read_runs(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) {
    throw SystemError(
        fmt::format("cannot read {}: it is no folder; give one with points.csv, runs.csv and "
                    "operations.csv",
                    folder.string()));
  }
  return RunsReader(folder).read();
}

RecordedRuns join_runs(std::vector<RecordedRuns> runs) {
  for (std::size_t k = 1; k < runs.size(); ++k) {
    for (std::size_t other = 0; other < k; ++other) expect_other_folder(runs[other], runs[k]);
    expect_same_pipeline(runs[0], runs[k]);
  }
  RecordedRuns all = std::move(runs.at(0));
  for (std::size_t k = 1; k < runs.size(); ++k) {
    RecordedRuns& more = runs[k];
    all.source += " and " + more.source;
    all.top = std::max(all.top, more.top);
    std::move(more.points.begin(), more.points.end(), std::back_inserter(all.points));
  }
  return all;
}

std::vector<RecordedRuns> read_each(const std::vector<std::string>& folders) {
  std::vector<RecordedRuns> runs;
  for (const std::string& folder : folders) runs.push_back(read_runs(folder));
  return runs;
}

}  // namespace flyball
