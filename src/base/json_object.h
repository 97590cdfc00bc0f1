// Strict reading of JSON messages and files: every complaint names the field ("gpus[1]") and how to mend it.
#pragma once

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

// One object of a message. The JSON value must outlive it. Every accessor throws InputError; those called find_* give
// nothing where the field is missing or null, the others complain.
class JsonObject {
 public:
  // `source` says where the message came from ("the request"), `path` where in it this object stands ("" at the top).
  JsonObject(const nlohmann::json& value, std::string source, std::string path = {});

  [[nodiscard]] bool has(const std::string& name);      // even if null
  [[nodiscard]] bool is_null(const std::string& name);  // there, and null

  [[nodiscard]] double number(const std::string& name, const NumberRange& range);
  [[nodiscard]] std::optional<double> find_number(const std::string& name, const NumberRange& range);
  [[nodiscard]] std::int64_t integer(const std::string& name, std::int64_t minimum, std::int64_t maximum);
  [[nodiscard]] std::optional<std::int64_t> find_integer(const std::string& name, std::int64_t minimum,
                                                         std::int64_t maximum);
  [[nodiscard]] bool boolean(const std::string& name);
  [[nodiscard]] std::string text(const std::string& name);
  [[nodiscard]] std::optional<std::string> find_text(const std::string& name);
  [[nodiscard]] std::optional<std::string> find_choice(const std::string& name,
                                                       const std::vector<std::string>& choices);
  [[nodiscard]] JsonObject object(const std::string& name);
  [[nodiscard]] std::optional<JsonObject> find_object(const std::string& name);
  // Empty where the field is missing.
  [[nodiscard]] std::vector<JsonObject> objects(const std::string& name);
  [[nodiscard]] std::vector<double> numbers(const std::string& name, const NumberRange& range);
  [[nodiscard]] std::vector<std::int64_t> integers(const std::string& name, std::int64_t minimum, std::int64_t maximum);
  [[nodiscard]] std::vector<std::string> texts(const std::string& name);

  // Complains about the fields that nobody asked for.
  void refuse_others() const;

  [[noreturn]] void refuse(const std::string& name, const std::string& problem, const std::string& mend) const;

 private:
  const nlohmann::json* find(const std::string& name);
  const nlohmann::json& need(const std::string& name);
  [[nodiscard]] std::string place(const std::string& name) const;
  double checked_number(const nlohmann::json& value, const std::string& name, const NumberRange& range) const;
  std::int64_t checked_integer(const nlohmann::json& value, const std::string& name, std::int64_t minimum,
                               std::int64_t maximum) const;

  const nlohmann::json* value_;
  std::string source_;
  std::string path_;
  std::set<std::string> asked_;
};

}  // namespace flyball
