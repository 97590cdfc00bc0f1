// What a session says of itself. The fields are described once for all interfaces: flyball_session_state (C),
// flyball.SessionState (Python) and the manual's table.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/described.h"
#include "base/names.h"
#include "base/units.h"
#include "client/clock_controller.h"
#include "client/online_profiler.h"
#include "wire/job_messages.h"

namespace flyball {

enum class SessionPhase {
  kProfiling,  // the sweep goes on
  kWaiting,    // the session waits for a schedule
  kRunning,    // the session runs a schedule
  kIdle,       // the session does not profile, and has no server to wait for
};
template <>
inline constexpr auto kNamesOf<SessionPhase> = name_list("profiling", "waiting for a schedule", "running a schedule",
                                                         "idle");

// Its fields' meanings stand in the description. Energies are in joules of the GPU, times in the GPU's seconds.
struct SessionState {
  SessionPhase phase = SessionPhase::kIdle;
  SweepProgress sweep;
  bool server_reachable = false;
  std::int64_t schedule_version = 0;
  std::size_t schedule_point = 0;
  Seconds planned_time;
  Joules planned_energy;
  Watts straggler_power;
  std::int64_t order = 0;
  bool reconfiguring = false;
  PromiseVerdict promise = PromiseVerdict::kUnknown;
  Seconds at_maximum;
  RankSavings savings;  // of this rank since the session began
  std::uint64_t steps = 0;
  Seconds last_step;
  Watts waiting_power;
  ClockControllerState clocks;
  Seconds clock_age_p50;  // of clocks.ages, as is the next
  Seconds clock_age_p99;
};

[[nodiscard]] Record<SessionState> description_of(const SessionState*);

}  // namespace flyball
