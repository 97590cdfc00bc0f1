// What one rank has measured so far, as sums, and the profile of a job that follows from its ranks' sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
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
};

// Ordered by instruction, then from the highest clock down. A value: snapshots are shared, not copied.
using MeasurementSums = std::vector<MeasurementSum>;

// Instructions and clocks that one rank may report, together.
inline constexpr std::size_t kMostSums = 10'000;

// In their order, so that sums in memory are those on the disk. Cost: a sort of what is new, and linear in the sums.
void add_measurements(MeasurementSums& sums, const std::vector<InstructionMeasurement>& measurements);
void add_measurement(MeasurementSums& sums, const InstructionMeasurement& measurement);

// What is known of a rank after a further sweep: the sweep, and of what was known before the instructions that it does
// not have. `waiting` is always the sweep's. Cost: linear in both.
[[nodiscard]] MeasurementSums with_sweep(const MeasurementSums& before, MeasurementSums sweep);

// Energy of the instruction per clock, from the highest clock down.
[[nodiscard]] std::vector<Joules> energies_by_clock(const MeasurementSums& sums, std::string_view instruction);

// One rank's part in a job's profile.
struct RankMeasurements {
  int rank = 0;
  int stage = 0;
  std::shared_ptr<const MeasurementSums> sums;
};

// A stage of which no rank has finished measuring: it is planned with without a choice of clocks.
struct FixedStage {
  int stage = 0;
  Megahertz clock;           // the highest that its ranks can set; 0 where they do not say
  MeasurementSums measured;  // by one of them, so far
};

// Means of every rank, merged by stage by profile_of_rows (profile/profile.h), which also says what it throws.
//
// A fixed stage has every computation at the highest clock at which it has been measured there. What has not been is
// taken to be as fast as the fastest of the other stages at its highest clock: were it taken to be slower than it is,
// the others would be slowed to wait for it.
[[nodiscard]] Profile merged_profile(const std::string& job, const std::vector<RankMeasurements>& ranks,
                                     const std::vector<FixedStage>& fixed = {});

}  // namespace flyball
