#include "base/json_object.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest_name.h"

namespace flyball {
namespace {

std::string shown(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  return text;
}

}  // namespace

JsonObject::JsonObject(const nlohmann::json& value, std::string source, std::string path)
    : value_(&value), source_(std::move(source)), path_(std::move(path)) {
  if (value.is_object()) return;
  throw InputError({source_},
                   fmt::format("{} is {}, not an object", path_.empty() ? "the message" : path_, shown(value)),
                   "write an object in braces");
}

std::string JsonObject::place(const std::string& name) const { return path_.empty() ? name : path_ + "." + name; }

void JsonObject::refuse(const std::string& name, const std::string& problem, const std::string& mend) const {
  throw InputError({source_}, fmt::format("{}: {}", place(name), problem), mend);
}

const nlohmann::json* JsonObject::find(const std::string& name) {
  asked_.insert(name);
  const auto found = value_->find(name);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

const nlohmann::json& JsonObject::need(const std::string& name) {
  const nlohmann::json* found = find(name);
  if (found == nullptr) refuse(name, "is missing", "add it");
  return *found;
}

bool JsonObject::has(const std::string& name) {
  asked_.insert(name);
  return value_->contains(name);
}

bool JsonObject::is_null(const std::string& name) { return has(name) && (*value_)[name].is_null(); }

double JsonObject::checked_number(const nlohmann::json& value, const std::string& name,
                                  const NumberRange& range) const {
  const std::string wanted = fmt::format("give a number from {} to {}{}{}", range.minimum, range.maximum,
                                         *range.unit == '\0' ? "" : " ", range.unit);
  if (!value.is_number()) refuse(name, fmt::format("is {}, not a number", shown(value)), wanted);
  const double number = value.get<double>();
  if (!(number >= range.minimum && number <= range.maximum)) {
    refuse(name, fmt::format("is {}, out of range", shown(value)), wanted);
  }
  return number;
}

std::int64_t JsonObject::checked_integer(const nlohmann::json& value, const std::string& name, std::int64_t minimum,
                                         std::int64_t maximum) const {
  const std::string wanted = fmt::format("give a whole number from {} to {}", minimum, maximum);
  if (!value.is_number_integer()) refuse(name, fmt::format("is {}, not a whole number", shown(value)), wanted);
  const bool too_large =
      value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
  const std::int64_t number = too_large ? INT64_MAX : value.get<std::int64_t>();
  if (too_large || number < minimum || number > maximum) {
    refuse(name, fmt::format("is {}, out of range", shown(value)), wanted);
  }
  return number;
}

double JsonObject::number(const std::string& name, const NumberRange& range) {
  return checked_number(need(name), name, range);
}

std::optional<double> JsonObject::find_number(const std::string& name, const NumberRange& range) {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return std::nullopt;
  return checked_number(*value, name, range);
}

std::int64_t JsonObject::integer(const std::string& name, std::int64_t minimum, std::int64_t maximum) {
  return checked_integer(need(name), name, minimum, maximum);
}

std::optional<std::int64_t> JsonObject::find_integer(const std::string& name, std::int64_t minimum,
                                                     std::int64_t maximum) {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return std::nullopt;
  return checked_integer(*value, name, minimum, maximum);
}

bool JsonObject::boolean(const std::string& name) {
  // A null is neither true nor false, but it is not missing.
  const nlohmann::json& value = has(name) ? value_->at(name) : need(name);
  if (!value.is_boolean()) refuse(name, fmt::format("is {}, not true or false", shown(value)), "give true or false");
  return value.get<bool>();
}

std::string JsonObject::text(const std::string& name) {
  const nlohmann::json& value = need(name);
  if (!value.is_string()) refuse(name, fmt::format("is {}, not a text", shown(value)), "put it in quotes");
  return value.get<std::string>();
}

std::optional<std::string> JsonObject::find_text(const std::string& name) {
  if (find(name) == nullptr) return std::nullopt;
  return text(name);
}

std::optional<std::string> JsonObject::find_choice(const std::string& name, const std::vector<std::string>& choices) {
  auto value = find_text(name);
  if (value && std::find(choices.begin(), choices.end(), *value) == choices.end()) {
    refuse(name, fmt::format("is '{}'", *value), fmt::format("give one of: {}", fmt::join(choices, ", ")));
  }
  return value;
}

JsonObject JsonObject::object(const std::string& name) { return {need(name), source_, place(name)}; }

std::optional<JsonObject> JsonObject::find_object(const std::string& name) {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return std::nullopt;
  return JsonObject(*value, source_, place(name));
}

std::vector<JsonObject> JsonObject::objects(const std::string& name) {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return {};
  if (!value->is_array()) refuse(name, fmt::format("is {}, not a list", shown(*value)), "write a list in brackets");
  std::vector<JsonObject> all;
  for (std::size_t i = 0; i < value->size(); ++i) {
    all.emplace_back((*value)[i], source_, fmt::format("{}[{}]", place(name), i));
  }
  return all;
}

std::vector<double> JsonObject::numbers(const std::string& name, const NumberRange& range) {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return {};
  if (!value->is_array()) refuse(name, fmt::format("is {}, not a list", shown(*value)), "write a list in brackets");
  std::vector<double> all;
  for (std::size_t i = 0; i < value->size(); ++i) {
    all.push_back(checked_number((*value)[i], fmt::format("{}[{}]", name, i), range));
  }
  return all;
}

std::vector<std::int64_t> JsonObject::integers(const std::string& name, std::int64_t minimum, std::int64_t maximum) {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return {};
  if (!value->is_array()) refuse(name, fmt::format("is {}, not a list", shown(*value)), "write a list in brackets");
  std::vector<std::int64_t> all;
  for (std::size_t i = 0; i < value->size(); ++i) {
    all.push_back(checked_integer((*value)[i], fmt::format("{}[{}]", name, i), minimum, maximum));
  }
  return all;
}

std::vector<std::string> JsonObject::texts(const std::string& name) {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return {};
  if (!value->is_array()) refuse(name, fmt::format("is {}, not a list", shown(*value)), "write a list in brackets");
  std::vector<std::string> all;
  for (std::size_t i = 0; i < value->size(); ++i) {
    if (!(*value)[i].is_string()) {
      refuse(fmt::format("{}[{}]", name, i), fmt::format("is {}, not a text", shown((*value)[i])), "put it in quotes");
    }
    all.push_back((*value)[i].get<std::string>());
  }
  return all;
}

void JsonObject::refuse_others() const {
  for (const auto& [name, value] : value_->items()) {
    if (asked_.count(name) != 0) continue;
    const std::string meant = nearest_name(name, std::vector<std::string>(asked_.begin(), asked_.end()));
    refuse(name, "there is no such field",
           meant.empty() ? fmt::format("leave it out; there are: {}", fmt::join(asked_, ", "))
                         : fmt::format("did you mean {}?", meant));
  }
}

}  // namespace flyball
