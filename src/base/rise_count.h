// When a sweep through the clocks, from the highest down, has seen enough: once the energy has risen so many times in a
// row, lower clocks cost time and energy both.
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
