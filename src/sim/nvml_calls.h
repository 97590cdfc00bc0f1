// What the entry points of the simulated libnvidia-ml.so.1 share. They are linked into that library only: the program
// itself must not define the vendor's names.
#pragma once

#include <cstring>
#include <exception>
#include <memory>

#include "driver/nvml_abi.h"
#include "sim/machine.h"

namespace flyball {

// What a handle points to.
struct NvmlDeviceHandle {
  unsigned index;
};

// Returns the machine of this process's session; null before nvmlInit and after the last nvmlShutdown.
[[nodiscard]] std::shared_ptr<Machine> nvml_session();

// Returns the handle of board `index`, which is below kSimBoards.
[[nodiscard]] NvmlDevice nvml_handle(std::size_t index);

// Returns whether the calling process may do what needs root.
[[nodiscard]] bool privileged(const BoardState& state);

// Returns what the board's faults make a call answer; sleeps while the call is to hang.
[[nodiscard]] NvmlReturn faults_of_call(Machine& machine, std::size_t board, const char* call);

// Copies text into a caller's buffer.
[[nodiscard]] NvmlReturn give_text(char* to, unsigned length, const char* text);

// Runs a call's body, NvmlReturn(). No exception leaves this function.
template <class Body>
NvmlReturn nvml_call(Body body) {
  try {
    return body();
  } catch (const std::exception&) {
    return kNvmlErrorUnknown;
  }
}

// Runs a call on a board; `call` is the vendor's name of it. Body: NvmlReturn(Machine&, std::size_t board).
template <class Body>
NvmlReturn on_board(NvmlDevice device, const char* call, Body body) {
  return nvml_call([&]() -> NvmlReturn {
    const std::shared_ptr<Machine> machine = nvml_session();
    if (machine == nullptr) return kNvmlErrorUninitialized;
    std::size_t board = 0;
    while (board < machine->board_count() && nvml_handle(board) != device) ++board;
    if (board == machine->board_count()) return kNvmlErrorInvalidArgument;
    const NvmlReturn fault = faults_of_call(*machine, board, call);
    return fault != kNvmlSuccess ? fault : body(*machine, board);
  });
}

// Runs a call that reads or changes a board's state at once. Body: NvmlReturn(const BoardSpec&, BoardState&).
template <class Body>
NvmlReturn on_state(NvmlDevice device, const char* call, Body body) {
  return on_board(device, call, [&](Machine& machine, std::size_t board) -> NvmlReturn {
    BoardAccess access(machine, board);
    const NvmlReturn result = body(access.spec(), access.state());
    access.commit();
    return result;
  });
}

// Runs a call that answers one value: get(spec, state) goes to *to.
template <class Value, class Get>
NvmlReturn give(NvmlDevice device, const char* call, Value* to, Get get) {
  return on_state(device, call, [&](const BoardSpec& spec, const BoardState& state) -> NvmlReturn {
    if (to == nullptr) return kNvmlErrorInvalidArgument;
    *to = static_cast<Value>(get(spec, state));
    return kNvmlSuccess;
  });
}

// Runs a call that answers text.
template <class Get>
NvmlReturn give_name(NvmlDevice device, const char* call, char* to, unsigned length, Get get) {
  return on_state(device, call, [&](const BoardSpec& spec, const BoardState&) -> NvmlReturn {
    return give_text(to, length, get(spec));
  });
}

}  // namespace flyball
