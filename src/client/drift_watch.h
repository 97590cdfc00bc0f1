// Finds out which of a rank's operations have drifted from their profile, and by how much
// (docs/decisions/0072-profiles-that-live.md).
//
// What is watched is the time of an operation type's computations in a step over what the profile says for the clocks
// that were asked for. A straggler is found by the change of one sum within five steps (PaceWatch); here the level of
// each type counts, which may have changed slowly, and is to be known well enough to correct a profile with it. It is
// the median of windows of 32 steps. A type has drifted where two windows in a row say so: each by 2 % and five
// standard errors at least, and both the same within a percentage point and the errors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "client/instruction_types.h"

namespace flyball {

// Of one rank. Pure logic: no clock, no thread, nothing is allocated. count() costs some ten nanoseconds, and some
// microseconds at the end of a window.
class DriftWatch {
 public:
  static constexpr std::size_t kWindowSteps = 32;
  static constexpr double kLeastDrift = 0.02;
  // A drift that lasts is told again after so many windows, since the server may not have been ready to follow it.
  static constexpr int kToldAgain = 16;

  // Counts a step in which a type's computations took `measured` where the profile says `expected`; both above 0.
  // Returns whether drifts() are to be told: a type has drifted, or no longer, or by another amount, or still.
  bool count(std::uint16_t type, Seconds measured, Seconds expected);

  // Returns the type's time over that of the profile where it has drifted, and 0 where it has not.
  [[nodiscard]] double drift(std::uint16_t type) const { return types_[type].drift; }

  // Forgets all. The next steps are of another profile.
  void begin_anew() { *this = {}; }

 private:
  struct Window {
    double level = 0.0;  // logarithm of measured over expected
    double error = 0.0;  // its standard error
    bool drifted = false;
  };
  struct Type {
    std::array<double, kWindowSteps> steps{};
    std::size_t count = 0;
    Window before;
    double drift = 0.0;
    int windows_since_told = 0;
  };
  [[nodiscard]] static Window look_at(const std::array<double, kWindowSteps>& steps);

  std::array<Type, kMostInstructionTypes> types_{};
};

}  // namespace flyball
