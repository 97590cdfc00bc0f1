// Gives the instruction types of a rank ("forward", "backward", "forward.1", ...) small numbers.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace flyball {

inline constexpr std::size_t kMostInstructionTypes = 64;
inline constexpr std::size_t kLongestInstructionName = 63;  // bytes

// Returns whether an instruction of this name computes at the clock that is set.
[[nodiscard]] inline bool is_computation(std::string_view instruction) {
  return instruction.starts_with("forward") || instruction.starts_with("backward") ||
         instruction.starts_with("recompute");
}

// Thread-safe. Names are never forgotten. Finding one costs a comparison per known type, and never waits.
class InstructionTypes {
 public:
  [[nodiscard]] std::optional<std::uint16_t> find(std::string_view name) const noexcept {
    const std::size_t known = count_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < known; ++i) {
      if (names_[i] == name) return static_cast<std::uint16_t>(i);
    }
    return std::nullopt;
  }

  // Returns the number of a name, which is added if it is new. Throws UsageError for an empty or too long name, and
  // beyond kMostInstructionTypes.
  std::uint16_t number_of(std::string_view name);

  [[nodiscard]] std::size_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  // `type` is below count().
  [[nodiscard]] const std::string& name(std::size_t type) const noexcept { return names_[type]; }

 private:
  std::atomic<std::size_t> count_{0};                     // beside the first names: one cache line or two in all
  std::array<std::string, kMostInstructionTypes> names_;  // [0, count_) never change
  std::mutex adding_;
};

}  // namespace flyball
