// What the agent may have changed, on disk: one small file for each GPU that somebody may set, written and synced before
// the first privileged call and removed when everything is undone. Whatever kills the agent, its next start finds here
// which GPUs to restore.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "wire/agent_messages.h"

namespace flyball {

// The journal cannot be written (disk full, read-only): nothing may be set.
class JournalError : public SystemError {
 public:
  using SystemError::SystemError;
};

struct JournalEntry {
  std::string uuid;
  std::vector<Knob> knobs;  // that may differ from the default
  std::string holder;       // for people
  // What the knobs are brought back to; older agents' entries have none.
  std::optional<GpuSettings> before = std::nullopt;
};

// Different GPUs may be written from different threads at once.
class Journal {
 public:
  // Makes the folder where it is missing. Throws SystemError, also where another agent uses the folder.
  explicit Journal(std::filesystem::path folder);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  struct Found {
    std::vector<JournalEntry> entries;
    std::vector<std::string> unreadable;  // files that hold no entry: restore everything
  };
  [[nodiscard]] Found read() const;

  // Replaces the GPU's entry; on disk when it returns. Throws JournalError; the old entry is intact then.
  void write(const JournalEntry& entry) const;
  void remove(const std::string& uuid) const;  // throws JournalError
  void remove_unreadable(const std::string& file) const;

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  int folder_descriptor_ = -1;
  int lock_descriptor_ = -1;
};

}  // namespace flyball
