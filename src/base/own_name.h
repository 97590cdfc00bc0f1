// Names of what a stage runs for its first and its last microbatch where that is known apart from the others:
// "backward.first", "forward.1.last" for chunk 1. They stand in measurements and profiles beside the common name.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace flyball {

// Which microbatches of an iteration.
enum class Microbatches { kAll, kFirst, kLast };

inline constexpr std::string_view kFirstEnd = ".first";
inline constexpr std::string_view kLastEnd = ".last";

// Returns the name without a chunk's number: "forward" of "forward.1" and of itself.
[[nodiscard]] constexpr std::string_view without_chunk(std::string_view instruction) {
  const std::size_t dot = instruction.rfind('.');
  if (dot == std::string_view::npos || dot + 1 == instruction.size()) return instruction;
  const bool digits = instruction.find_first_not_of("0123456789", dot + 1) == std::string_view::npos;
  return digits ? instruction.substr(0, dot) : instruction;
}

// Returns whether this is a computation that schedules have, or a chunk's own ("forward.1"): others have no such names,
// and what ends alike ("block.first" of a DAG file) is a whole name.
[[nodiscard]] constexpr bool may_have_own_names(std::string_view instruction) {
  instruction = without_chunk(instruction);
  for (const std::string_view name : {"forward", "backward", "recompute", "backward_input", "backward_weight"}) {
    if (instruction == name) return true;
  }
  return false;
}

[[nodiscard]] constexpr Microbatches microbatches_of(std::string_view instruction) {
  const std::size_t dot = instruction.rfind('.');
  if (dot == std::string_view::npos || !may_have_own_names(instruction.substr(0, dot))) return Microbatches::kAll;
  if (instruction.substr(dot) == kFirstEnd) return Microbatches::kFirst;
  return instruction.substr(dot) == kLastEnd ? Microbatches::kLast : Microbatches::kAll;
}

[[nodiscard]] constexpr bool is_own_name(std::string_view instruction) {
  return microbatches_of(instruction) != Microbatches::kAll;
}

// Returns the name that all microbatches have: "backward" of "backward.first" and of itself.
[[nodiscard]] constexpr std::string_view common_name(std::string_view instruction) {
  const Microbatches of = microbatches_of(instruction);
  if (of == Microbatches::kAll) return instruction;
  return instruction.substr(0, instruction.size() - (of == Microbatches::kFirst ? kFirstEnd : kLastEnd).size());
}

[[nodiscard]] inline std::string own_name(std::string_view common, Microbatches of) {
  std::string name(common);
  if (of != Microbatches::kAll) name += of == Microbatches::kFirst ? kFirstEnd : kLastEnd;
  return name;
}

// Returns of which microbatches the `index`-th of `count` runs of an instruction in an iteration is.
[[nodiscard]] constexpr Microbatches microbatches_at(std::size_t index, std::size_t count) {
  if (index == 0) return Microbatches::kFirst;
  return index + 1 == count ? Microbatches::kLast : Microbatches::kAll;
}

// First and last ones are known apart where an iteration has this many runs at least.
inline constexpr std::size_t kLeastForOwn = 4;

// Whether first or last microbatches take another time than those between, by the logarithms of their times over those
// of the others, one for each clock: these must lie further from 0 than their scatter leaves in doubt, and than
// matters. Below five clocks, the scatter itself is in doubt: three without a difference are five standard errors off
// once in 26. Returns the mean logarithm and its standard error; none where nothing is kept apart.
struct OwnTime {
  double logarithm = 0.0;
  double deviation = 0.0;
};
[[nodiscard]] inline std::optional<OwnTime> time_apart(std::span<const double> logarithms) {
  constexpr double kLeast = 0.005;
  constexpr double kDeviations = 5.0;
  constexpr std::size_t kFewestClocks = 5;
  if (logarithms.size() < kFewestClocks) return std::nullopt;
  const auto count = static_cast<double>(logarithms.size());
  double sum = 0.0;
  double squares = 0.0;
  for (const double one : logarithms) {
    sum += one;
    squares += one * one;
  }
  const double mean = sum / count;
  const double variance = std::max(0.0, squares / count - mean * mean) / (count - 1.0);
  const OwnTime apart{mean, std::sqrt(variance)};
  if (std::abs(mean) <= std::max(kLeast, kDeviations * apart.deviation)) return std::nullopt;
  return apart;
}

}  // namespace flyball
