// What an agent before this one has left in the journal: which GPUs are to be restored, and to what, however much of
// that can still be read. Logs what it finds. One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/journal.h"

namespace flyball {

class Leftovers {
 public:
  explicit Leftovers(std::shared_ptr<const Journal> journal) : journal_(std::move(journal)) {}

  // Reads the journal. Entries of another boot are dropped: a driver forgets limits and locks with the machine's power,
  // so that what stands now has been set since. `uuids` of the GPUs by index, empty where a driver has not told yet.
  void read(const std::vector<std::string>& uuids);

  // What is to be restored on this GPU; once. Nothing yet while its UUID is empty: it may have an entry of its own. A
  // file that cannot be read stands for the GPU in its name, with all that can be set; for every GPU where the name
  // tells none.
  [[nodiscard]] std::optional<JournalEntry> claim(std::size_t gpu, const std::string& uuid);

  // Says which are left, of GPUs that are not there; they are kept.
  void log_unclaimed() const;

  // A GPU is restored: files that stand for every GPU go with the last one.
  void restored(std::size_t gpu);

 private:
  void drop(const JournalEntry& entry) const;

  std::shared_ptr<const Journal> journal_;
  std::vector<JournalEntry> entries_;
  std::vector<std::string> damaged_;   // files of which no more than their name can be read
  std::vector<std::string> nameless_;  // nor that; they are kept until
  std::set<std::size_t> unrestored_;   // these GPUs have been restored
  std::set<std::size_t> unclaimed_;    // of them, those that have not been told yet
};

}  // namespace flyball
