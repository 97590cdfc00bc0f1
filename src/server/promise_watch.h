// Whether a job's iterations take what its plan promises, by its ranks' reports, and what follows where they take
// longer or more energy (docs/decisions/0061-a-promise-is-kept-or-given-up.md, 0067-a-promise-of-energy.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/energy_watch.h"
#include "wire/job_messages.h"

namespace flyball {

// Of one job. Not thread-safe; every call costs nanoseconds.
class PromiseWatch {
 public:
  static constexpr std::int64_t kWindow = 100;  // iterations between two attempts of a plan, at first
  static constexpr std::int64_t kMostPause = 102'400;
  // The share of the job's energy that measuring maximum clocks again may cost, where nothing calls for it.
  static constexpr double kMostCost = 1e-3;

  // Returns whether the ranks are to run at maximum clocks, and to report what an iteration then takes.
  [[nodiscard]] bool at_maximum() const { return mode_ != Mode::kPlanned; }

  // The same for the sake of energies: a report without them tells nothing then.
  [[nodiscard]] bool compares_energies() const { return mode_ == Mode::kComparing; }

  // Takes a report of the version in force. `ratio` is what its schedule promises: its iteration over one at maximum
  // clocks, as these are measured now or, where the plan runs, were measured last. `energy` is what the job is known to
  // take after this report; at maximum clocks, what is known of the version in force. Returns whether at_maximum() has
  // changed.
  bool take(const PromiseReport& report, double ratio, const std::optional<EnergyComparison>& energy = std::nullopt);

  // Takes a report of a plan inside limits on power, which promises a time of its own and is not given up.
  void take_limited(const PromiseReport& report, Seconds promised);

  // A plan of new measurements is trusted anew. Where not all ranks have measured anew, all of them find out first what
  // an iteration takes at maximum clocks now (`measure_first`).
  void begin_anew(bool measure_first = false) {
    *this = {};
    if (measure_first) mode_ = Mode::kBeginning;
  }

  // Iterations that have become too long lately are those of a straggler that has just been found, so that the next
  // ones are judged for themselves. A plan that has been given up stays so.
  void excuse() {
    if (mode_ != Mode::kGivenUp) resumed_ = false;
  }

  // Gives a cause that another message tells; of no effect while iterations take what is promised.
  void explain(const std::string& cause);
  // Returns what is known, for people and programs.
  [[nodiscard]] const JobPromise& known() const { return known_; }
  // Returns a sentence for the time in which the plan is given up, or takes more energy than promised; empty otherwise.
  [[nodiscard]] std::string trouble() const;

 private:
  enum class Mode {
    kBeginning,  // the plan waits until all ranks know what maximum clocks take
    kPlanned,    // the plan runs
    kMeasuring,  // a rank has found it too slow: what do maximum clocks take now?
    kComparing,  // the same for the energies
    kGivenUp,    // it was at fault indeed, and waits for another attempt
  };
  void take_planned(const PromiseReport& report, const std::optional<EnergyComparison>& energy);
  void compare(const PromiseReport& report, const std::optional<EnergyComparison>& energy);
  void take_energy(const EnergyComparison& energy);
  void count_planned(const PromiseReport& report);
  [[nodiscard]] bool is_due(const EnergyComparison& energy) const;
  [[nodiscard]] std::int64_t least_since(const EnergyComparison& energy) const;
  void give_up(PromiseVerdict verdict);

  Mode mode_ = Mode::kPlanned;
  JobPromise known_;
  Seconds too_long_;              // what an iteration by the plan took when a rank found it too slow
  bool resumed_ = false;          // not long ago, since maximum clocks took longer as well
  std::int64_t pause_ = kWindow;  // iterations until the next attempt
  bool limited_ = false;          // the plan is one inside limits on power
  bool costs_more_ = false;       // the plan was given up for its energy

  // Iterations by plan since maximum clocks were last measured.
  std::int64_t since_ = 0;
  std::int64_t counted_version_ = 0;
  std::int64_t counted_ = 0;  // of that version
  std::int64_t takes_ = 15;   // iterations to measure them, with those until all ranks run at them and back
};

}  // namespace flyball
