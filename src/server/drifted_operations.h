// Which operations of a job have drifted from their profile, as its ranks report it themselves, and whether they are to
// be measured again (docs/decisions/0072-profiles-that-live.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "wire/job_messages.h"

namespace flyball {

// Of one job. Not thread-safe; every call costs microseconds at most, for each rank.
class DriftedOperations {
 public:
  // Iterations between two orders for a stage, at first: measuring again costs the time of some two iterations.
  static constexpr std::int64_t kLeastPause = 2'000;
  static constexpr std::int64_t kMostPause = 256'000;
  // The same where what is known is only corrected, which costs no time.
  static constexpr std::int64_t kLeastCorrectionPause = 100;

  // Takes a report of a rank of this stage. Where its GPU is throttled or its clocks are not taken, the profile is not
  // at fault. What a report says of transfers is no matter here. Returns whether an operation of the rank has drifted.
  bool take(const PaceReport& report, int stage);
  // The rank measures itself anew.
  void forget(int rank) { of_ranks_.erase(rank); }

  struct Drift {
    int stage = 0;
    std::vector<std::string> instructions;
    bool sweep = true;  // false: it is too soon to measure again, and what is known is to be corrected
  };
  // Returns what has drifted on all ranks of a stage alike, of which there are so many. What has on some of them only
  // is a straggler's. Nothing of stages whose last order is too few iterations ago.
  [[nodiscard]] std::vector<Drift> to_measure(int ranks_of_stage) const;
  // Its stage follows. Pauses double if this comes again and again.
  void ordered(const Drift& drift);

 private:
  struct OfRank {
    int stage = 0;
    std::int64_t step = 0;
    std::vector<DriftedOperation> operations;
  };
  struct Pause {
    std::int64_t since = -1;  // step of the stage's ranks; below 0: there has been none
    std::int64_t length = 0;
    [[nodiscard]] bool is_over(std::int64_t step) const;
    void begin(std::int64_t step, std::int64_t least);
  };
  struct Pauses {
    Pause sweep;
    Pause correction;
  };
  [[nodiscard]] std::int64_t newest_step(int stage) const;

  std::map<int, OfRank> of_ranks_;
  std::map<int, Pauses> pauses_;  // of stages, between two orders
};

}  // namespace flyball
