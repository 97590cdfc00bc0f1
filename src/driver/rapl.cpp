// Each domain's energy_uj is kept open and read anew each time. A value below the last counts as a wrap-around where
// the step that this makes is one that a processor can take, else as a counter that began anew. Powercap's microjoules
// and file names end in this file. Source: the kernel's Documentation/power/powercap/powercap.rst and
// drivers/powercap/intel_rapl_common.c.
#include "driver/rapl.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace flyball {
namespace {

using Clock = std::chrono::steady_clock;

// No package takes more power. A counter that has become smaller has wrapped around only if it has then gone no further
// than this allows; else it began anew, as it does when a machine wakes up.
constexpr double kMostWatts = 5000.0;

// Returns the first line of a small file without blanks at its end, or nothing if it cannot be read.
std::optional<std::string> read_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

// A counter's value, which a newline ends. All that powercap counts is below 2^63.
std::optional<std::uint64_t> parse_count(std::string_view text) {
  const std::optional<long> value = parse_integer(trim(text, " \n"));
  if (!value || *value < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*value);
}

// energy_uj of one domain as a sum that never wraps. Thread-safe.
class EnergyCounter {
 public:
  EnergyCounter(std::string label, const std::filesystem::path& folder)
      : label_(std::move(label)), file_((folder / "energy_uj").string()) {
    if (const auto range = read_line(folder / "max_energy_range_uj")) range_uj_ = parse_count(*range).value_or(0);
    // Counting starts here, if the file may be read; if not, the first caller is told.
    if (const Reading first = read(); first.error == 0) advance(first.uj);
  }
  ~EnergyCounter() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  EnergyCounter(const EnergyCounter&) = delete;
  EnergyCounter& operator=(const EnergyCounter&) = delete;

  Joules energy() {
    const std::lock_guard lock(mutex_);
    const Reading reading = read();
    if (reading.error != 0) refuse(reading.error);
    advance(reading.uj);
    return Joules(static_cast<double>(sum_uj_) / 1e6);
  }

 private:
  struct Reading {
    std::uint64_t uj = 0;
    int error = 0;  // errno; EBADMSG where the file holds no number
  };

  Reading read() {
    if (descriptor_ < 0) return open_and_read();
    const Reading reading = read_open();
    if (reading.error == 0 && reading.uj != last_uj_) return reading;
    // A simulated tree may replace the file, after which the old one stands still; the kernel never does.
    struct stat now {};
    if (::fstat(descriptor_, &now) == 0 && now.st_nlink != 0) return reading;
    ::close(descriptor_);
    return open_and_read();
  }

  Reading open_and_read() {
    descriptor_ = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC);
    return descriptor_ < 0 ? Reading{0, errno} : read_open();
  }

  Reading read_open() const {
    std::array<char, 32> text{};
    const ssize_t length = ::pread(descriptor_, text.data(), text.size(), 0);
    if (length < 0) return {0, errno};
    const auto value = parse_count({text.data(), static_cast<std::size_t>(length)});
    return value ? Reading{*value, 0} : Reading{0, EBADMSG};
  }

  void advance(std::uint64_t uj) {
    const Clock::time_point now = Clock::now();
    if (last_uj_) sum_uj_ += step(*last_uj_, uj, std::chrono::duration<double>(now - last_time_).count());
    last_uj_ = uj;
    last_time_ = now;
  }

  std::uint64_t step(std::uint64_t before, std::uint64_t after, double seconds) const {
    if (after >= before) return after - before;
    if (before <= range_uj_) {
      const std::uint64_t wrapped = range_uj_ - before + after;
      if (static_cast<double>(wrapped) <= kMostWatts * 1e6 * std::max(seconds, 1.0)) return wrapped;
    }
    return 0;
  }

  [[noreturn]] void refuse(int error) const {
    if (error == EACCES || error == EPERM) {
      throw DeviceError(DeviceFault::kPermission, label_, fmt::format("{} may be read by root only", file_),
                        "measure through the agent (sudo flyball agent), run as root, or let all users read it: "
                        "sudo chmod a+r " +
                            file_);
    }
    if (error == EBADMSG) throw DeviceError(DeviceFault::kDriver, label_, file_ + " holds no number");
    const bool gone = error == ENOENT || error == ENODEV || error == ENODATA;
    throw DeviceError(gone ? DeviceFault::kLost : DeviceFault::kDriver, label_,
                      fmt::format("cannot read {}: {}", file_, std::strerror(error)));
  }

