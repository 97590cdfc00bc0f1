// What /proc says of other processes. Costs some ten microseconds a call; a process that is gone is no error.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "driver/gpu.h"

namespace flyball {

struct ProcessFacts {
  std::string name;           // what it calls itself, printable; empty where it is gone
  std::uint64_t started = 0;  // in the kernel's ticks since the start; 0 where it is gone
};
[[nodiscard]] ProcessFacts facts_of(pid_t pid);

// As whom it runs; nothing where it is gone or not to be seen from here.
[[nodiscard]] std::optional<uid_t> user_of(pid_t pid);

// A process that computes on the GPU as another user than `user`, in words; nothing where there is none, or where the
// driver lists none. Throws DeviceError.
[[nodiscard]] std::optional<std::string> other_user_on(const GpuDevice& device, uid_t user);

}  // namespace flyball
