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
  // How long after a clock change computations may still run at the old clock, and usually do.
  void set_settling(Seconds longest, Seconds usual) {
    settling_ = longest;
    change_ = usual;
  }

  // Returns what a computation of the type takes at the clock; between measured clocks, by their cycles. 0 where
  // nothing is known. Costs some ten nanoseconds.
  [[nodiscard]] Seconds at(std::uint16_t type, Megahertz clock) const;
  [[nodiscard]] Seconds settling() const { return settling_; }
  // Returns what one takes that begins so long after its clock was asked for, while `before` still holds; 0 where that
  // is uncertain by more than some per cent.
  [[nodiscard]] Seconds after_change(std::uint16_t type, Megahertz before, Megahertz clock, Seconds ago) const;

 private:
  std::array<std::map<Megahertz, Seconds>, kMostInstructionTypes> times_;
  Seconds settling_;
  Seconds change_;
};

}  // namespace flyball
