// Finds out since when, and by how much, a rank computes or transfers slower than by its own profile: adds up what the
// spans of a step took beside what the profile says, and has it watched from step to step (client/pace_watch.h), and
// each type of computations by itself (client/drift_watch.h).
//
// Of computations the sum counts. Of a transfer the shortest of the step counts: who comes first to a transfer may have
// to wait in it for the other end, and waits for another reason than the link.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/units.h"
#include "client/computing_times.h"
#include "client/drift_watch.h"
#include "client/pace_watch.h"

namespace flyball {

// Of one rank. Pure logic: no clock, no thread, nothing is allocated. A span costs some 50 ns, a step some
// microseconds.
class StepWatch {
 public:
  static constexpr double kLeastSlowTransfer = 1.2;  // times the usual, from which on a transfer is slow
  static constexpr int kMostWanted = 8;              // spans of a type that wants() asks for in a step

  // Compares with this profile from now on, null with none. What was slow by the one before is reported as over.
  // `step` is the step that begins.
  void adopt(const std::shared_ptr<const ComputingTimes>& times, std::int64_t step);
  [[nodiscard]] const ComputingTimes* times() const { return times_.get(); }

  // For engines that run ahead of the GPU, of which each moment that is noted costs something: wants() returns whether
  // the next span of the type is to be noted.
  void step_begin() { wanted_ = {}; }
  [[nodiscard]] bool wants(std::uint16_t type) { return wanted_[type]++ < kMostWanted; }
  // Returns how often that was asked in this step.
  [[nodiscard]] std::size_t asked_for(std::uint16_t type) const { return static_cast<std::size_t>(wanted_[type]); }

  // The next two need a profile. Counts a span of the step: a transfer, or a computation that ran at this clock; 0:
  // nobody knows at which.
  void add(std::uint16_t type, Megahertz clock, Seconds time, Microbatches of = Microbatches::kAll);
  // Counts one that began `since` after this clock had been asked for in place of `before`.
  void add(std::uint16_t type, Megahertz clock, Megahertz before, Seconds since, Seconds time,
           Microbatches of = Microbatches::kAll);
  // The step is over, and its spans have all been added.
  void step_end(std::int64_t step);

  // Returns the change that has been found since the last call.
  [[nodiscard]] std::optional<PaceWatch::Change> take_change(PaceOf of);
  // Returns whether drift() has changed since the last call, or is to be told again.
  [[nodiscard]] bool take_drifts() { return std::exchange(drifts_due_, false); }
  // Returns the time of the type's computations over that of the profile where it has drifted, and 0 where it has not.
  [[nodiscard]] double drift(std::uint16_t type) const { return drift_.drift(type); }
  // Returns the time of a transfer over the usual, in the last step; 0: not known.
  [[nodiscard]] double of_transfer(PaceOf of) const { return watched(of).last; }

 private:
  struct Watched {
    PaceWatch watch;
    std::optional<PaceWatch::Change> change;
    bool told = false;  // that it is slow
    double last = 0.0;
  };
  struct Computed {
    Seconds all;
    Seconds measured;  // of these, at clocks that are known
    Seconds expected;  // likewise, by the profile
    int spans = 0;
    int counted = 0;  // of these, at clocks that are known
  };
  // The present step.
  struct Step {
    std::array<Computed, kMostInstructionTypes> types{};
    std::array<double, kPacesOfRank> transfers{};  // shortest over the profile's; 0: none
  };

  [[nodiscard]] Watched& watched(PaceOf of) { return watched_[static_cast<std::size_t>(of)]; }
  [[nodiscard]] const Watched& watched(PaceOf of) const { return watched_[static_cast<std::size_t>(of)]; }
  void count(std::uint16_t type, Seconds usual, Seconds time);
  void count_computed(const Step& ended, std::int64_t step);
  void count_transfer(Watched& one, double pace, std::int64_t step);

  std::shared_ptr<const ComputingTimes> times_;
  std::array<Watched, kPacesOfRank> watched_{};
  DriftWatch drift_;
  bool drifts_due_ = false;
  Step step_;
  std::array<std::int32_t, kMostInstructionTypes> wanted_{};
};

}  // namespace flyball
