// Counters are rewritten in place by pwrite to descriptors that stay open. A marker file tells Flyball's trees from
// others, which are neither replaced nor removed.
#include "sim/powercap.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/monotonic_time.h"
#include "base/text.h"

namespace flyball {
namespace {

namespace fs = std::filesystem;

constexpr Nanoseconds kPeriod = 1'000'000;
constexpr const char* kMark = "flyball-simulated";

fs::path zone_folder(const fs::path& folder, std::size_t package) {
  return folder / "intel-rapl" / fmt::format("intel-rapl:{}", package);
}
fs::path dram_folder(const fs::path& folder, std::size_t package) {
  return zone_folder(folder, package) / fmt::format("intel-rapl:{}:0", package);
}

void make_zone(const fs::path& zone, const std::string& name, std::uint64_t range) {
  write_text_file(zone / "name", name + "\n");
  write_text_file(zone / "enabled", "1\n");
  write_text_file(zone / "max_energy_range_uj", fmt::format("{}\n", range));
  write_text_file(zone / "energy_uj", "0\n");
}

// One energy_uj, kept open.
class Counter {
 public:
  explicit Counter(fs::path path) : path_(std::move(path)), fd_(::open(path_.c_str(), O_WRONLY | O_CLOEXEC)) {
    if (fd_ < 0) fail();
  }
  ~Counter() {
    if (fd_ >= 0) ::close(fd_);
  }
  Counter(Counter&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  Counter& operator=(Counter&&) = delete;

  void write(double joules, std::uint64_t range) const {
    const std::string text = fmt::format("{}\n", static_cast<std::uint64_t>(joules * 1e6) % range);
    if (::pwrite(fd_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) fail();
    // After the counter has wrapped, the rest of the longer number is cut off.
    if (::ftruncate(fd_, static_cast<off_t>(text.size())) != 0) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw SystemError(fmt::format("cannot write the simulated counter {}: {}", path_.string(), std::strerror(errno)));
  }

  fs::path path_;
  int fd_;
};

}  // namespace

void make_powercap_tree(Machine& machine) {
  const fs::path folder = machine.shared().powercap;
  const CpuSpec& cpu = machine.shared().cpu;
  std::error_code error;
  remove_powercap_tree(folder);
  if (fs::exists(folder / "intel-rapl", error)) {
    throw SystemError(fmt::format("{} holds a powercap tree that is not simulated; choose another folder (--powercap)",
                                  folder.string()));
  }
  write_text_file(folder / kMark, "made by flyball sim up\n");
  for (std::size_t package = 0; package < cpu.packages; ++package) {
    make_zone(zone_folder(folder, package), fmt::format("package-{}", package), cpu.range_microjoules);
    make_zone(dram_folder(folder, package), "dram", cpu.range_microjoules);
    // As in sysfs, every zone also stands at the top.
    for (const fs::path& zone : {zone_folder(folder, package), dram_folder(folder, package)}) {
      fs::create_directory_symlink(zone.lexically_relative(folder), folder / zone.filename(), error);
      if (error) {
        throw SystemError(fmt::format("cannot make {}: {}", (folder / zone.filename()).string(), error.message()));
      }
    }
  }
}

void run_powercap_writer(Machine& machine) {
  const fs::path folder = machine.shared().powercap;
  const CpuSpec& cpu = machine.shared().cpu;
  std::vector<Counter> packages;
  std::vector<Counter> memories;
  for (std::size_t package = 0; package < cpu.packages; ++package) {
    packages.emplace_back(zone_folder(folder, package) / "energy_uj");
    memories.emplace_back(dram_folder(folder, package) / "energy_uj");
  }
  Nanoseconds due = wall_now();
  while (!machine.down()) {
    for (std::size_t package = 0; package < cpu.packages; ++package) {
      packages[package].write(machine.package_joules(package), cpu.range_microjoules);
      memories[package].write(machine.dram_joules(package), cpu.range_microjoules);
    }
    machine.shared().powercap_pid = ::getpid();
    // A writer that is late by several periods goes on from now rather than catch up.
    due = std::max(due + kPeriod, wall_now());
    const timespec until = to_timespec(due);
    ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  }
}

void remove_powercap_tree(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / kMark, error)) return;
  std::vector<fs::path> ours;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with("intel-rapl")) ours.push_back(entry.path());
  }
  for (const fs::path& path : ours) fs::remove_all(path, error);
  fs::remove(folder / kMark, error);
  fs::remove(folder, error);  // refused where something else is in it
}

}  // namespace flyball
