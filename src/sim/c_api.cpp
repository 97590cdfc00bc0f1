// The C interface. No exception leaves it; each becomes a number.
#include "flyball/sim.h"

#include <cmath>
#include <exception>

#include "sim/workload.h"

namespace flyball {
namespace {

constexpr double kLongestWork = 1e6;

// Body: int(Machine&).
template <class Body>
int on_machine(Body body) {
  try {
    const std::shared_ptr<Machine> machine = attached_machine();
    if (machine == nullptr) return FLYBALL_SIM_NO_MACHINE;
    return body(*machine);
  } catch (const std::exception&) {
    return FLYBALL_SIM_SYSTEM;
  }
}

template <class Body>
int on_board(unsigned gpu, Body body) {
  return on_machine([&](Machine& machine) {
    return gpu < machine.board_count() ? body(machine) : static_cast<int>(FLYBALL_SIM_INVALID);
  });
}

int run_work(Machine& machine, unsigned gpu, const WorkKind& kind, double seconds, flyball_sim_run* run) {
  if (!(seconds > 0.0 && seconds <= kLongestWork)) return FLYBALL_SIM_INVALID;
  const WorkRun done = do_work(machine, gpu, kind, Seconds(seconds));
  switch (done.result) {
    case WorkResult::kNoMachine: return FLYBALL_SIM_NO_MACHINE;
    case WorkResult::kLost: return FLYBALL_SIM_LOST;
    case WorkResult::kFull: return FLYBALL_SIM_FULL;
    case WorkResult::kDone: break;
  }
  if (run != nullptr) {
    *run = {to_seconds(done.begin).value(), to_seconds(done.end).value(), done.energy.value()};
  }
  return FLYBALL_SIM_OK;
}

bool plausible(const flyball_sim_activity& activity) {
  return activity.clocked_share >= 0.0 && activity.clocked_share <= 1.0 && activity.compute_w >= 0.0 &&
         activity.compute_w <= 1e5 && activity.memory_w >= 0.0 && activity.memory_w <= 1e5;
}

}  // namespace
}  // namespace flyball

using namespace flyball;

// NOLINTBEGIN(readability-identifier-naming): names of a C interface

const char* flyball_sim_error_text(int result) {
  switch (result) {
    case FLYBALL_SIM_OK: return "success";
    case FLYBALL_SIM_NO_MACHINE: return "no simulated machine is up; start one with: flyball sim up";
    case FLYBALL_SIM_INVALID: return "no such simulated GPU, kind of work or fault, or a number out of range";
    case FLYBALL_SIM_LOST: return "the simulated GPU is lost";
    case FLYBALL_SIM_FULL: return "too many pieces of work, processes or faults on one simulated GPU";
    case FLYBALL_SIM_SYSTEM: return "the operating system refused access to the simulated machine";
    default: return "unknown result";
  }
}

unsigned flyball_sim_gpu_count(void) {
  unsigned count = 0;
  on_machine([&](Machine& machine) {
    count = static_cast<unsigned>(machine.board_count());
    return static_cast<int>(FLYBALL_SIM_OK);
  });
  return count;
}

int flyball_sim_work(unsigned gpu, const char* kind, double seconds_at_max_clock, flyball_sim_run* run) {
  if (kind == nullptr) return FLYBALL_SIM_INVALID;
  return on_board(gpu, [&](Machine& machine) {
    const std::optional<WorkKind> named = work_named(machine.spec(gpu), kind);
    if (!named) return static_cast<int>(FLYBALL_SIM_INVALID);
    return run_work(machine, gpu, *named, seconds_at_max_clock, run);
  });
}

int flyball_sim_work_like(unsigned gpu, const flyball_sim_activity* activity, double seconds_at_max_clock,
                          flyball_sim_run* run) {
  if (activity == nullptr || !plausible(*activity)) return FLYBALL_SIM_INVALID;
  return on_board(gpu, [&](Machine& machine) {
    const Activity like{activity->clocked_share, Watts(activity->compute_w), Watts(activity->memory_w)};
    return run_work(machine, gpu, like, seconds_at_max_clock, run);
  });
}

int flyball_sim_block(unsigned gpu) {
  return on_board(
      gpu, [&](Machine& machine) { return change_blocking(machine, gpu, 1) ? FLYBALL_SIM_OK : FLYBALL_SIM_FULL; });
}

int flyball_sim_unblock(unsigned gpu) {
  return on_board(
      gpu, [&](Machine& machine) { return change_blocking(machine, gpu, -1) ? FLYBALL_SIM_OK : FLYBALL_SIM_INVALID; });
}

int flyball_sim_true_energy(unsigned gpu, double* energy_j, double* time_s) {
  if (energy_j == nullptr) return FLYBALL_SIM_INVALID;
  return on_board(gpu, [&](Machine& machine) {
    BoardAccess access(machine, gpu);
    *energy_j = access.state().joules.value();
    if (time_s != nullptr) *time_s = to_seconds(access.state().now).value();
    access.commit();
    return static_cast<int>(FLYBALL_SIM_OK);
  });
}

int flyball_sim_true_cpu_energy(unsigned package, double* package_j, double* dram_j) {
  return on_machine([&](Machine& machine) {
    if (package >= machine.shared().cpu.packages) return static_cast<int>(FLYBALL_SIM_INVALID);
    if (package_j != nullptr) *package_j = machine.package_joules(package);
    if (dram_j != nullptr) *dram_j = machine.dram_joules(package);
    return static_cast<int>(FLYBALL_SIM_OK);
  });
}

int flyball_sim_time(double* time_s, double* time_scale) {
  return on_machine([&](Machine& machine) {
    if (time_s != nullptr) *time_s = to_seconds(machine.now()).value();
    if (time_scale != nullptr) *time_scale = machine.shared().time_scale;
    return static_cast<int>(FLYBALL_SIM_OK);
  });
}

int flyball_sim_add_time(double seconds) {
  if (!(seconds >= 0.0 && seconds <= kLongestWork)) return FLYBALL_SIM_INVALID;
  return on_machine([&](Machine& machine) {
    machine.add_time(to_nanoseconds(Seconds(seconds)));
    return static_cast<int>(FLYBALL_SIM_OK);
  });
}

int flyball_sim_fault(unsigned gpu, const char* fault) {
  if (fault == nullptr) return FLYBALL_SIM_INVALID;
  return on_board(gpu, [&](Machine& machine) {
    const std::optional<SimFault> parsed = parse_fault(fault);
    if (!parsed) return static_cast<int>(FLYBALL_SIM_INVALID);
    return static_cast<int>(do_fault(machine, gpu, *parsed) ? FLYBALL_SIM_OK : FLYBALL_SIM_FULL);
  });
}

int flyball_sim_clear_faults(unsigned gpu) {
  return on_board(gpu, [&](Machine& machine) {
    take_faults_back(machine, gpu);
    return static_cast<int>(FLYBALL_SIM_OK);
  });
}
// NOLINTEND(readability-identifier-naming)
