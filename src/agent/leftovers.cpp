// Entries wait in a list until the GPU of their UUID is opened and claims its own. A file that cannot be read counts
// as an entry with every knob, of the GPU in its name; where its name tells none, of every GPU of the node, and it is
// deleted when all of them have been restored.
#include "agent/leftovers.h"

#include <algorithm>
#include <utility>

#include "agent/log.h"

namespace flyball {

void Leftovers::read(const std::vector<std::string>& uuids) {
  Journal::Found found = journal_->read();
  entries_ = std::move(found.entries);
  for (JournalEntry& entry : found.outlived) {
    if (!entry.lost_limit && !entry.cap) {
      drop(entry);
    } else {
      // Where nodes and controller lose their power together, nobody else would keep the nodes' power down afterwards.
      entry.knobs.clear();
      entry.before.reset();
      entry.set_limits.reset();
      entries_.push_back(std::move(entry));
    }
  }
  for (std::string& file : found.unreadable) {
    const auto is_its = [&](const std::string& uuid) { return Journal::file_of(uuid) == file; };
    const bool names_one = Journal::names_gpu(file) || std::any_of(uuids.begin(), uuids.end(), is_its);
    log_event(LogLevel::kError, "journal_damaged",
              {{"file", file}, {"next", names_one ? "restore the GPU of that name" : "restore every GPU"}});
    (names_one ? damaged_ : nameless_).push_back(std::move(file));
  }
  if (nameless_.empty()) return;
  for (std::size_t gpu = 0; gpu < uuids.size(); ++gpu) unrestored_.insert(gpu);
  unclaimed_ = unrestored_;
}

void Leftovers::drop(const JournalEntry& entry) const {
  log_event(LogLevel::kNotice, "journal_of_another_boot",
            {{"uuid", entry.uuid}, {"holder", entry.holder}, {"next", "entry dropped, nothing restored"}});
  try {
    journal_->remove(entry.uuid);
  } catch (const JournalError& error) {
    // The next start drops it again.
    log_event(LogLevel::kError, "journal_not_cleared", {{"uuid", entry.uuid}, {"error", error.what()}});
  }
}

std::optional<JournalEntry> Leftovers::claim(std::size_t gpu, const std::string& uuid) {
  if (uuid.empty()) return std::nullopt;
  const bool every = unclaimed_.erase(gpu) != 0;
  const auto entry =
      std::find_if(entries_.begin(), entries_.end(), [&](const JournalEntry& one) { return one.uuid == uuid; });
  if (entry != entries_.end()) {
    JournalEntry claimed = std::move(*entry);
    entries_.erase(entry);
    return claimed;
  }
  if (std::erase(damaged_, Journal::file_of(uuid)) == 0 && !every) return std::nullopt;
  return JournalEntry{uuid, {std::begin(kAllKnobs), std::end(kAllKnobs)}, "unknown"};
}

void Leftovers::log_unclaimed() const {
  for (const JournalEntry& entry : entries_) {
    log_event(LogLevel::kWarning, "journal_names_absent_gpu", {{"uuid", entry.uuid}, {"next", "entry kept"}});
  }
  for (const std::string& file : damaged_) {
    log_event(LogLevel::kWarning, "journal_names_absent_gpu", {{"file", file}, {"next", "file kept"}});
  }
}

void Leftovers::restored(std::size_t gpu) {
  if (unrestored_.erase(gpu) == 0 || !unrestored_.empty()) return;
  for (const std::string& file : std::exchange(nameless_, {})) journal_->remove_unreadable(file);
}

}  // namespace flyball