  std::string label_;
  std::string file_;
  std::uint64_t range_uj_ = 0;
  std::mutex mutex_;
  int descriptor_ = -1;
  std::optional<std::uint64_t> last_uj_;
  Clock::time_point last_time_;
  std::uint64_t sum_uj_ = 0;
};

class RaplPackage final : public CpuDevice {
 public:
  RaplPackage(std::size_t index, std::string name, const std::filesystem::path& package,
              const std::optional<std::filesystem::path>& dram)
      : index_(index), name_(std::move(name)), package_(fmt::format("CPU:{}", index), package) {
    if (dram) dram_.emplace(fmt::format("DRAM:{}", index), *dram);
  }

  std::size_t index() const override { return index_; }
  const std::string& name() const override { return name_; }
  Joules package_energy() const override { return package_.energy(); }
  std::optional<Joules> dram_energy() const override {
    if (!dram_) return std::nullopt;
    return dram_->energy();
  }

 private:
  std::size_t index_;
  std::string name_;
  mutable EnergyCounter package_;
  mutable std::optional<EnergyCounter> dram_;
};

// The numbers of "intel-rapl:1:0"; empty for other names. "intel-rapl-mmio" is a second window on the same package
// and would count it twice.
std::vector<std::uint64_t> numbers_of(std::string_view name) {
  constexpr std::string_view kPrefix = "intel-rapl:";
  if (!name.starts_with(kPrefix)) return {};
  name.remove_prefix(kPrefix.size());
  std::vector<std::uint64_t> numbers;
  while (true) {
    const std::size_t colon = name.find(':');
    const auto number = parse_count(name.substr(0, colon));
    if (!number) return {};
    numbers.push_back(*number);
    if (colon == std::string_view::npos) return numbers;
    name.remove_prefix(colon + 1);
  }
}

struct Domain {
  std::vector<std::uint64_t> numbers;
  std::filesystem::path folder;
  std::string name;
};

void add_domains(const std::filesystem::path& folder, std::vector<Domain>& domains) {
  std::error_code code;
  for (std::filesystem::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code)) {
    std::vector<std::uint64_t> numbers = numbers_of(entry->path().filename().string());
    if (numbers.empty() || numbers.size() > 2) continue;
    const bool known =
        std::any_of(domains.begin(), domains.end(), [&](const Domain& d) { return d.numbers == numbers; });
    const auto name = read_line(entry->path() / "name");
    if (known || !name) continue;
    domains.push_back({std::move(numbers), entry->path(), *name});
  }
}

}  // namespace

std::string powercap_root() {
  const char* root = std::getenv("FLYBALL_POWERCAP_ROOT");
  return root != nullptr && *root != '\0' ? root : kPowercapRoot;
}

std::vector<std::shared_ptr<CpuDevice>> open_rapl(const std::string& root) {
  // The class folder lists all domains side by side; in the device's tree, parts lie within their package.
  std::vector<Domain> domains;
  add_domains(root, domains);
  for (std::size_t i = 0; i < domains.size(); ++i) {
    if (domains[i].numbers.size() == 1) add_domains(std::filesystem::path(domains[i].folder), domains);
  }
  std::sort(domains.begin(), domains.end(), [](const Domain& a, const Domain& b) { return a.numbers < b.numbers; });

  std::vector<std::shared_ptr<CpuDevice>> packages;
  for (const Domain& domain : domains) {
    // Packages are named "package-0" or "package-0-die-1"; "psys" is the whole board, packages included.
    if (domain.numbers.size() != 1 || !domain.name.starts_with("package")) continue;
    std::optional<std::filesystem::path> dram;
    for (const Domain& part : domains) {
      if (part.numbers.size() == 2 && part.numbers[0] == domain.numbers[0] && part.name == "dram") dram = part.folder;
    }
    packages.push_back(std::make_shared<RaplPackage>(packages.size(), domain.name, domain.folder, dram));
  }
  if (packages.empty()) {
    throw DeviceError(
        DeviceFault::kNoDriver, "rapl", fmt::format("{} lists no processor package", root),
        "load the kernel module (sudo modprobe intel_rapl_msr); virtual machines mostly have no counters");
  }
  return packages;
}

}  // namespace flyball
