// What an earlier agent left in the journal: which GPUs are to be restored, and to what, as far as that can still be
// read. It logs what it finds. Not thread-safe.
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
  // so that what stands now has been set since. `uuids` are those of the GPUs by index, empty where a driver has not
  // told it yet.
  void read(const std::vector<std::string>& uuids);

  // Returns what is to be restored on this GPU, once. While its UUID is empty it returns nothing, since the GPU may
  // have an entry of its own. A file that cannot be read stands for the GPU in its name, with every knob; where the
  // name tells none, for every GPU.
  [[nodiscard]] std::optional<JournalEntry> claim(std::size_t gpu, const std::string& uuid);

  // Logs the entries of GPUs that are not there. They are kept.
  void log_unclaimed() const;

  // Notes that a GPU is restored. Files that stand for every GPU are deleted with the last one.
  void restored(std::size_t gpu);

 private:
  void drop(const JournalEntry& entry) const;

  std::shared_ptr<const Journal> journal_;
  std::vector<JournalEntry> entries_;
  std::vector<std::string> damaged_;   // files of which only the name can be read
  std::vector<std::string> nameless_;  // files of which not even that; they are kept until
  std::set<std::size_t> unrestored_;   // all these GPUs have been restored
  std::set<std::size_t> unclaimed_;    // those of them that claim() has not yet been called for
};

}  // namespace flyball
