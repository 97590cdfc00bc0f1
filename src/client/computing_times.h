// What a rank's computations take at each clock, and its transfers at any, by its own profile.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "base/own_name.h"
#include "base/units.h"
#include "client/instruction_types.h"
#include "wire/job_messages.h"

namespace flyball {

// Not thread-safe; immutable once made.
class ComputingTimes {
 public:
  // A later measurement of the same type at the same clock replaces an earlier one.
  void add(std::uint16_t type, Megahertz clock, Seconds time, Microbatches of = Microbatches::kAll);
  // Likewise of a transfer, which takes as long at any clock. Of several measurements the shortest counts: it has
  // waited least.
  void add_transfer(std::uint16_t type, PaceOf kind, Seconds time);
  // How long after a clock change computations may still run at the old clock, and usually do; 0: not known.
  void set_settling(Seconds longest, Seconds usual) {
    settling_ = longest;
    change_ = usual;
  }

  // Returns what a computation of the type takes at the clock; between measured clocks, by their cycles. 0 where
  // nothing is known. A first or last one not measured apart takes what all do. Costs some ten nanoseconds.
  [[nodiscard]] Seconds at(std::uint16_t type, Megahertz clock, Microbatches of = Microbatches::kAll) const;
  // Returns kComputing for what is no transfer.
  [[nodiscard]] PaceOf kind_of(std::uint16_t type) const { return kinds_[type]; }
  [[nodiscard]] Seconds of_transfer(std::uint16_t type) const { return transfers_[type]; }
  // Returns what a computation at `clock` takes that began `since` after this was asked for in place of `before`: until
  // the change, it runs at the clock before. 0 where that is not known, or most of the computation may be at either.
  [[nodiscard]] Seconds after_change(std::uint16_t type, Megahertz clock, Megahertz before, Seconds since,
                                     Microbatches of = Microbatches::kAll) const;

 private:
  using OfTypes = std::array<std::map<Megahertz, Seconds>, kMostInstructionTypes>;

  std::array<OfTypes, 3> times_;  // by Microbatches
  std::array<PaceOf, kMostInstructionTypes> kinds_{};
  std::array<Seconds, kMostInstructionTypes> transfers_{};
  Seconds settling_;
  Seconds change_;
};

}  // namespace flyball
