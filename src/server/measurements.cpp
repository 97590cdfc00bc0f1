// Sums are a sorted vector: new ones are sorted first and merged in one pass.
#include "server/measurements.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "pipeline/instruction.h"

namespace flyball {
namespace {

bool stands_before(const MeasurementSum& a, const MeasurementSum& b) {
  return std::tie(a.instruction, b.clock) < std::tie(b.instruction, a.clock);
}

void add_row(std::string& csv, int rank, int stage, const std::string& instruction, Megahertz clock,
             const MeasurementSum& sum) {
  fmt::format_to(std::back_inserter(csv), "{},{},{},{},{},{}\n", rank, stage, instruction, clock.value(),
                 sum.time.value() / sum.samples, sum.energy.value() / sum.samples);
}

// Of every instruction the sum at its highest clock, with which it begins.
std::map<std::string, const MeasurementSum*> at_highest_clocks(const MeasurementSums& sums) {
  std::map<std::string, const MeasurementSum*> highest;
  for (const MeasurementSum& sum : sums) {
    if (sum.instruction != kWaitingName) highest.emplace(sum.instruction, &sum);
  }
  return highest;
}

void add_fixed_stages(std::string& csv, const std::vector<RankMeasurements>& ranks,
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
    auto chosen = at_highest_clocks(stage.measured);
    for (const auto& [instruction, sum] : chosen) add_row(csv, number, stage.stage, instruction, sum->clock, *sum);
    for (const auto& [instruction, sum] : fastest) {
      if (chosen.count(instruction) != 0) continue;
      add_row(csv, number, stage.stage, instruction, stage.clock > Megahertz(0) ? stage.clock : sum->clock, *sum);
    }
    ++number;
  }
}

}  // namespace

void add_measurements(MeasurementSums& sums, const std::vector<InstructionMeasurement>& measurements) {
  MeasurementSums added;
  added.reserve(measurements.size());
  for (const InstructionMeasurement& one : measurements) {
    const auto samples = static_cast<double>(one.samples);
    added.push_back({one.instruction, one.clock, samples, one.time * samples, one.energy * samples});
  }
  std::stable_sort(added.begin(), added.end(), stands_before);
  MeasurementSums fresh;  // each once; one by one into their places they would move all that lie behind, every time
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
  }
  const auto known = std::ssize(sums);
  sums.insert(sums.end(), std::make_move_iterator(fresh.begin()), std::make_move_iterator(fresh.end()));
  std::inplace_merge(sums.begin(), sums.begin() + known, sums.end(), stands_before);
}

void add_measurement(MeasurementSums& sums, const InstructionMeasurement& measurement) {
  add_measurements(sums, {measurement});
}

MeasurementSums with_sweep(const MeasurementSums& before, MeasurementSums sweep) {
  const auto by_instruction = [](const MeasurementSum& a, const MeasurementSum& b) {
    return a.instruction < b.instruction;
  };
  MeasurementSums sums;
  sums.reserve(before.size() + sweep.size());
  std::copy_if(before.begin(), before.end(), std::back_inserter(sums), [&](const MeasurementSum& sum) {
    // A sweep that tells nothing of waiting saw too little of it to tell its draw; the old one's may be true no more.
    return sum.instruction != kWaitingName && !std::binary_search(sweep.begin(), sweep.end(), sum, by_instruction);
  });
  const auto kept = std::ssize(sums);
  sums.insert(sums.end(), std::make_move_iterator(sweep.begin()), std::make_move_iterator(sweep.end()));
  std::inplace_merge(sums.begin(), sums.begin() + kept, sums.end(), by_instruction);
  return sums;
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
  std::string csv = "rank,stage,instruction,frequency,time,energy\n";
  for (const RankMeasurements& rank : ranks) {
    MeasurementSum waiting;  // over all clocks: ranks may have waited at different ones
    for (const MeasurementSum& sum : *rank.sums) {
      if (sum.instruction == kWaitingName) {
        waiting.time += sum.time;
        waiting.energy += sum.energy;
        continue;
      }
      add_row(csv, rank.rank, rank.stage, sum.instruction, sum.clock, sum);
    }
    if (!(waiting.time > Seconds(0))) continue;
    fmt::format_to(std::back_inserter(csv), "{},{},{},0,1,{}\n", rank.rank, rank.stage, kWaitingName,
                   (waiting.energy / waiting.time).value());
  }
  if (!fixed.empty()) add_fixed_stages(csv, ranks, fixed);
  return read_profile("measurements of job " + job, csv);
}

}  // namespace flyball
