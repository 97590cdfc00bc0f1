// Physical quantities as distinct types, so that a time can never be passed where an energy is meant.
//
// Everything above the device drivers is in SI units (clocks in MHz, the unit of every vendor's interface). A quantity
// is one double; the operators below are the only conversions, and all are constexpr and free of cost.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>

namespace flyball {

template <class Unit>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double value) : value_(value) {}

  [[nodiscard]] constexpr double value() const { return value_; }

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) { return value_ += other.value_, *this; }
  constexpr Quantity& operator-=(Quantity other) { return value_ -= other.value_, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value_ + b.value_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value_ - b.value_); }
  friend constexpr Quantity operator-(Quantity a) { return Quantity(-a.value_); }
  friend constexpr Quantity operator*(Quantity a, double k) { return Quantity(a.value_ * k); }
  friend constexpr Quantity operator*(double k, Quantity a) { return Quantity(a.value_ * k); }
  friend constexpr Quantity operator/(Quantity a, double k) { return Quantity(a.value_ / k); }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value_ / b.value_; }

 private:
  double value_ = 0.0;
};

using Seconds = Quantity<struct SecondsTag>;
using Joules = Quantity<struct JoulesTag>;
using Watts = Quantity<struct WattsTag>;
using Megahertz = Quantity<struct MegahertzTag>;

constexpr Joules operator*(Watts p, Seconds t) { return Joules(p.value() * t.value()); }
constexpr Joules operator*(Seconds t, Watts p) { return p * t; }
constexpr Watts operator/(Joules e, Seconds t) { return Watts(e.value() / t.value()); }
constexpr Seconds operator/(Joules e, Watts p) { return Seconds(e.value() / p.value()); }

// Time of solvers and clocks. Schedules and cuts are computed in whole nanoseconds, so that equal paths compare equal
// and no result depends on the order of a floating-point sum. 2^63 ns is 292 years.
using Nanoseconds = std::int64_t;
inline constexpr Nanoseconds kMillisecond = 1'000'000;
inline constexpr Nanoseconds kSecond = 1'000 * kMillisecond;

[[nodiscard]] inline Nanoseconds to_nanoseconds(Seconds t) { return std::llround(t.value() * 1e9); }
[[nodiscard]] constexpr Seconds to_seconds(Nanoseconds t) { return Seconds(static_cast<double>(t) / 1e9); }

}  // namespace flyball
