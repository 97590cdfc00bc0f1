// A schedule as a session runs it. Only the session's own files include this.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "client/session.h"

namespace flyball {

inline constexpr Seconds kSchedulePoll{30.0};  // how long the listener lets the server wait for the next schedule

// The numbers of moments on the device's timeline. Each group has its own, so that a step's moments may still come when
// the next one notes its own: those of steps that are watched, in turn, of those that are measured, and of those that
// are measured without waiting for the GPU.
inline constexpr std::size_t kMeasuredMoments = 2;
inline constexpr std::size_t kWantedMoments = 3;
[[nodiscard]] constexpr std::size_t moment_number(std::size_t group, std::size_t number) { return 4 * number + group; }
inline constexpr std::int64_t kForgottenAfter = 16;  // steps: moments that have not come by then never do

// What to set, computation by computation.
struct Session::Schedule {
  RankSchedule plan;
  std::optional<Watts> power_limit{};
  std::array<std::vector<std::uint32_t>, kMostInstructionTypes> clocks_mhz;  // per type, in the stage's order
  std::array<std::vector<int>, kMostInstructionTypes> next_clock_after_us;   // likewise (ScheduledComputation)
  std::vector<std::uint16_t> types;                                          // of the computations, in that order
};

}  // namespace flyball
