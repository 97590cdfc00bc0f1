// The names of an enumeration's values, in messages, in files and for people: one list, beside the enumeration, in the
// order of the values, which count from 0.
//
//   enum class Knob { kSmClocks, kMemoryClocks, kPowerLimit };
//   template <>
//   inline constexpr auto kNamesOf<Knob> = name_list("sm_clocks", "memory_clocks", "power_limit");
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace flyball {

template <class E>
inline constexpr auto kNamesOf = nullptr;

template <class... Name>
[[nodiscard]] constexpr std::array<std::string_view, sizeof...(Name)> name_list(const Name&... names) {
  return {std::string_view(names)...};
}

template <class E>
concept Named = std::is_enum_v<E> && !std::is_null_pointer_v<std::remove_cv_t<decltype(kNamesOf<E>)>>;

template <Named E>
[[nodiscard]] constexpr std::string_view name_of(E value) {
  return kNamesOf<E>[static_cast<std::size_t>(value)];
}

// Returns the names of all values, in order, as a vector of strings.
template <Named E>
[[nodiscard]] const std::vector<std::string>& names_of() {
  static const std::vector<std::string> kAll(kNamesOf<E>.begin(), kNamesOf<E>.end());
  return kAll;
}

// Returns all values, in order.
template <Named E>
[[nodiscard]] constexpr auto values_of() {
  std::array<E, kNamesOf<E>.size()> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<E>(i);
  return values;
}

// Returns nothing where no value has this name.
template <Named E>
[[nodiscard]] constexpr std::optional<E> value_named(std::string_view name) {
  for (const E value : values_of<E>()) {
    if (name_of(value) == name) return value;
  }
  return std::nullopt;
}

}  // namespace flyball
