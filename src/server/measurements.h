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

void add_measurement(MeasurementSums& sums, const InstructionMeasurement& measurement);

// Energy of the instruction per clock, from the highest clock down.
[[nodiscard]] std::vector<Joules> energies_by_clock(const MeasurementSums& sums, std::string_view instruction);

// One rank's part in a job's profile.
struct RankMeasurements {
  int rank = 0;
  int stage = 0;
  std::shared_ptr<const MeasurementSums> sums;
};

// Means of every rank, merged by stage as read_profile (profile/profile.h) merges them, which also says what it throws.
[[nodiscard]] Profile merged_profile(const std::string& job, const std::vector<RankMeasurements>& ranks);

}  // namespace flyball
