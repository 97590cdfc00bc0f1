// Numbers of stages, GPUs, jobs and their like are int, where "none" is -1; containers want std::size_t.
#pragma once

#include <cstddef>

namespace flyball {

// The number, which must not be negative, as an index: `clocks[at(stage)]`.
[[nodiscard]] constexpr std::size_t at(int number) { return static_cast<std::size_t>(number); }

}  // namespace flyball
