// Records that are sent to another process or kept in a file. Each is described once: its fields' names, members,
// bounds and defaults, and a line of text for people. Reading with its errors, writing, the JSON Schema (OpenAPI 3.1)
// and the tables of `flyball messages` all come from the description.
//
//   Record<ClockBounds> description_of(const ClockBounds* /*type*/) {
//     return Record<ClockBounds>::request("Bounds")
//         .field("minimum", &ClockBounds::minimum, "Lowest clock.", {.needed = true, .minimum = 1})
//         ...
//
// A request is read strictly: unknown fields are refused. In an answer they are ignored, so that a newer program may
// say more. A field that is null counts as missing, except for booleans, and where null has a meaning of its own (an
// optional within an optional). Descriptions are made at their first use and never change afterwards, so that all
// functions here are thread-safe. Reading throws InputError, which names the field.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/json_object.h"
#include "base/record_codec.h"

namespace flyball {

enum class RecordSide {
  kRequest,  // strict; what is empty is not written
  kAnswer,   // lenient; what is empty is written as null
};

// The names that fields may hold, in lists, each under the word that FieldRules::known gives. Descriptions cannot
// include the folders that define these names; callers that print schemas pass them in.
using KnownNames = std::map<std::string_view, std::vector<std::string>>;

// One field, as the schema and the tables show it.
struct FieldDescription {
  std::string name;
  std::string unit;  // "s"; "" for none
  FieldRules rules;
  nlohmann::ordered_json schema;
  nlohmann::ordered_json standard;  // the default; null where the field is needed or nothing is its default
  bool always_written = false;

  // Returns the schema, with the names that `known` has for the field.
  [[nodiscard]] nlohmann::ordered_json schema_with(const KnownNames& known) const;
};

// The part of a record's description that does not depend on its C++ type.
class RecordDescription {
 public:
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool is_request() const { return side_ == RecordSide::kRequest; }
  [[nodiscard]] const std::string& source() const { return source_; }  // of errors: "the request"
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::vector<FieldDescription>& fields() const { return described_; }
  // Returns the schema as it stands under components/schemas in an OpenAPI document.
  [[nodiscard]] nlohmann::ordered_json schema(const KnownNames& known = {}) const;

 protected:
  RecordDescription(std::string name, RecordSide side, std::string source, std::string text)
      : name_(std::move(name)), side_(side), source_(std::move(source)), text_(std::move(text)) {}

  void describe(std::string name, const char* unit, const FieldRules& rules, nlohmann::ordered_json schema,
                nlohmann::ordered_json standard, bool can_be_null);

 private:
  std::string name_;
  RecordSide side_;
  std::string source_;
  std::string text_;
  std::vector<FieldDescription> described_;
};

template <class T>
class Record : public RecordDescription {
 public:
  using Json = nlohmann::ordered_json;
  // A function that is called after reading. It may refuse the whole record, and may bring what can be given in several
  // ways into one form.
  using Check = std::function<void(const JsonObject&, T&)>;

  [[nodiscard]] static Record request(std::string name, std::string text = {}) {
    return Record(std::move(name), RecordSide::kRequest, "the request", std::move(text));
  }
  // `source` names it in errors: "the server's answer".
  [[nodiscard]] static Record answer(std::string name, std::string source, std::string text = {}) {
    return Record(std::move(name), RecordSide::kAnswer, std::move(source), std::move(text));
  }

  // `text` is a sentence or two for people.
  template <class Member>
  Record&& field(const char* name, Member T::*member, const char* text, FieldRules rules = {}) && {
    rules.text = text;
    add<Member>(
        name, [=](auto& record) -> auto& { return record.*member; }, rules);
    return std::move(*this);
  }
  // Describes a member of a nested struct as a field of the outer record. The second form takes the text from `rules`.
  template <class Part, class Member>
  Record&& field(const char* name, Part T::*part, Member Part::*member, const char* text, FieldRules rules = {}) && {
    rules.text = text;
    return std::move(*this).field(name, part, member, rules);
  }
  template <class Part, class Member>
  Record&& field(const char* name, Part T::*part, Member Part::*member, const FieldRules& rules) && {
    add<Member>(
        name, [=](auto& record) -> auto& { return (record.*part).*member; }, rules);
    return std::move(*this);
  }

  Record&& check(Check check) && {
    check_ = std::move(check);
    return std::move(*this);
  }

  [[nodiscard]] T read(JsonObject object) const {
    T record{};
    for (const Field& field : fields_) field.read(object, record);
    if (is_request()) object.refuse_others();
    if (check_) check_(object, record);
    return record;
  }

  [[nodiscard]] Json write(const T& record) const {
    Json json = Json::object();
    for (const Field& field : fields_) field.write(record, json);
    return json;
  }

 private:
  Record(std::string name, RecordSide side, std::string source, std::string text)
      : RecordDescription(std::move(name), side, std::move(source), std::move(text)) {}

  template <class Member, class At>
  void add(const char* name, const At& at, const FieldRules& rules) {
    const T fresh{};
    const Json standard = rules.needed ? Json() : write_value(at(fresh));
    describe(name, unit_of<Member>(), rules, schema_of<Member>(rules), standard, kIsOptional<Member>);
    fields_.push_back({[=](JsonObject& object, T& record) { read_field(object, name, at(record), rules); },
                       [=, strict = is_request()](const T& record, Json& json) {
                         const Member& value = at(record);
                         if (is_outer_empty(value)) return;
                         Json written = write_value(value);
                         if (strict && kIsOptional<Member> && !kIsTwiceOptional<Member> && written.is_null()) return;
                         if (rules.left_out && written == standard) return;
                         if (rules.empty_is_null && written == Json("")) written = nullptr;
                         json[name] = std::move(written);
                       }});
  }

  struct Field {
    std::function<void(JsonObject&, T&)> read;
    std::function<void(const T&, Json&)> write;
  };

  std::vector<Field> fields_;
  Check check_;
};

template <Described T>
[[nodiscard]] T read_message(const nlohmann::json& json) {
  const Record<T>& record = record_of<T>();
  return record.read(JsonObject(json, record.source()));
}

// Reads what a caller of this library passes as JSON, or as its text; errors name it `source`. Throws UsageError where
// it is no JSON or breaks the description's rules, since it is a caller's argument and no file.
template <Described T>
[[nodiscard]] T read_options(const std::string& source, const nlohmann::json& json) {
  try {
    return record_of<T>().read(JsonObject(json, source));
  } catch (const InputError& error) {
    throw UsageError(error.what());
  }
}
template <Described T>
[[nodiscard]] T read_options_text(const std::string& source, std::string_view text) {
  nlohmann::json json;
  try {
    json = parse_json(source, text);
  } catch (const InputError& error) {
    throw UsageError(error.what());
  }
  return read_options<T>(source, json);
}

template <Described T>
[[nodiscard]] nlohmann::ordered_json to_json(const T& record) {
  return record_of<T>().write(record);
}

}  // namespace flyball
