// What has changed of a job from one look to the next, in words for its history.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/job.h"

namespace flyball {

class JobNotes {
 public:
  struct Note {
    const char* kind;  // JobHistoryEvent's
    std::string text;
  };
  // Returns what has changed since the last look. Of the first one it tells only that a job is new: a server that has
  // been started again has told the rest before.
  [[nodiscard]] std::vector<Note> look(const Job& job);

 private:
  struct Seen {
    JobState state = JobState::kRegistering;
    std::int64_t version = 0;
    PromiseVerdict promise = PromiseVerdict::kUnknown;
    bool ordered_maximum = false;
    std::map<int, FoundStragglers::Found> slow;  // ranks
  };
  std::optional<Seen> seen_;
};

}  // namespace flyball
