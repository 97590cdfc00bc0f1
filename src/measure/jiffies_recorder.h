// Records the time that the kernel has booked on processors and tasks, as rows of a jiffies trace
// (docs/formats/jiffies-trace.md).
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>

#include "base/units.h"

namespace flyball {

class JiffiesRecorder {
 public:
  enum class Self { kMonitor, kProgram };

  // `proc` and `sys` are where these file systems are mounted. `self` is the process that monitors, or the program
  // where that measures itself; its descendants are the program.
  JiffiesRecorder(std::filesystem::path proc, std::filesystem::path sys, pid_t self, Self role = Self::kMonitor);

  [[nodiscard]] static std::string header();

  // Returns the present rows of every processor, and of every task of the monitor and of the processes below it. Tasks
  // that end meanwhile are left out. Reads a file for each task.
  [[nodiscard]] std::string sample(Nanoseconds unix_time);

 private:
  void add_tasks(pid_t process, bool monitor, const std::string& stamp, std::string& rows);
  int socket_of(int cpu);

  std::filesystem::path proc_;
  std::filesystem::path sys_;
  pid_t self_;
  Self role_;
  std::map<int, int> sockets_;
};

}  // namespace flyball
