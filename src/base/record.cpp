// The parts of described records that need no template: reading texts, and turning rules into JSON Schema. The bounds
// that a reader checks and those that the schema shows come from the same FieldRules.
#include "base/record.h"

#include <fmt/format.h>

#include <algorithm>

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();

std::string spaced(std::string_view marks) {
  std::string text;
  for (const char mark : marks) text += fmt::format("{}{}", text.empty() ? "" : " ", mark);
  return text;
}

// A set of characters of a regular expression, in which '-' must stand last.
std::string character_set(std::string_view marks) {
  std::string set = "A-Za-z0-9";
  for (const char mark : marks) {
    if (mark != '-') set += mark;
  }
  return marks.find('-') == std::string_view::npos ? set : set + '-';
}

bool allows_null(const Json& schema) { return schema.dump().find("\"null\"") != std::string::npos; }

}  // namespace

bool is_made_of(std::string_view text, std::string_view marks) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           marks.find(c) != std::string_view::npos;
  });
}

std::string read_text(const JsonValue& value, const FieldRules& rules) {
  std::string text = value.text();
  if (text.empty() && !rules.needed) return text;
  if (rules.marks != nullptr && !is_made_of(text, rules.marks)) {
    value.refuse(fmt::format("holds other characters than letters, digits and {}", spaced(rules.marks)),
                 rules.example != nullptr ? fmt::format("give e.g. {}", rules.example) : "leave them out");
  }
  if (text.size() < rules.shortest) {
    value.refuse(fmt::format("has {} characters", text.size()), fmt::format("give at least {}", rules.shortest));
  }
  if (text.size() > rules.longest) {
    value.refuse(fmt::format("has {} bytes", text.size()), fmt::format("give at most {}", rules.longest));
  }
  return text;
}

Json text_schema(const FieldRules& rules) {
  Json schema = {{"type", "string"}};
  if (rules.marks == nullptr) {
    if (rules.shortest > 0) schema["minLength"] = rules.shortest;
    // maxLength counts characters, each of which has at least one byte: a longer text is refused in any case.
    if (rules.longest != kAny) schema["maxLength"] = rules.longest;
    return schema;
  }
  const std::string range = fmt::format("[{}]{{{},{}}}", character_set(rules.marks), rules.shortest,
                                        rules.longest == kAny ? "" : fmt::format("{}", rules.longest));
  schema["pattern"] = rules.needed || rules.shortest == 0 ? fmt::format("^{}$", range) : fmt::format("^({})?$", range);
  return schema;
}

Json number_schema(const FieldRules& rules) {
  Json schema = {{"type", "number"}};
  if (rules.minimum > -1e300) schema["minimum"] = rules.minimum;
  if (rules.maximum < 1e300) schema["maximum"] = rules.maximum;
  return schema;
}

Json integer_schema(std::int64_t minimum, std::int64_t maximum) {
  Json schema = {{"type", "integer"}};
  if (minimum > INT32_MIN) schema["minimum"] = minimum;
  if (maximum < INT64_MAX && maximum != INT32_MAX && maximum != UINT32_MAX) schema["maximum"] = maximum;
  return schema;
}

Json list_schema(Json entry, const FieldRules& rules) {
  Json list = {{"type", "array"}, {"items", entry}};
  if (rules.fewest > 0) list["minItems"] = rules.fewest;
  if (rules.most != kAny) list["maxItems"] = rules.most;
  return rules.single ? Json{{"oneOf", {std::move(entry), std::move(list)}}} : list;
}

Json or_null(Json schema) {
  if (allows_null(schema)) return schema;
  if (schema.contains("type") && schema["type"].is_string()) {
    schema["type"] = Json::array({schema["type"], "null"});
    return schema;
  }
  return {{"oneOf", {std::move(schema), Json{{"type", "null"}}}}};
}

void refuse_choice(const JsonValue& value, const std::string& given, const std::vector<std::string>& all) {
  value.refuse(fmt::format("is '{}'", given), fmt::format("give one of: {}", fmt::join(all, ", ")));
}

void refuse_length_of_list(const JsonValue& value, const FieldRules& rules) {
  if (value.size() < rules.fewest) {
    value.refuse(fmt::format("has {} entries", value.size()), fmt::format("give at least {}", rules.fewest));
  }
  if (value.size() > rules.most) {
    value.refuse(fmt::format("has {} entries", value.size()), fmt::format("give at most {}", rules.most));
  }
}

void RecordDescription::describe(std::string name, const char* unit, const FieldRules& rules, Json schema,
                                 Json standard, bool can_be_null) {
  const bool nothing =
      standard.is_null() || standard == Json("") || standard == Json::array() || standard == Json::object();
  const bool written = !rules.left_out && !(is_request() && can_be_null);
  described_.push_back(
      {std::move(name), unit, rules, std::move(schema), nothing ? Json() : std::move(standard), written});
}

Json FieldDescription::schema_with(const KnownNames& known) const {
  const auto names = rules.known != nullptr ? known.find(rules.known) : known.end();
  return names != known.end() ? Json{{"enum", names->second}} : schema;
}

Json RecordDescription::schema(const KnownNames& known) const {
  Json needed = Json::array();
  Json properties = Json::object();
  for (const FieldDescription& field : described_) {
    if (is_request() ? field.rules.needed : field.always_written) needed.push_back(field.name);
    Json one = Json::object();
    if (*field.rules.text != '\0') one["description"] = field.rules.text;
    const Json schema = field.schema_with(known);
    const bool boolean = schema.contains("type") && schema["type"] == "boolean";
    const bool null_too = is_request() ? !field.rules.needed && !boolean : field.rules.empty_is_null;
    one.update(null_too ? or_null(schema) : schema);
    if (is_request() && !field.standard.is_null()) one["default"] = field.standard;
    properties[field.name] = std::move(one);
  }
  Json schema = Json::object();
  if (!text_.empty()) schema["description"] = text_;
  schema["type"] = "object";
  if (is_request()) schema["additionalProperties"] = false;
  if (!needed.empty()) schema["required"] = std::move(needed);
  schema["properties"] = std::move(properties);
  return schema;
}

}  // namespace flyball
