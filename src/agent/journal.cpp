// An entry is a JSON file named after the GPU's UUID. It is written beside its place, synced, renamed onto it, and
// then the folder is synced, so that a reader finds the old entry or the new one, and never half of one. flock on a
// file of the folder keeps a second agent out.
#include "agent/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/file_descriptor.h"
#include "base/json_object.h"
#include "base/json_text.h"
#include "base/record.h"
#include "base/text.h"

namespace flyball {
namespace {

constexpr const char* kSuffix = ".gpu.json";
constexpr const char* kHalfWritten = ".tmp";
constexpr std::size_t kMostBytes = 64u << 10u;
constexpr std::size_t kLeastUuid = 8;
constexpr std::int64_t kSameStart = 10;  // s; no machine starts, serves a lease and starts again sooner

[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  throw JournalError(
      fmt::format("{}: {}: {}; nothing can be set until it can be written", path.string(), what, std::strerror(errno)));
}

[[noreturn]] void refuse_folder(const std::filesystem::path& folder, const std::string& why) {
  throw SystemError(fmt::format("cannot use the state folder {}: {}; name another with --state-dir{}", folder.string(),
                                why, ::geteuid() != 0 ? ", or start the agent as root" : ""));
}

void write_all(int descriptor, std::string_view text, const std::filesystem::path& path) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail(path, "cannot write the journal");
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace

static Record<JournalEntry> description_of(const JournalEntry* /*type*/) {
  using R = JournalEntry;
  return Record<R>::answer("JournalEntry", "the journal")
      .field("uuid", &R::uuid, "UUID of the GPU.", {.needed = true})
      .field("knobs", &R::knobs, "Settings that may differ from the default.", {.needed = true})
      .field("holder", &R::holder, "Holder of the lease, in words for people.", {.needed = true})
      .field("before", &R::before, "Values to which the settings are restored.", {.left_out = true})
      .field("set_power_limits_w", &R::set_limits,
             "Power limits that the agent has set. One of them is in force unless somebody else has set another.",
             {.left_out = true, .minimum = 0, .maximum = 1e6})
      .field("lost_power_limit_w", &R::lost_limit, "Power limit to set if the holder is lost.",
             {.left_out = true, .minimum = 0, .maximum = 1e6})
      .field("cap", &R::cap, "What keeps the power limit down since the holder of an earlier lease was lost.",
             {.left_out = true})
      .field("boot", &R::boot, "Boot of the machine that wrote the entry.", {.left_out = true})
      .field("booted_at_s", &R::booted_at, "When that boot was, in Unix time.", {.left_out = true, .minimum = 0});
}

MachineBoot boot_of_machine() {
  MachineBoot boot;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::getline(file, boot.id);
  std::ifstream statistics("/proc/stat");
  for (std::string line; std::getline(statistics, line);) {
    if (line.starts_with("btime ")) std::istringstream(line.substr(6)) >> boot.at;
  }
  return boot;
}

bool another_boot(const MachineBoot& boot, const MachineBoot& now) {
  if (boot.id.empty() || now.id.empty() || boot.id == now.id) return false;
  const bool both_tell = boot.at > 0 && now.at > 0;
  return !both_tell || std::abs(boot.at - now.at) > kSameStart;
}

Journal::Journal(std::filesystem::path folder, MachineBoot boot) : folder_(std::move(folder)), boot_(std::move(boot)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  folder_descriptor_ = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // If the folder could not be made, that reason is told, since opening then only says that it is not there.
  if (folder_descriptor_ < 0) refuse_folder(folder_, error ? error.message() : std::strerror(errno));
  lock_descriptor_ = ::openat(folder_descriptor_, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_descriptor_ < 0 || ::flock(lock_descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const std::string why = errno == EWOULDBLOCK ? "another agent uses it" : std::strerror(errno);
    if (lock_descriptor_ >= 0) ::close(lock_descriptor_);
    ::close(folder_descriptor_);
    refuse_folder(folder_, why);
  }
}

Journal::~Journal() {
  ::close(lock_descriptor_);
  ::close(folder_descriptor_);
}

Journal::Found Journal::read() const {
  Found found;
  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(folder_)) files.push_back(file.path());
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    const std::string name = path.filename().string();
    // A half-written file is no entry: the call that it was to guard was never made.
    if (name.ends_with(kHalfWritten)) ::unlinkat(folder_descriptor_, name.c_str(), 0);
    if (!name.ends_with(kSuffix)) continue;
    // A damaged entry must not keep the agent from starting, so it is only reported.
    try {
      const nlohmann::json json = parse_json(path.string(), read_text_file(path, kMostBytes));
      JournalEntry entry = record_of<JournalEntry>().read(JsonObject(json, path.string()));
      const bool other_boot = another_boot({entry.boot, entry.booted_at}, boot_);
      (other_boot ? found.outlived : found.entries).push_back(std::move(entry));
    } catch (const Error&) {
      found.unreadable.push_back(name);
    }
  }
  return found;
}

void Journal::write(const JournalEntry& entry) const {
  nlohmann::ordered_json json = to_json(entry);
  if (!boot_.id.empty()) json["boot"] = boot_.id;
  if (boot_.at > 0) json["booted_at_s"] = boot_.at;
  const std::string text = dump_json(json) + "\n";
  const std::string name = file_of(entry.uuid);
  const std::string half = name + kHalfWritten;
  const std::filesystem::path path = folder_ / name;
  try {
    const FileDescriptor file(
        ::openat(folder_descriptor_, half.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file.get() < 0) fail(path, "cannot write the journal");
    write_all(file.get(), text, path);
    if (::fsync(file.get()) != 0) fail(path, "cannot sync the journal");
    if (::renameat(folder_descriptor_, half.c_str(), folder_descriptor_, name.c_str()) != 0) {
      fail(path, "cannot rename the journal");
    }
  } catch (const JournalError&) {
    ::unlinkat(folder_descriptor_, half.c_str(), 0);
    throw;
  }
  if (::fsync(folder_descriptor_) != 0) fail(path, "cannot sync the journal's folder");
}

std::string Journal::file_of(const std::string& uuid) {
  std::string name;
  for (const char c : uuid) name += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' ? c : '_';
  return name + kSuffix;
}

// The names begin with "GPU-5d0c..." (NVIDIA, ROCm SMI), "PCI-0000_03_00_0" (an AMD board that has no UUID) or
// "1eff74a0-..." (AMD SMI).
bool Journal::names_gpu(std::string_view file) {
  if (!file.ends_with(kSuffix)) return false;
  file.remove_suffix(std::string_view(kSuffix).size());
  if (file.starts_with("GPU-") || file.starts_with("PCI-")) file.remove_prefix(4);
  return file.size() >= kLeastUuid && std::all_of(file.begin(), file.end(), [](const char c) {
           return std::isxdigit(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
         });
}

void Journal::remove(const std::string& uuid, bool synced) const {
  remove_unreadable(file_of(uuid));
  if (synced && ::fsync(folder_descriptor_) != 0) fail(folder_ / file_of(uuid), "cannot sync the journal's folder");
}

void Journal::remove_unreadable(const std::string& file) const {
  if (::unlinkat(folder_descriptor_, file.c_str(), 0) != 0 && errno != ENOENT) {
    fail(folder_ / file, "cannot remove the journal's entry");
  }
  // The removal is not synced: an entry that comes back after a power cut only restores what is at its default already,
  // unless it names a cap.
}

}  // namespace flyball
