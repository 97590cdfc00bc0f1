// Whether a job's iterations take what its plan promises, by its ranks' reports, and what follows where they take
// longer (docs/decisions/0061-a-promise-is-kept-or-given-up.md).
#pragma once

#include <cstdint>
#include <string>

#include "wire/job_messages.h"

namespace flyball {

// Of one job. Not thread-safe; every call costs nanoseconds.
class PromiseWatch {
 public:
  static constexpr std::int64_t kWindow = 100;  // iterations between two attempts of a plan, at first
  static constexpr std::int64_t kMostPause = 102'400;

  // Returns whether the ranks are to run at maximum clocks, and to report what an iteration then takes.
  [[nodiscard]] bool at_maximum() const { return mode_ != Mode::kPlanned; }

  // Takes a report of the version in force. `ratio` is what its schedule promises: its iteration over one at maximum
  // clocks. Returns whether at_maximum() has changed.
  bool take(const PromiseReport& report, double ratio);

  // A plan of new measurements is trusted anew.
  void begin_anew() { *this = {}; }

  // Returns what is known, for people and programs.
  [[nodiscard]] const JobPromise& known() const { return known_; }
  // Returns a sentence for the time in which the plan is given up; empty otherwise.
  [[nodiscard]] std::string trouble() const;

 private:
  enum class Mode {
    kPlanned,    // the plan runs
    kMeasuring,  // a rank has found it too slow: what do maximum clocks take now?
    kGivenUp,    // it was too slow indeed, and waits for another attempt
  };
  Mode mode_ = Mode::kPlanned;
  JobPromise known_;
  double allowed_at_maximum_ = 0.0;  // what an iteration at maximum clocks must take for the plan to be as promised, s
  bool resumed_ = false;             // not long ago, since maximum clocks took longer as well
  std::int64_t pause_ = kWindow;     // iterations until the next attempt
};

}  // namespace flyball
