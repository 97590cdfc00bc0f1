// The fields of /proc/PID/stat are read behind the last bracket, since the name before it may hold anything.
#include "agent/processes.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace flyball {

ProcessFacts facts_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  // The line is "PID (NAME) STATE ...". A name may hold brackets, too, so that the last one ends it.
  const std::size_t open = line.find('(');
  const std::size_t close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  ProcessFacts facts;
  facts.name = line.substr(open + 1, close - open - 1);
  // A process may give itself any name, control characters included.
  std::replace_if(
      facts.name.begin(), facts.name.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  std::istringstream rest(line.substr(close + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) rest >> skipped;  // proc(5): the 22nd is the start
  rest >> facts.started;
  return facts;
}

int open_process(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

std::optional<uid_t> user_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("Uid:")) continue;  // at a line's beginning: a process's name may hold the word
    std::istringstream numbers(line.substr(4));
    uid_t real = 0;
    uid_t effective = 0;
    if (numbers >> real >> effective) return effective;
    break;
  }
  return std::nullopt;
}

std::optional<std::string> other_user_on(const GpuDevice& device, uid_t user) {
  for (const pid_t pid : device.compute_processes()) {
    const auto runs_as = user_of(pid);
    if (runs_as && *runs_as != user) return fmt::format("{} (uid {}, pid {})", facts_of(pid).name, *runs_as, pid);
  }
  return std::nullopt;
}

}  // namespace flyball
