// Reads jiffies traces: which tasks had the processors' time, as the kernel booked it (docs/formats/jiffies-trace.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace flyball {

// The time that the kernel had booked for a processor at one moment, in jiffies since the machine's start.
struct ProcessorJiffies {
  int cpu = 0;
  std::uint64_t busy = 0;    // user, nice, system: processes
  std::uint64_t system = 0;  // irq, softirq, steal
};
struct TaskJiffies {
  std::int64_t task = 0;
  int cpu = 0;  // the processor on which it ran last
  std::uint64_t busy = 0;
  bool monitor = false;
};
struct JiffiesSample {
  Nanoseconds time = 0;
  std::vector<ProcessorJiffies> processors;
  std::vector<TaskJiffies> tasks;
};

struct JiffiesTrace {
  std::map<int, int> socket_of;  // by cpu; one that is missing belongs to socket 0
  std::vector<JiffiesSample> samples;
};

// Reads a trace. Throws InputError with the line that is wrong.
[[nodiscard]] JiffiesTrace read_jiffies(const std::string& source, std::string_view text);

}  // namespace flyball
