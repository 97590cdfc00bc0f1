// Colours that colour-blind readers can tell apart: a perceptually even ramp for power, the Okabe-Ito set for planners.
#pragma once

#include <cstddef>
#include <string>

#include "base/units.h"

namespace flyball {

// Maps mean power to a colour, from dark (low) to bright (high).
class PowerScale {
 public:
  // The range is widened to multiples of 25 W.
  PowerScale(Watts least, Watts most);

  [[nodiscard]] std::string color(Watts power) const;  // "#rrggbb"
  // Returns whether white text reads better on color(power) than black.
  [[nodiscard]] bool is_dark(Watts power) const;
  [[nodiscard]] Watts least() const { return least_; }
  [[nodiscard]] Watts most() const { return most_; }

 private:
  [[nodiscard]] double share(Watts power) const;

  Watts least_;
  Watts most_;
};

// Planners and policies take the colours p0 ... p9 of web/chart.css in turn.
inline constexpr std::size_t kPlannerClasses = 10;

}  // namespace flyball
