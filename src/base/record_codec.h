// Codecs for the fields of described records (base/record.h): how a value of each C++ type is read, written and shown
// in a schema.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/described.h"
#include "base/json_object.h"
#include "base/names.h"
#include "base/units.h"

namespace flyball {

// What a field may hold, and what people are told about it.
struct FieldRules {
  const char* text = "";         // a sentence or two; Record::field() sets it
  bool needed = false;           // it must be given; other fields keep their default where they are missing
  bool left_out = false;         // it is not written while it has its default, since older programs do not know it
  bool empty_is_null = false;    // of a text
  bool null_is_missing = false;  // of a boolean; null in other fields always is
  // The range of a number, and of each number of a list.
  double minimum = -1e300;
  double maximum = 1e300;
  // The length of a text in bytes; a text that need not be given may also be empty. `marks` are the only characters
  // that it may hold besides letters and digits.
  std::size_t shortest = 0;
  std::size_t longest = std::numeric_limits<std::size_t>::max();
  const char* marks = nullptr;
  const char* example = nullptr;  // "forward or backward"
  const char* known = nullptr;    // "planners": its list in KnownNames; the reader takes other names, too
  // The number of a list's entries.
  std::size_t fewest = 0;
  std::size_t most = std::numeric_limits<std::size_t>::max();
  bool single = false;  // a list of one may be given as its entry alone
};

// A described type has, beside it, `Record<T> description_of(const T*)`; the argument only names the type. What is
// derived from a described type is not described by that.
template <class T>
concept Described = requires(const T* type) {
  { description_of(type) } -> std::same_as<Record<T>>;
};

// The description, made at its first use.
template <Described T>
[[nodiscard]] const Record<T>& record_of() {
  static const Record<T> kRecord = description_of(static_cast<const T*>(nullptr));
  return kRecord;
}

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsTwiceOptional = false;
template <class T>
inline constexpr bool kIsTwiceOptional<std::optional<std::optional<T>>> = true;

// read() throws InputError where the value has another type or breaks the field's rules. Types with a form of their own
// specialise this beside themselves.
template <class T>
struct Codec;

template <class T>
[[nodiscard]] nlohmann::ordered_json write_value(const T& value) {
  return Codec<T>::write(value);
}

template <class T>
[[nodiscard]] nlohmann::ordered_json schema_of(const FieldRules& rules) {
  return Codec<T>::schema(rules);
}

template <class T>
[[nodiscard]] const char* unit_of() {
  if constexpr (requires { Codec<T>::kUnit; }) {
    return Codec<T>::kUnit;
  } else if constexpr (requires { typename T::value_type; } && !std::is_same_v<T, std::string>) {
    return unit_of<typename T::value_type>();  // of a list, or of what may be missing
  } else {
    return "";
  }
}

// The parts that need no template.
[[nodiscard]] bool is_made_of(std::string_view text, std::string_view marks);  // of letters, digits and these
[[nodiscard]] std::string read_text(const JsonValue& value, const FieldRules& rules);
[[nodiscard]] nlohmann::ordered_json text_schema(const FieldRules& rules);
[[nodiscard]] nlohmann::ordered_json number_schema(const FieldRules& rules);
[[nodiscard]] nlohmann::ordered_json integer_schema(std::int64_t minimum, std::int64_t maximum);
[[nodiscard]] nlohmann::ordered_json list_schema(nlohmann::ordered_json entry, const FieldRules& rules);
[[nodiscard]] nlohmann::ordered_json or_null(nlohmann::ordered_json schema);
[[noreturn]] void refuse_choice(const JsonValue& value, const std::string& given, const std::vector<std::string>& all);
void refuse_length_of_list(const JsonValue& value, const FieldRules& rules);

template <>
struct Codec<bool> {
  static bool read(const JsonValue& value, const FieldRules& /*rules*/) { return value.boolean(); }
  static nlohmann::ordered_json write(bool value) { return value; }
  static nlohmann::ordered_json schema(const FieldRules& rules) {
    nlohmann::ordered_json schema = {{"type", "boolean"}};
    return rules.null_is_missing ? or_null(std::move(schema)) : schema;
  }
};

template <std::integral T>
struct Codec<T> {
  static T read(const JsonValue& value, const FieldRules& rules) {
    return static_cast<T>(value.integer(minimum(rules), maximum(rules)));
  }
  static nlohmann::ordered_json write(T value) { return value; }
  static nlohmann::ordered_json schema(const FieldRules& rules) {
    return integer_schema(minimum(rules), maximum(rules));
  }

