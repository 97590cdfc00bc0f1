#include "sim/workload.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <mutex>
#include <system_error>

namespace flyball {
namespace {

struct FaultName {
  std::string_view name;
  SimFaultKind kind;
  bool has_call;
  bool has_value;
  double least;
  double most;
};

constexpr FaultName kFaultNames[] = {
    {"lost", SimFaultKind::kLost, false, false, 0, 0},
    {"error", SimFaultKind::kError, true, true, 1, 65535},
    {"hang", SimFaultKind::kHang, true, true, 0, 86400},
    {"counter-frozen", SimFaultKind::kCounterFrozen, false, false, 0, 0},
    {"counter-wraps", SimFaultKind::kCounterWraps, false, true, 1, 1e15},
    {"counter-missing", SimFaultKind::kCounterMissing, false, false, 0, 0},
    {"unprivileged", SimFaultKind::kUnprivileged, false, false, 0, 0},
    {"hot", SimFaultKind::kHot, false, false, 0, 0},
    {"counter-reset", SimFaultKind::kNone, false, false, 0, 0},
};

std::optional<double> parse_number(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

int own_slot(BoardState& state) {
  const std::int32_t pid = ::getpid();
  return process_slot(state, pid, process_start(pid));
}

// Waits for the work in `slot` and takes it off the board.
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

WorkRun do_work(Machine& machine, std::size_t board, const Activity& activity, Seconds seconds) {
  int slot = -1;
  {
    BoardAccess access(machine, board);
    if (machine.down()) return {WorkResult::kNoMachine, 0, 0, {}};
    if (find_fault(access.state(), SimFaultKind::kLost) != nullptr) return {WorkResult::kLost, 0, 0, {}};
    const int process = own_slot(access.state());
    if (process >= 0) {
      slot = start_work(access.spec(), access.state(), static_cast<std::uint32_t>(process), activity, seconds);
    }
    if (slot < 0) return {WorkResult::kFull, 0, 0, {}};
    access.commit_change();
  }
  return wait_for_work(machine, board, static_cast<std::size_t>(slot));
}

std::optional<Activity> activity_named(const BoardSpec& spec, std::string_view kind) {
  if (kind == "forward") return spec.forward;
  if (kind == "backward") return spec.backward;
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

std::optional<SimFault> parse_fault(std::string_view text) {
  std::string_view head = text;
  std::string_view value;
  const std::size_t equals = text.find('=');
  if (equals != std::string_view::npos) {
    head = text.substr(0, equals);
    value = text.substr(equals + 1);
  }
  const std::size_t colon = head.find(':');
  const std::string_view name = head.substr(0, colon);
  const std::string_view call = colon == std::string_view::npos ? std::string_view{} : head.substr(colon + 1);
  for (const FaultName& known : kFaultNames) {
    if (known.name != name) continue;
    SimFault fault{known.kind, 0, 0.0, {}};
    if (known.has_call == call.empty() || call.size() >= sizeof(fault.call)) return std::nullopt;
    if (known.has_value != (equals != std::string_view::npos)) return std::nullopt;
    std::copy(call.begin(), call.end(), fault.call);
    if (!known.has_value) return fault;
    const std::optional<double> number = parse_number(value);
    if (!number || *number < known.least || *number > known.most) return std::nullopt;
    fault.value = *number;
    fault.code = known.kind == SimFaultKind::kError ? static_cast<unsigned>(*number) : 0;
    return fault;
  }
  return std::nullopt;
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
