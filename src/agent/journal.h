// Keeps on disk what the agent may have changed. There is one small file for each GPU that somebody may set; it is
// written and synced before the first privileged call, and removed when everything is undone. Whatever kills the agent,
// its next start finds here which GPUs to restore, and how to tell the agent's own settings from those that somebody
// else has made since.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "wire/agent_messages.h"

namespace flyball {

// Thrown where the journal cannot be written (disk full, read-only), so that nothing may be set.
class JournalError : public SystemError {
 public:
  using SystemError::SystemError;
};

struct JournalEntry {
  std::string uuid;
  std::vector<Knob> knobs;  // the knobs that may differ from what held before
  std::string holder;       // for people
  // The settings to which the knobs are brought back; older agents' entries have none.
  std::optional<GpuSettings> before = std::nullopt;
  // Unless somebody else has set the power limit, one of these is in force: the limit that stood when the agent last
  // set it, and the limit that this call was to set. Older agents' entries have none.
  std::optional<std::vector<Watts>> set_limits = std::nullopt;
  std::optional<Watts> lost_limit = std::nullopt;  // of the lease in force (LeaseRequest::lost_power_limit)
  std::optional<Cap> cap = std::nullopt;           // what an earlier lease has left
  std::string boot = {};  // MachineBoot of the time of writing; the journal fills in this and the next
  std::int64_t booted_at = 0;
};

// One boot of the machine, from its start to its end.
struct MachineBoot {
  std::string id = {};  // the kernel's name for it (/proc/sys/kernel/random/boot_id); empty where it does not tell
  // When the machine was started, in Unix time (s; "btime" of /proc/stat). It is reckoned by the wall clock, and moves
  // when that is set. 0 where the kernel does not tell.
  std::int64_t at = 0;
};
[[nodiscard]] MachineBoot boot_of_machine();

// Returns whether the machine was started anew between the two. Some containers (systemd-nspawn) have a new `id` at
// each of their own starts, at which a GPU forgets nothing; therefore boots with the same `at`, within seconds, are the
// same.
[[nodiscard]] bool another_boot(const MachineBoot& boot, const MachineBoot& now);

// Entries of different GPUs may be written from different threads at once.
class Journal {
 public:
  // Makes the folder where it is missing. Throws SystemError, also where another agent uses the folder. `boot` is
  // written into every entry and tells those of this boot from those of another; without an id, all entries count as of
  // this boot.
  explicit Journal(std::filesystem::path folder, MachineBoot boot = boot_of_machine());
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  struct Found {
    std::vector<JournalEntry> entries;
    std::vector<JournalEntry> outlived;   // entries of another boot, whose settings ended with it
    std::vector<std::string> unreadable;  // files that hold no entry
  };
  [[nodiscard]] Found read() const;

  // Replaces the GPU's entry, which is on disk when this returns. Throws JournalError, and then leaves the old entry
  // intact.
  void write(const JournalEntry& entry) const;
  // Throws JournalError. With `synced` the entry does not come back after a power cut.
  void remove(const std::string& uuid, bool synced = false) const;
  void remove_unreadable(const std::string& file) const;

  [[nodiscard]] static std::string file_of(const std::string& uuid);
  // Returns whether the name of a file has a form in which drivers give UUIDs. Such a file stands for that GPU alone,
  // whether the GPU is there or not.
  [[nodiscard]] static bool names_gpu(std::string_view file);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  MachineBoot boot_;
  int folder_descriptor_ = -1;
  int lock_descriptor_ = -1;
};

}  // namespace flyball
