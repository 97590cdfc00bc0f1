// The functions by which the C interface (include/flyball/sim.h) and the command line act on a simulated machine.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "sim/fault_words.h"
#include "sim/machine.h"

namespace flyball {

// Returns the machine that FLYBALL_SIM names: the same object for every caller in the process, until it is taken down
// or another is named. Null where there is none.
[[nodiscard]] std::shared_ptr<Machine> attached_machine();

enum class WorkResult { kDone, kNoMachine, kLost, kFull };

struct WorkRun {
  WorkResult result = WorkResult::kDone;
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  Joules energy;
};

// Work that was put on a board, and its place there.
struct WorkBegin {
  WorkResult result = WorkResult::kDone;  // else it has not begun
  std::size_t slot = 0;
};

// Puts work on the board. wait_for_work() sleeps until it is done, and takes it off the board.
WorkBegin begin_work(Machine& machine, std::size_t board, const WorkKind& kind, Seconds seconds);
WorkRun wait_for_work(Machine& machine, std::size_t board, std::size_t slot);

// Does the work and sleeps until it is done (flyball_sim_work).
WorkRun do_work(Machine& machine, std::size_t board, const WorkKind& kind, Seconds seconds);

// Returns the board's "forward" or "backward", or "transfer" or "load"; none for other words.
[[nodiscard]] std::optional<WorkKind> work_named(const BoardSpec& spec, std::string_view name);

// Adds `steps` (1 or -1) to the number of times that this process blocks the board. Returns false where the table of
// processes is full, or there is nothing to take back.
[[nodiscard]] bool change_blocking(Machine& machine, std::size_t board, int steps);

// Adds the fault, or, for kNone, resets the counter. Returns false where the table of faults is full.
[[nodiscard]] bool do_fault(Machine& machine, std::size_t board, const SimFault& fault);
void take_faults_back(Machine& machine, std::size_t board);

}  // namespace flyball
