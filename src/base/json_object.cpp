// Wraps nlohmann::json. An object remembers the names that were asked for, which is how refuse_others() knows the
// rest; values carry their place for the error messages.
#include "base/json_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/nearest_name.h"

namespace flyball {
namespace {

std::string shown(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  return text;
}

}  // namespace

double JsonValue::number(const NumberRange& range) const {
  const auto wanted = [&] {
    return fmt::format("give a number from {} to {}{}{}", range.minimum, range.maximum, *range.unit == '\0' ? "" : " ",
                       range.unit);
  };
  if (!value_->is_number()) refuse(fmt::format("is {}, not a number", shown(*value_)), wanted());
  const double number = value_->get<double>();
  if (!(number >= range.minimum && number <= range.maximum)) {
    // JSON has no word for what a C program may pass as NaN or infinity.
    refuse(fmt::format("is {}, out of range", std::isfinite(number) ? shown(*value_) : fmt::to_string(number)),
           wanted());
  }
  return number;
}

std::int64_t JsonValue::integer(std::int64_t minimum, std::int64_t maximum) const {
  const auto wanted = [&] { return fmt::format("give a whole number from {} to {}", minimum, maximum); };
  if (!value_->is_number_integer()) refuse(fmt::format("is {}, not a whole number", shown(*value_)), wanted());
  const bool too_large =
      value_->is_number_unsigned() && value_->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
  const std::int64_t number = too_large ? INT64_MAX : value_->get<std::int64_t>();
  if (too_large || number < minimum || number > maximum) {
    refuse(fmt::format("is {}, out of range", shown(*value_)), wanted());
  }
  return number;
}

bool JsonValue::boolean() const {
  if (!value_->is_boolean()) refuse(fmt::format("is {}, not true or false", shown(*value_)), "give true or false");
  return value_->get<bool>();
}

std::string JsonValue::text() const {
  if (!value_->is_string()) refuse(fmt::format("is {}, not a text", shown(*value_)), "put it in quotes");
  return value_->get<std::string>();
}

JsonObject JsonValue::object() const { return {*value_, object_->source_, object_->place(name())}; }

std::size_t JsonValue::size() const {
  if (!value_->is_array()) refuse(fmt::format("is {}, not a list", shown(*value_)), "write a list in brackets");
  return value_->size();
}

JsonValue JsonValue::entry(std::size_t index) const {
  JsonValue entry((*value_)[index], *object_, *field_);
  entry.index_ = static_cast<std::ptrdiff_t>(index);
  return entry;
}

std::string JsonValue::name() const { return index_ < 0 ? *field_ : fmt::format("{}[{}]", *field_, index_); }

void JsonValue::refuse(const std::string& problem, const std::string& mend) const {
  object_->refuse(name(), problem, mend);
}

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

bool JsonObject::has(const std::string& name) {
  asked_.insert(name);
  return value_->contains(name);
}

std::optional<JsonValue> JsonObject::find_value(const std::string& name) {
  const auto asked = asked_.insert(name).first;
  const auto found = value_->find(name);
  if (found == value_->end()) return std::nullopt;
  return JsonValue(*found, *this, *asked);
}

std::optional<JsonValue> JsonObject::find_filled(const std::string& name) {
  auto value = find_value(name);
  return value && value->is_null() ? std::nullopt : value;
}

JsonValue JsonObject::need_value(const std::string& name) {
  const auto found = find_filled(name);
  if (!found) refuse(name, "is missing", "add it");
  return *found;
}

double JsonObject::number(const std::string& name, const NumberRange& range) { return need_value(name).number(range); }

std::optional<double> JsonObject::find_number(const std::string& name, const NumberRange& range) {
  const auto value = find_filled(name);
  return value ? std::optional(value->number(range)) : std::nullopt;
}

std::int64_t JsonObject::integer(const std::string& name, std::int64_t minimum, std::int64_t maximum) {
  return need_value(name).integer(minimum, maximum);
}

std::optional<std::int64_t> JsonObject::find_integer(const std::string& name, std::int64_t minimum,
                                                     std::int64_t maximum) {
  const auto value = find_filled(name);
  return value ? std::optional(value->integer(minimum, maximum)) : std::nullopt;
}

std::string JsonObject::text(const std::string& name) { return need_value(name).text(); }

std::optional<std::string> JsonObject::find_text(const std::string& name) {
  const auto value = find_filled(name);
  return value ? std::optional(value->text()) : std::nullopt;
}

JsonObject JsonObject::object(const std::string& name) { return need_value(name).object(); }

// Returns what `read` makes of each entry; nothing where the field is missing.
template <class Read>
auto JsonObject::list(const std::string& name, const Read& read) {
  std::vector<decltype(read(std::declval<JsonValue>()))> all;
  if (const auto value = find_filled(name)) {
    for (std::size_t i = 0; i < value->size(); ++i) all.push_back(read(value->entry(i)));
  }
  return all;
}

std::vector<JsonObject> JsonObject::objects(const std::string& name) {
  return list(name, [](const JsonValue& entry) { return entry.object(); });
}

std::vector<std::int64_t> JsonObject::integers(const std::string& name, std::int64_t minimum, std::int64_t maximum) {
  return list(name, [&](const JsonValue& entry) { return entry.integer(minimum, maximum); });
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
