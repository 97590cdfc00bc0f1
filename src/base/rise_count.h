// Tells when a sweep from the highest clock down may end: after the energy has risen a given number of times in a row.
// Lower clocks would then cost more time and more energy.
#pragma once

#include <optional>

#include "base/units.h"

namespace flyball {

inline constexpr int kRisesToStop = 5;

class RiseCount {
 public:
  // Returns how many times in a row it has risen, up to this energy.
  int add(Joules energy) {
    rises_ = last_ && energy > *last_ ? rises_ + 1 : 0;
    last_ = energy;
    return rises_;
  }
  [[nodiscard]] int rises() const { return rises_; }

 private:
  std::optional<Joules> last_;
  int rises_ = 0;
};

}  // namespace flyball
