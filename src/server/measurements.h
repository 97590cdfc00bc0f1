// The sums of what one rank has measured so far, and the profile of a job that follows from its ranks' sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "profile/profile.h"
#include "wire/job_messages.h"

namespace flyball {

// Sums over all samples of one instruction at one clock.
struct MeasurementSum {
  std::string instruction;
  Megahertz clock;
  double samples = 0.0;
  Seconds time;
  Joules energy;
  double squares = 0.0;  // s^2, of the deviations of its samples' times from the means that were reported
};

// All sums of a rank, ordered by instruction, then from the highest clock down.
using MeasurementSums = std::vector<MeasurementSum>;

// How many pairs of instruction and clock one rank may report.
inline constexpr std::size_t kMostSums = 10'000;

// Adds measurements in their order, so that sums in memory equal those on the disk. Cost: a sort of the new ones, and
// linear in the sums.
void add_measurements(MeasurementSums& sums, const std::vector<InstructionMeasurement>& measurements);

// Returns what a measurement adds to MeasurementSum::squares.
[[nodiscard]] inline double squares_of(const InstructionMeasurement& one) {
  return static_cast<double>(one.samples) * one.time_deviation.value() * one.time_deviation.value();
}

// Returns what is known of a rank after another sweep: the sums of the sweep and, of the instructions that it did not
// measure, those from `before`. `waiting` is always taken from the sweep, and first and last
// microbatches with the instruction that they are of. Cost: linear in both.
[[nodiscard]] MeasurementSums with_sweep(const MeasurementSums& before, MeasurementSums sweep);

// Returns the energies of the instruction, from its highest clock down.
[[nodiscard]] std::vector<Joules> energies_by_clock(const MeasurementSums& sums, std::string_view instruction);

// One rank's part in a job's profile.
struct RankMeasurements {
  int rank = 0;
  int stage = 0;
  std::shared_ptr<const MeasurementSums> sums;
  int pipeline = 0;
};

// Returns by how much the runs of a stage's instructions scatter, by stage and instruction: the standard deviation of
// one run at one clock over its mean, averaged over clocks and ranks (by the root of its square). Communication is left
// out, since most of its scatter is that of what it waits for. Cost: linear in the sums.
[[nodiscard]] std::map<std::pair<int, std::string>, double> scatter_of(const std::vector<RankMeasurements>& ranks);

// A stage of which no rank has finished measuring; it is planned without a choice of clocks.
struct FixedStage {
  int stage = 0;
  Megahertz clock;           // the highest that its ranks can set; 0 where they do not tell it
  MeasurementSums measured;  // what one of them has measured so far
};

// Returns the profile of a job: the means of every rank, merged by stage by profile_of_rows() (profile/profile.h).
// Throws what that function throws.
//
// Waiting has a power at each clock at which more than half of the stage's ranks that waited did so; where there is no
// such clock, the stage has one power.
//
// A fixed stage has every computation at the highest clock at which it was measured there. A computation that was not
// measured is taken to be as fast as the fastest of the other stages at its highest clock: if it were taken to be
// slower than it is, the others would be slowed to wait for it.
[[nodiscard]] Profile merged_profile(const std::string& job, const std::vector<RankMeasurements>& ranks,
                                     const std::vector<FixedStage>& fixed = {});

}  // namespace flyball
