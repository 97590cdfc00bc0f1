// A thread that does work puts it on the board and sleeps until the end that the board's present state predicts;
// whenever something is asked of the board it wakes and predicts anew.
#include "sim/workload.h"

#include <unistd.h>

#include <mutex>

namespace flyball {
namespace {

int own_slot(BoardState& state) {
  const std::int32_t pid = ::getpid();
  return process_slot(state, pid, process_start(pid));
}

}  // namespace

std::shared_ptr<Machine> attached_machine() {
  // Never destroyed: threads may still call while the process exits.
  static auto& mutex = *new std::mutex;
  static auto& attached = *new std::shared_ptr<Machine>;
  const std::string name = machine_name_from_environment();
  const std::lock_guard lock(mutex);
  if (attached == nullptr || attached->down() || attached->name() != name) attached = Machine::open(name);
  return attached;
}

WorkBegin begin_work(Machine& machine, std::size_t board, const WorkKind& kind, Seconds seconds) {
  BoardAccess access(machine, board);
  if (machine.down()) return {WorkResult::kNoMachine, 0};
  if (find_fault(access.state(), SimFaultKind::kLost) != nullptr) return {WorkResult::kLost, 0};
  const int process = own_slot(access.state());
  int slot = -1;
  if (process >= 0) {
    slot = start_work(access.spec(), access.state(), static_cast<std::uint32_t>(process), kind, seconds);
  }
  if (slot < 0) return {WorkResult::kFull, 0};
  access.commit_change();
  return {WorkResult::kDone, static_cast<std::size_t>(slot)};
}

WorkRun wait_for_work(Machine& machine, std::size_t board, std::size_t slot) {
  while (true) {
    std::uint32_t seen = 0;
    Nanoseconds end = 0;
    {
      BoardAccess access(machine, board);
      SimWork& work = access.state().works[slot];
      if (machine.down()) return {WorkResult::kNoMachine, 0, 0, {}};
      if (work.state == WorkState::kDone) {
        const WorkRun run{WorkResult::kDone, work.begin, work.end, Joules(work.end_joules - work.begin_joules)};
        work = {};
        access.commit();
        return run;
      }
      if (work.state == WorkState::kFree) return {WorkResult::kLost, 0, 0, {}};  // taken off the board by others
      if (find_fault(access.state(), SimFaultKind::kLost) != nullptr) {
        work = {};
        access.commit_change();
        return {WorkResult::kLost, 0, 0, {}};
      }
      seen = access.changes();
      end = predicted_end(access.spec(), access.state(), slot);
      access.commit();
    }
    machine.wait(board, seen, machine.wall_time_of(end));
  }
}

WorkRun do_work(Machine& machine, std::size_t board, const WorkKind& kind, Seconds seconds) {
  const WorkBegin begun = begin_work(machine, board, kind, seconds);
  if (begun.result != WorkResult::kDone) return {begun.result, 0, 0, {}};
  return wait_for_work(machine, board, begun.slot);
}

std::optional<WorkKind> work_named(const BoardSpec& spec, std::string_view name) {
  if (name == "forward") return WorkKind(spec.forward);
  if (name == "backward") return WorkKind(spec.backward);
  if (name == "transfer") return WorkKind(WorkNature::kTransfers);
  if (name == "load") return WorkKind(WorkNature::kLoads);
  return std::nullopt;
}

bool change_blocking(Machine& machine, std::size_t board, int steps) {
  BoardAccess access(machine, board);
  const int slot = own_slot(access.state());
  if (slot < 0) return false;
  std::uint32_t& blocking = access.state().processes[static_cast<std::size_t>(slot)].blocking;
  if (steps < 0 && blocking == 0) return false;
  blocking = static_cast<std::uint32_t>(static_cast<std::int64_t>(blocking) + steps);
  access.commit();
  return true;
}

bool do_fault(Machine& machine, std::size_t board, const SimFault& fault) {
  BoardAccess access(machine, board);
  if (fault.kind == SimFaultKind::kNone) {
    reset_counter(access.spec(), access.state());
  } else if (!add_fault(access.spec(), access.state(), fault)) {
    return false;
  }
  access.commit_change();
  return true;
}

void take_faults_back(Machine& machine, std::size_t board) {
  BoardAccess access(machine, board);
  clear_faults(access.spec(), access.state());
  access.commit_change();
}

}  // namespace flyball
