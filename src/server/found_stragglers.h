// The ranks of a job that compute, or transfer, slower than they were profiled, as they report it themselves
// (PaceReport; docs/decisions/0066-stragglers-are-found.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "wire/job_messages.h"

namespace flyball {

// Of one job. Not thread-safe; every call costs microseconds at most.
class FoundStragglers {
 public:
  struct Found {
    double slowdown = 1.0;
    std::int64_t since = 0;   // the rank's step
    double found_unix = 0.0;  // s since 1970
    PaceCause cause = PaceCause::kUnknown;
    std::string detail;
  };

  // Takes a report that comes at `now` (s since 1970). Returns whether it says something new.
  bool take(const PaceReport& report, double now);
  // Forgets what a rank has reported: it measures itself anew, or a notice says that it has recovered. Returns whether
  // anything was known.
  bool forget(int rank);

  // Those that compute slower.
  [[nodiscard]] const std::map<int, Found>& all() const { return found_; }
  using Transfer = std::pair<int, PaceOf>;  // of a rank
  [[nodiscard]] const std::map<Transfer, Found>& transfers() const { return transfers_; }

 private:
  std::map<int, Found> found_;  // by rank
  std::map<Transfer, Found> transfers_;
};

}  // namespace flyball