 private:
  static constexpr std::int64_t kLeast = std::is_signed_v<T> ? std::numeric_limits<T>::min() : 0;
  static constexpr std::int64_t kMost =
      sizeof(T) < sizeof(std::int64_t) ? static_cast<std::int64_t>(std::numeric_limits<T>::max()) : INT64_MAX;
  static std::int64_t minimum(const FieldRules& rules) {
    return rules.minimum > static_cast<double>(kLeast) ? static_cast<std::int64_t>(rules.minimum) : kLeast;
  }
  static std::int64_t maximum(const FieldRules& rules) {
    return rules.maximum < static_cast<double>(kMost) ? static_cast<std::int64_t>(rules.maximum) : kMost;
  }
};

template <>
struct Codec<double> {
  static double read(const JsonValue& value, const FieldRules& rules, const char* unit = "") {
    return value.number({rules.minimum, rules.maximum, unit});
  }
  static nlohmann::ordered_json write(double value) {
    return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  }
  static nlohmann::ordered_json schema(const FieldRules& rules) { return number_schema(rules); }
};

template <class Unit>
struct Codec<Quantity<Unit>> {
  static constexpr const char* kUnit = std::is_same_v<Unit, SecondsTag>  ? "s"
                                       : std::is_same_v<Unit, JoulesTag> ? "J"
                                       : std::is_same_v<Unit, WattsTag>  ? "W"
                                                                         : "MHz";
  static Quantity<Unit> read(const JsonValue& value, const FieldRules& rules) {
    return Quantity<Unit>(Codec<double>::read(value, rules, kUnit));
  }
  static nlohmann::ordered_json write(Quantity<Unit> value) { return Codec<double>::write(value.value()); }
  static nlohmann::ordered_json schema(const FieldRules& rules) { return number_schema(rules); }
};

template <>
struct Codec<std::string> {
  static std::string read(const JsonValue& value, const FieldRules& rules) { return read_text(value, rules); }
  static nlohmann::ordered_json write(const std::string& value) { return value; }
  static nlohmann::ordered_json schema(const FieldRules& rules) { return text_schema(rules); }
};

template <Named E>
struct Codec<E> {
  static E read(const JsonValue& value, const FieldRules& /*rules*/) {
    const std::string text = value.text();
    if (const auto known = value_named<E>(text)) return *known;
    if constexpr (std::is_same_v<decltype(kUnknownName<E>), const E>) {
      return kUnknownName<E>;
    } else {
      refuse_choice(value, text, names_of<E>());
    }
  }
  static nlohmann::ordered_json write(E value) { return name_of(value); }
  static nlohmann::ordered_json schema(const FieldRules& /*rules*/) { return {{"enum", names_of<E>()}}; }
};

template <Described T>
struct Codec<T> {
  static T read(const JsonValue& value, const FieldRules& /*rules*/) { return record_of<T>().read(value.object()); }
  static nlohmann::ordered_json write(const T& value) { return record_of<T>().write(value); }
  static nlohmann::ordered_json schema(const FieldRules& /*rules*/) {
    return {{"$ref", "#/components/schemas/" + record_of<T>().name()}};
  }
};

template <class T>
struct Codec<std::vector<T>> {
  static std::vector<T> read(const JsonValue& value, const FieldRules& rules) {
    if (rules.single && !value.is_list()) return {Codec<T>::read(value, rules)};
    refuse_length_of_list(value, rules);
    std::vector<T> all;
    all.reserve(value.size());
    for (std::size_t i = 0; i < value.size(); ++i) all.push_back(Codec<T>::read(value.entry(i), rules));
    return all;
  }
  static nlohmann::ordered_json write(const std::vector<T>& values) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const T& value : values) all.push_back(Codec<T>::write(value));
    return all;
  }
  static nlohmann::ordered_json schema(const FieldRules& rules) { return list_schema(Codec<T>::schema(rules), rules); }
};

// An object whose fields have names that the caller chooses; the rules hold for each of its values.
template <class T>
struct Codec<std::map<std::string, T, std::less<>>> {
  using Map = std::map<std::string, T, std::less<>>;
  static Map read(const JsonValue& value, const FieldRules& rules) {
    Map all;
    JsonObject object = value.object();
    for (const auto& [name, entry] : value.json().items()) {
      all.emplace(name, Codec<T>::read(*object.find_value(name), rules));
    }
    return all;
  }
  static nlohmann::ordered_json write(const Map& values) {
    nlohmann::ordered_json all = nlohmann::ordered_json::object();
    for (const auto& [name, value] : values) all[name] = Codec<T>::write(value);
    return all;
  }
  static nlohmann::ordered_json schema(const FieldRules& rules) {
    return {{"type", "object"}, {"additionalProperties", Codec<T>::schema(rules)}};
  }
};

template <class T>
struct Codec<std::optional<T>> {
  static std::optional<T> read(const JsonValue& value, const FieldRules& rules) {
    if (!kIsOptional<T> && value.is_null()) return std::nullopt;  // of two nested optionals, null empties the outer one
    return std::optional<T>(std::in_place, Codec<T>::read(value, rules));
  }
  static nlohmann::ordered_json write(const std::optional<T>& value) {
    return value ? Codec<T>::write(*value) : nlohmann::ordered_json(nullptr);
  }
  static nlohmann::ordered_json schema(const FieldRules& rules) { return or_null(Codec<T>::schema(rules)); }
};

template <class T>
[[nodiscard]] bool is_outer_empty(const T& value) {
  if constexpr (kIsTwiceOptional<T>) {
    return !value;
  } else {
    return false;
  }
}

// Reads a field into `value`, which stays as it is where the field is missing or null.
template <class T>
void read_field(JsonObject& object, const char* name, T& value, const FieldRules& rules) {
  const auto found = object.find_value(name);
  const bool null_is_value = kIsTwiceOptional<T> || (std::is_same_v<T, bool> && !rules.null_is_missing);
  if (!found || (found->is_null() && !null_is_value)) {
    if (rules.needed) object.refuse(name, "is missing", "add it");
    return;
  }
  value = Codec<T>::read(*found, rules);
}

}  // namespace flyball
