// What a rank's computations take at each clock, by its own profile.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "base/units.h"
#include "client/instruction_types.h"

namespace flyball {

// Not thread-safe; immutable once made.
class ComputingTimes {
 public:
  // A later measurement of the same type at the same clock replaces an earlier one.
  void add(std::uint16_t type, Megahertz clock, Seconds time);
  // How long after a clock change computations may still run at the old clock.
  void set_settling(Seconds time) { settling_ = time; }

  // Returns what a computation of the type takes at the clock; between measured clocks, by their cycles. 0 where
  // nothing is known. Costs some ten nanoseconds.
  [[nodiscard]] Seconds at(std::uint16_t type, Megahertz clock) const;
  [[nodiscard]] Seconds settling() const { return settling_; }

 private:
  std::array<std::map<Megahertz, Seconds>, kMostInstructionTypes> times_;
  Seconds settling_;
};

}  // namespace flyball
