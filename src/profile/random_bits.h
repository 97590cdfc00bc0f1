// Random numbers that are the same on every machine.
#pragma once

#include <cstdint>

namespace flyball {

// Returns the next 64 bits of splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
inline std::uint64_t next_random_bits(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15u;
  std::uint64_t z = state;
  z = (z ^ (z >> 30u)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27u)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31u);
}

// Returns the next number, which is uniform in [0, 1).
inline double next_uniform(std::uint64_t& state) {
  return static_cast<double>(next_random_bits(state) >> 11u) * 0x1p-53;
}

}  // namespace flyball
