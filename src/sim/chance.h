// Chance that is the same each time: numbers drawn from a seed. Needs the standard library only, as all that the
// simulated vendor library carries into other processes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace flyball {

// The mixing function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
[[nodiscard]] inline std::uint64_t mix(std::uint64_t value) {
  std::uint64_t mixed = value + 0x9E3779B97F4A7C15u;
  mixed = (mixed ^ mixed >> 30u) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ mixed >> 27u) * 0x94D049BB133111EBu;
  return mixed ^ mixed >> 31u;
}

// Evenly spread from -1 to 1.
[[nodiscard]] inline double evenly(std::uint64_t seed) { return static_cast<double>(mix(seed) >> 11u) * 0x1p-52 - 1.0; }

// The n-th of a seed: of mean 0 and deviation 1 (Box and Muller), within three deviations.
[[nodiscard]] inline double normally(std::uint64_t seed, std::uint64_t n) {
  constexpr double kTwoPi = 6.283185307179586;
  const double radius = 0.5 * (1.0 + evenly(mix(seed) ^ 2 * n));
  const double angle = 0.5 * kTwoPi * evenly(mix(seed) ^ (2 * n + 1));
  return std::clamp(std::sqrt(-2.0 * std::log(std::max(radius, 1e-300))) * std::cos(angle), -3.0, 3.0);
}

}  // namespace flyball
