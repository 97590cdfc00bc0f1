// flyball messages: what server, agent and library take and answer, field by field, from the messages' own
// descriptions.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "account/account_options.h"
#include "base/error.h"
#include "base/nearest_name.h"
#include "base/record.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/option_values.h"
#include "client/session_options.h"
#include "client/session_state.h"
#include "draw/text_table.h"
#include "pipeline/schedule.h"
#include "plan/planner.h"
#include "wire/message_catalogue.h"

namespace flyball {
namespace {

struct MessagesOptions {
  std::string name;
  std::optional<std::string> format;
};

struct NamedMessage {
  std::string_view interface;
  const RecordDescription* message;
};

// The interfaces' messages, and what programs hand to the library.
std::vector<NamedMessage> all_messages() {
  std::vector<NamedMessage> all;
  for (const Interface interface : values_of<Interface>()) {
    for (const RecordDescription* message : messages_of(interface)) all.push_back({name_of(interface), message});
  }
  all.push_back({"library", &record_of<SessionOptions>()});
  all.push_back({"library", &record_of<SessionState>()});
  all.push_back({"library", &record_of<AccountOptions>()});
  return all;
}

const RecordDescription& message_named(const std::string& name) {
  std::vector<std::string> names;
  for (const NamedMessage& one : all_messages()) {
    if (one.message->name() == name) return *one.message;
    names.push_back(one.message->name());
  }
  const std::string meant = nearest_name(name, names);
  throw UsageError(
      fmt::format("there is no message '{}'; {}", name,
                  meant.empty() ? "`flyball messages` lists them" : fmt::format("did you mean {}?", meant)));
}

using Json = nlohmann::ordered_json;

const KnownNames& known_names() {
  static const KnownNames kAll{{"planners", planner_names()}, {"schedules", schedule_names()}};
  return kAll;
}

// What the value, or each value of a list, may be: its choices or its bounds; then how long a text or a list may be.
std::string range_of(const FieldDescription& field) {
  const Json own = field.schema_with(known_names());
  const Json* schema = &own;
  while (schema->contains("oneOf") || schema->contains("items")) {
    schema = schema->contains("oneOf") ? &schema->at("oneOf").front() : &schema->at("items");
  }
  if (schema->contains("enum"))
    return fmt::format("{}", fmt::join(schema->at("enum").get<std::vector<std::string>>(), ", "));
  std::string text;
  if (schema->contains("minimum")) text += fmt::format("from {} ", schema->at("minimum").dump());
  if (schema->contains("maximum")) text += fmt::format("to {} ", schema->at("maximum").dump());
  const FieldRules& rules = field.rules;
  const FieldRules none;
  if (rules.shortest > none.shortest) text += fmt::format("{} ", rules.shortest);
  if (rules.longest < none.longest) text += fmt::format("to {} bytes ", rules.longest);
  text = trim(text);
  if (rules.most < none.most) text += fmt::format("{}at most {} entries", text.empty() ? "" : ", ", rules.most);
  return text;
}

constexpr std::size_t kFieldColumns = 5;
using Row = std::array<std::string, kFieldColumns>;

// The headings, then a row for each field.
std::vector<Row> rows_of(const RecordDescription& message) {
  std::vector<Row> rows = {{"field", "unit", "range", "default", "meaning"}};
  for (const FieldDescription& field : message.fields()) {
    // An answer has all its fields, so that none of them is marked as needed.
    const std::string standard = !message.is_request()      ? ""
                                 : field.rules.needed       ? "needed"
                                 : field.standard.is_null() ? ""
                                                            : field.standard.dump();
    rows.push_back({field.name, field.unit, range_of(field), standard, field.rules.text});
  }
  return rows;
}

std::string message_text(const RecordDescription& message) {
  const std::vector<Row> rows = rows_of(message);
  std::vector<std::string> columns;
  for (const std::string& heading : rows.front()) columns.push_back("<" + heading);
  TextTable table(std::move(columns));
  for (std::size_t r = 1; r < rows.size(); ++r) table.add_row({rows[r].begin(), rows[r].end()});
  return fmt::format("{}{}{}\n{}", message.name(), message.text().empty() ? "" : ": ", message.text(), table.str());
}

// Leaves out the columns in which nothing stands.
std::string as_markdown(const RecordDescription& message) {
  std::vector<Row> rows = rows_of(message);
  for (std::size_t r = 1; r < rows.size(); ++r) rows[r].front() = fmt::format("`{}`", rows[r].front());
  rows.insert(rows.begin() + 1, {"---", "---", "---", "---", "---"});
  std::vector<std::string> lines(rows.size(), "|");
  for (std::size_t c = 0; c < kFieldColumns; ++c) {
    const auto is_empty = [c](const Row& row) { return row[c].empty(); };
    if (std::all_of(rows.begin() + 2, rows.end(), is_empty)) continue;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      lines[r] += rows[r][c] == "---" ? "---|" : rows[r][c].empty() ? " |" : fmt::format(" {} |", rows[r][c]);
    }
  }
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

std::string list_of_messages(bool as_json) {
  TextTable table({"<message", "<between clients and", "fields"});
  Json list = Json::array();
  for (const auto& [interface, message] : all_messages()) {
    const std::size_t fields = message->fields().size();
    table.add_row({message->name(), std::string(interface), fmt::to_string(fields)});
    list.push_back({{"message", message->name()}, {"interface", interface}, {"fields", fields}});
  }
  return as_json ? Json{{"messages", std::move(list)}}.dump(2) + "\n" : table.str();
}

void run_messages(const MessagesOptions& options) {
  if (const auto interface = value_named<Interface>(options.name); interface && options.format == "openapi") {
    return print_data(openapi_schemas(*interface, known_names()));
  }
  if (options.format == "openapi") throw UsageError("--format openapi takes 'server' or 'agent'");
  if (options.name.empty()) return print_result(list_of_messages(options.format == "json"));
  const RecordDescription& message = message_named(options.name);
  print_result(options.format == "json"       ? message.schema(known_names()).dump(2) + "\n"
               : options.format == "markdown" ? as_markdown(message)
                                              : message_text(message));
}

}  // namespace

void add_messages_command(const Command& program) {
  const Command command =
      program.add_subcommand("messages", "what server, agent and library take and answer, field by field");
  const auto options = std::make_shared<MessagesOptions>();
  std::vector<std::string> names;
  for (const NamedMessage& one : all_messages()) names.push_back(one.message->name());
  command.add_option("NAME", options->name, "name of a message; without one, all messages are listed").suggests(names);
  add_choice(command, "--format", options->format, {"text", "json", "markdown", "openapi"}, "NAME",
             "text (default), json (JSON Schema), markdown, or openapi: all schemas of 'server' or 'agent' in YAML");
  command.footer(
      "Examples:\n"
      "  flyball messages\n"
      "  flyball messages JobRequest\n"
      "  flyball messages LeaseRequest --format json\n"
      "  flyball messages SessionOptions --format markdown\n"
      "  flyball messages server --format openapi");
  command.callback([options] { run_messages(*options); });
}

}  // namespace flyball
