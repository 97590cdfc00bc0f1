// What an earlier agent left in the journal: which GPUs are to be restored, and to which settings, as far as that can
// still be read. Finds are logged. Not thread-safe.
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

  // Reads the journal. Entries of another boot are dropped, but for their caps: a driver forgets limits and locks when
  // the machine loses power, so that the present settings were made afterwards. `uuids` are those of the GPUs by index,
  // empty where a driver has not told one yet.
  void read(const std::vector<std::string>& uuids);

  // Returns what is to be restored on this GPU; a second call returns none. While the GPU's UUID is empty the result is
  // none, too, since the GPU may have an entry of its own. A file that cannot be read stands for the GPU in its name,
  // with every knob, or for every GPU where its name tells none.
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
  std::vector<std::string> nameless_;  // files of which not even the name tells a GPU
  std::set<std::size_t> unrestored_;   // GPUs that have to be restored before nameless_ files are deleted
  std::set<std::size_t> unclaimed_;    // those of unrestored_ for which claim() has not yet been called
};

}  // namespace flyball
