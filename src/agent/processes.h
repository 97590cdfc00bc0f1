// Reads what /proc tells about other processes. A call costs some ten microseconds. A process that is gone is no error.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "driver/gpu.h"

namespace flyball {

struct ProcessFacts {
  std::string name;           // the name that it gives itself, printable; empty where it is gone
  std::uint64_t started = 0;  // in the kernel's ticks since the machine's start; 0 where it is gone
};
[[nodiscard]] ProcessFacts facts_of(pid_t pid);

// Returns the effective user of the process; none where it is gone or cannot be seen from here.
[[nodiscard]] std::optional<uid_t> user_of(pid_t pid);

// Returns a pidfd, which is readable once the process has ended and is the caller's to close; -1 with errno where there
// is none.
[[nodiscard]] int open_process(pid_t pid);

// Describes a process of another user than `user` that computes on the GPU; none where there is no such process, or the
// driver lists none. Throws DeviceError.
[[nodiscard]] std::optional<std::string> other_user_on(const GpuDevice& device, uid_t user);

}  // namespace flyball
