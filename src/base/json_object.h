// Reads JSON messages and files strictly: every error names the field ("gpus[1]") and how to mend it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"

namespace flyball {

struct NumberRange {
  double minimum;
  double maximum;
  const char* unit;  // "s", "MHz"; "" for none
};

class JsonObject;

// One value of a message: a field of an object, or an entry of a list in it. The message must outlive it. Every
// accessor throws InputError where the value has another type or is out of range.
class JsonValue {
 public:
  JsonValue(const nlohmann::json& value, const JsonObject& object, const std::string& field)
      : value_(&value), object_(&object), field_(&field) {}

  [[nodiscard]] bool is_null() const { return value_->is_null(); }
  [[nodiscard]] bool is_list() const { return value_->is_array(); }
  [[nodiscard]] const nlohmann::json& json() const { return *value_; }
  [[nodiscard]] double number(const NumberRange& range) const;
  [[nodiscard]] std::int64_t integer(std::int64_t minimum, std::int64_t maximum) const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] JsonObject object() const;
  [[nodiscard]] std::size_t size() const;                  // of a list
  [[nodiscard]] JsonValue entry(std::size_t index) const;  // of a list that is not within another list

  [[noreturn]] void refuse(const std::string& problem, const std::string& mend) const;

 private:
  [[nodiscard]] std::string name() const;

  const nlohmann::json* value_;
  const JsonObject* object_;
  const std::string* field_;
  std::ptrdiff_t index_ = -1;  // of an entry
};

// One object of a message. The JSON value must outlive it. Every accessor throws InputError for a wrong value; where
// the field is missing or null, those called find_* return nothing, and the others throw.
class JsonObject {
 public:
  // `source` says where the message came from ("the request"), and `path` where this object is within it ("" at the
  // top).
  JsonObject(const nlohmann::json& value, std::string source, std::string path = {});

  [[nodiscard]] bool has(const std::string& name);                             // even if null
  [[nodiscard]] std::optional<JsonValue> find_value(const std::string& name);  // even if null

  [[nodiscard]] double number(const std::string& name, const NumberRange& range);
  [[nodiscard]] std::optional<double> find_number(const std::string& name, const NumberRange& range);
  [[nodiscard]] std::int64_t integer(const std::string& name, std::int64_t minimum, std::int64_t maximum);
  [[nodiscard]] std::optional<std::int64_t> find_integer(const std::string& name, std::int64_t minimum,
                                                         std::int64_t maximum);
  [[nodiscard]] std::string text(const std::string& name);
  [[nodiscard]] std::optional<std::string> find_text(const std::string& name);
  [[nodiscard]] JsonObject object(const std::string& name);
  // Empty where the field is missing.
  [[nodiscard]] std::vector<JsonObject> objects(const std::string& name);
  [[nodiscard]] std::vector<double> numbers(const std::string& name, const NumberRange& range);
  [[nodiscard]] std::vector<std::int64_t> integers(const std::string& name, std::int64_t minimum, std::int64_t maximum);

  // Throws InputError where the object has a field that nobody asked for.
  void refuse_others() const;

  [[noreturn]] void refuse(const std::string& name, const std::string& problem, const std::string& mend) const;

 private:
  friend class JsonValue;
  [[nodiscard]] std::string place(const std::string& name) const;
  std::optional<JsonValue> find_filled(const std::string& name);  // that is not null
  JsonValue need_value(const std::string& name);
  template <class Read>
  auto list(const std::string& name, const Read& read);

  const nlohmann::json* value_;
  std::string source_;
  std::string path_;
  std::set<std::string> asked_;
};

}  // namespace flyball
