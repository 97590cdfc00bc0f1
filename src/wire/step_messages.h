// What ranks tell the planning server of single iterations, and what it answers. Described in step_messages.cpp, as
// wire/job_messages.h says of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/described.h"
#include "base/names.h"
#include "base/units.h"

namespace flyball {

inline constexpr std::size_t kMostStepTimes = 500'000;  // computations of one stage in an iteration
inline constexpr Seconds kLongestStep{1e6};

// How a rank knows when a computation began and ended.
enum class StepClock {
  kHost,    // the process called begin and end, which says nothing of a GPU that it does not wait for
  kDevice,  // the GPU came to these places of its stream
};
template <>
inline constexpr auto kNamesOf<StepClock> = name_list("host", "device");

// POST /v1/jobs/{job}/steps: one iteration as a rank ran it by a schedule with `report_steps` or `measured_every`, or
// in a sweep. A lost or late report only delays the adjustment of the plan, makes handovers less sure, or leaves an
// iteration unknown.
struct StepReport {
  int rank = 0;
  std::int64_t version = 0;  // of the schedule; 0: an iteration of a sweep, in the order of the job's schedule
  std::int64_t step = 0;     // counted alike on all ranks
  // For each computation of the schedule, in its order, by a clock of the rank's own with any origin.
  std::vector<Seconds> begin;  // the input was there and the GPU free
  std::vector<Seconds> end;
  StepClock clock = StepClock::kHost;
};

// What steps of a sweep have shown so far of the handovers to the rank's stage (kReceiveName): their usual time, and
// how many there were.
struct StepTaken {
  Seconds receive;
  std::int64_t receives = 0;
  Seconds receive_back;
  std::int64_t receives_back = 0;
};

[[nodiscard]] Record<StepReport> description_of(const StepReport*);
[[nodiscard]] Record<StepTaken> description_of(const StepTaken*);

}  // namespace flyball
