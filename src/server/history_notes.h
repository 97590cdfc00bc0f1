// What has changed of a job, and of a node, from one look to the next, in words for its history.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/job.h"
#include "wire/fleet_messages.h"

namespace flyball {

struct HistoryNote {
  const char* kind;  // HistoryEvent's
  std::string text;
};

class JobNotes {
 public:
  // Returns what has changed since the last look. Of the first one it tells only that a job is new: a server that has
  // been started again has told the rest before. Cost: linear in the job's slow ranks, without a copy of them.
  [[nodiscard]] std::vector<HistoryNote> look(const Job& job);

 private:
  struct Seen {
    JobState state = JobState::kRegistering;
    std::int64_t version = 0;
    PromiseVerdict promise = PromiseVerdict::kUnknown;
    bool ordered_maximum = false;
  };
  void note_stragglers(const std::map<int, FoundStragglers::Found>& now, std::vector<HistoryNote>& notes);

  std::optional<Seen> seen_;
  std::map<int, double> slow_;  // ranks, and how much slower
};

class NodeNotes {
 public:
  // Likewise. A node's first answer is told, since a server that was away cannot know whether it was silent meanwhile.
  // While it is silent nothing is known of its GPUs.
  [[nodiscard]] std::vector<HistoryNote> look(const WatchedNode& node);

 private:
  struct Health {
    GpuHealth seen = GpuHealth::kWell;
    GpuHealth told = GpuHealth::kWell;
  };
  bool answers_ = false;
  std::map<std::size_t, Health> health_;  // by the GPU's index, at the last look
};

}  // namespace flyball
