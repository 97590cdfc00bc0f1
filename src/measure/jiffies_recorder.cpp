// Reads /proc/stat for the processors, and walks the monitor's processes by /proc/PID/task/TID/children, one file for
// each task. A processor's socket is looked up once in /sys.
#include "measure/jiffies_recorder.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.h"

namespace flyball {
namespace {

// Returns nothing if the file cannot be read, since tasks come and go.
std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct TaskStat {
  int cpu = 0;
  unsigned long long busy = 0;
};

// proc(5), /proc/[pid]/stat: the name in parentheses may hold anything, and field 3 follows it. Fields 14 and 15 are
// user and system time, 39 is the processor.
std::optional<TaskStat> parse_task(const std::string& text) {
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int i = 3; i < 14; ++i) fields >> skipped;
  unsigned long long user = 0;
  unsigned long long system = 0;
  fields >> user >> system;
  for (int i = 16; i < 39; ++i) fields >> skipped;
  TaskStat stat;
  fields >> stat.cpu;
  if (!fields) return std::nullopt;
  stat.busy = user + system;
  return stat;
}

}  // namespace

JiffiesRecorder::JiffiesRecorder(std::filesystem::path proc, std::filesystem::path sys, pid_t self, Self role)
    : proc_(std::move(proc)), sys_(std::move(sys)), self_(self), role_(role) {}

std::string JiffiesRecorder::header() {
  return "# flyball jiffies trace, version 1\n"
         "# timestamp: s since 1970; busy, system: jiffies since the kernel's or the task's start\n"
         "timestamp,kind,id,cpu,busy,system\n";
}

std::string JiffiesRecorder::sample(Nanoseconds unix_time) {
  const std::string stamp = fmt::format("{}.{:06}", unix_time / 1'000'000'000, unix_time % 1'000'000'000 / 1'000);
  std::string rows;
  std::istringstream lines(file_text(proc_ / "stat"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("cpu")) break;
    if (line.starts_with("cpu ")) continue;
    std::istringstream fields(line.substr(3));
    int cpu = 0;
    unsigned long long user = 0;
    unsigned long long nice = 0;
    unsigned long long system = 0;
    unsigned long long idle = 0;
    unsigned long long wait = 0;
    unsigned long long irq = 0;
    unsigned long long softirq = 0;
    unsigned long long steal = 0;
    fields >> cpu >> user >> nice >> system >> idle >> wait >> irq >> softirq >> steal;
    if (!fields) continue;
    rows +=
        fmt::format("{},cpu,{},{},{},{}\n", stamp, socket_of(cpu), cpu, user + nice + system, irq + softirq + steal);
  }
  add_tasks(self_, role_ == Self::kMonitor, stamp, rows);
  return rows;
}

// Adds the process's tasks, and those of the processes below it, which are the program's.
void JiffiesRecorder::add_tasks(pid_t process, bool monitor, const std::string& stamp, std::string& rows) {
  std::vector<pid_t> children;
  std::error_code gone;
  const std::filesystem::path tasks = proc_ / std::to_string(process) / "task";
  for (std::filesystem::directory_iterator task(tasks, gone), end; !gone && task != end; task.increment(gone)) {
    const std::string id = task->path().filename().string();
    if (const std::optional<TaskStat> stat = parse_task(file_text(task->path() / "stat"))) {
      rows += fmt::format("{},{},{},{},{},0\n", stamp, monitor ? "monitor" : "task", id, stat->cpu, stat->busy);
    }
    std::istringstream list(file_text(task->path() / "children"));
    for (pid_t child = 0; list >> child;) children.push_back(child);
  }
  for (const pid_t child : children) add_tasks(child, false, stamp, rows);
}

int JiffiesRecorder::socket_of(int cpu) {
  const auto [at, added] = sockets_.try_emplace(cpu, 0);
  if (added) {
    const std::string text =
        file_text(sys_ / fmt::format("devices/system/cpu/cpu{}/topology/physical_package_id", cpu));
    const std::optional<long> socket = parse_integer(std::string_view(text).substr(0, text.find('\n')));
    if (socket && *socket >= 0) at->second = static_cast<int>(*socket);
  }
  return at->second;
}

}  // namespace flyball
