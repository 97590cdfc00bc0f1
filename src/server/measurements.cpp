// Sums are kept sorted, so that a rank's instruction is one stretch of them; a profile is made of their means.
#include "server/measurements.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <tuple>

#include "base/own_name.h"
#include "pipeline/instruction.h"

namespace flyball {
namespace {

bool stands_before(const MeasurementSum& a, const MeasurementSum& b) {
  return std::tie(a.instruction, b.clock) < std::tie(b.instruction, a.clock);
}

ProfileRow mean_of(const MeasurementSum& sum, int rank, int stage) {
  return {stage, sum.instruction, rank, {sum.clock, sum.time / sum.samples, sum.energy / sum.samples}};
}

// Of first and last microbatches, how many ranks of a stage know them apart at a clock. The slowest rank counts for a
// stage, which may be one that does not. Without a clock that all have, they are left out as if no rank knew them.
using OwnClock = std::tuple<int, std::string_view, Megahertz>;  // stage, own name, clock
std::map<OwnClock, std::size_t> own_clocks(const std::vector<RankMeasurements>& ranks) {
  std::map<OwnClock, std::size_t> counts;
  for (const RankMeasurements& rank : ranks) {
    for (const MeasurementSum& sum : *rank.sums) {
      if (is_own_name(sum.instruction)) ++counts[{rank.stage, sum.instruction, sum.clock}];
    }
  }
  return counts;
}

// For each instruction the sum at its highest clock, which comes first.
std::map<std::string, const MeasurementSum*> at_highest_clocks(const MeasurementSums& sums) {
  std::map<std::string, const MeasurementSum*> highest;
  for (const MeasurementSum& sum : sums) {
    if (sum.instruction != kWaitingName && !is_own_name(sum.instruction)) highest.emplace(sum.instruction, &sum);
  }
  return highest;
}

void add_fixed_stages(std::vector<ProfileRow>& rows, const std::vector<RankMeasurements>& ranks,
                      const std::vector<FixedStage>& fixed) {
  std::map<std::string, const MeasurementSum*> fastest;  // computations of the others
  int number = 0;
  for (const RankMeasurements& rank : ranks) {
    number = std::max(number, rank.rank + 1);
    for (const auto& [instruction, sum] : at_highest_clocks(*rank.sums)) {
      if (is_constant_operation(instruction)) continue;
      const MeasurementSum*& best = fastest.emplace(instruction, sum).first->second;
      if (sum->time / sum->samples < best->time / best->samples) best = sum;
    }
  }
  for (const FixedStage& stage : fixed) {
    const auto chosen = at_highest_clocks(stage.measured);
    for (const auto& [instruction, sum] : chosen) rows.push_back(mean_of(*sum, number, stage.stage));
    for (const auto& [instruction, sum] : fastest) {
      if (chosen.count(instruction) != 0) continue;
      rows.push_back(mean_of(*sum, number, stage.stage));
      if (stage.clock > Megahertz(0)) rows.back().option.frequency = stage.clock;
    }
    ++number;
  }
}

// What the GPUs of each stage drew while they waited, in joules of one second. A clock counts if more than half of the
// ranks that waited did so at it, with the mean of these: one rank that hardly waited must not hide what the others
// know, nor one that saw an odd clock add it. A stage without such a clock has the mean of its ranks, at no clock.
void add_waiting(std::vector<ProfileRow>& rows, const std::vector<RankMeasurements>& ranks) {
  struct Stage {
    std::size_t ranks = 0;
    Watts sum;                                     // of each rank's mean over its clocks
    std::map<Megahertz, std::vector<Watts>> at{};  // by clock, one for each rank
  };
  std::map<int, Stage> stages;
  for (const RankMeasurements& rank : ranks) {
    MeasurementSum all;
    for (const MeasurementSum& sum : *rank.sums) {
      if (sum.instruction != kWaitingName) continue;
      all.time += sum.time;
      all.energy += sum.energy;
      if (sum.clock > Megahertz(0)) stages[rank.stage].at[sum.clock].push_back(sum.energy / sum.time);
    }
    if (!(all.time > Seconds(0))) continue;
    ++stages[rank.stage].ranks;
    stages[rank.stage].sum += all.energy / all.time;
  }
  for (const auto& [number, stage] : stages) {
    const std::size_t rows_before = rows.size();
    for (const auto& [clock, powers] : stage.at) {
      if (2 * powers.size() <= stage.ranks) continue;
      const Watts mean = std::accumulate(powers.begin(), powers.end(), Watts()) / static_cast<double>(powers.size());
      rows.push_back({number, kWaitingName, 0, {clock, Seconds(1), mean * Seconds(1)}});
    }
    if (rows.size() > rows_before) continue;
    const Watts mean = stage.sum / static_cast<double>(stage.ranks);
    rows.push_back({number, kWaitingName, 0, {Megahertz(0), Seconds(1), mean * Seconds(1)}});
  }
}

}  // namespace

void add_measurements(MeasurementSums& sums, const std::vector<InstructionMeasurement>& measurements) {
  MeasurementSums added;
  added.reserve(measurements.size());
  for (const InstructionMeasurement& one : measurements) {
    const auto samples = static_cast<double>(one.samples);
    added.push_back({one.instruction, one.clock, samples, one.time * samples, one.energy * samples, squares_of(one)});
  }
  std::stable_sort(added.begin(), added.end(), stands_before);
  MeasurementSums fresh;  // collected first, since inserting them one by one would move all sums behind each of them
  for (MeasurementSum& one : added) {
    auto place = std::lower_bound(sums.begin(), sums.end(), one, stands_before);
    if (place == sums.end() || stands_before(one, *place)) {
      if (fresh.empty() || stands_before(fresh.back(), one)) {
        fresh.push_back(std::move(one));
        continue;
      }
      place = std::prev(fresh.end());
    }
    place->samples += one.samples;
    place->time += one.time;
    place->energy += one.energy;
    place->squares += one.squares;
  }
  const auto known = std::ssize(sums);
  sums.insert(sums.end(), std::make_move_iterator(fresh.begin()), std::make_move_iterator(fresh.end()));
  std::inplace_merge(sums.begin(), sums.begin() + known, sums.end(), stands_before);
}

MeasurementSums with_sweep(const MeasurementSums& before, MeasurementSums sweep) {
  const auto by_instruction = [](const MeasurementSum& a, const MeasurementSum& b) {
    return a.instruction < b.instruction;
  };
  const auto swept = [&](std::string_view instruction) {
    return std::ranges::binary_search(sweep, instruction, {}, &MeasurementSum::instruction);
  };
  MeasurementSums sums;
  sums.reserve(before.size() + sweep.size());
  std::copy_if(before.begin(), before.end(), std::back_inserter(sums), [&](const MeasurementSum& sum) {
    // A sweep without `waiting` saw too little of it to measure its draw, and the old value may no longer be right. Nor
    // may what first and last microbatches took, where the sweep did not know them apart.
    return sum.instruction != kWaitingName && !swept(sum.instruction) && !swept(common_name(sum.instruction));
  });
  const auto kept = std::ssize(sums);
  sums.insert(sums.end(), std::make_move_iterator(sweep.begin()), std::make_move_iterator(sweep.end()));
  std::inplace_merge(sums.begin(), sums.begin() + kept, sums.end(), by_instruction);
  return sums;
}

std::map<std::pair<int, std::string>, double> scatter_of(const std::vector<RankMeasurements>& ranks) {
  struct Sum {
    double samples = 0.0;
    double squares = 0.0;  // of relative deviations
  };
  std::map<std::pair<int, std::string>, Sum> all;
  for (const RankMeasurements& rank : ranks) {
    for (const MeasurementSum& sum : *rank.sums) {
      const bool scatters = !is_constant_operation(sum.instruction) || sum.instruction == kDataLoadName ||
                            sum.instruction == kOptimizerStepName;
      if (!scatters) continue;
      const double mean = sum.time.value() / sum.samples;
      Sum& of_stage = all[{rank.stage, sum.instruction}];
      of_stage.samples += sum.samples;
      of_stage.squares += sum.squares / (mean * mean);
    }
  }
  std::map<std::pair<int, std::string>, double> scatter;
  for (const auto& [place, sum] : all) scatter[place] = std::sqrt(sum.squares / sum.samples);
  return scatter;
}

std::vector<Joules> energies_by_clock(const MeasurementSums& sums, std::string_view instruction) {
  std::vector<Joules> energies;
  for (const MeasurementSum& sum : sums) {
    if (sum.instruction == instruction) energies.push_back(sum.energy / sum.samples);
  }
  return energies;
}

Profile merged_profile(const std::string& job, const std::vector<RankMeasurements>& ranks,
                       const std::vector<FixedStage>& fixed) {
  std::vector<ProfileRow> rows;
  const std::map<OwnClock, std::size_t> known = own_clocks(ranks);
  std::map<int, std::size_t> ranks_of_stages;
  for (const RankMeasurements& rank : ranks) ++ranks_of_stages[rank.stage];
  for (const RankMeasurements& rank : ranks) {
    for (const MeasurementSum& sum : *rank.sums) {
      if (sum.instruction == kWaitingName) continue;
      const auto own = known.find({rank.stage, sum.instruction, sum.clock});
      if (own != known.end() && own->second < ranks_of_stages[rank.stage]) continue;
      rows.push_back(mean_of(sum, rank.rank, rank.stage));
    }
  }
  add_waiting(rows, ranks);
  if (!fixed.empty()) add_fixed_stages(rows, ranks, fixed);
  return profile_of_rows("measurements of job " + job, rows);
}

}  // namespace flyball
