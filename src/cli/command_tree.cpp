// Reads CLI11's tree. The name of a value says whether it is a file: the help shows that name to people, too.
#include "cli/command_tree.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include <CLI/CLI.hpp>

#include "base/text.h"
#include "cli/help_format.h"

namespace flyball {
namespace {

constexpr std::array<std::string_view, 4> kFileValues = {"FILE", "PATH", "JOBS", "RUN.toml"};
constexpr std::array<std::string_view, 3> kFolderValues = {"DIR", "FOLDER", "RUNS"};

// Whether one of the names is the value's, or a part of it: "FILE|GRAMS", "[TYPE=]FILE".
bool has_part(const std::string& value, std::span<const std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
    const std::size_t at = value.find(name);
    if (at == std::string::npos) return false;
    const auto is_letter = [](char c) { return c >= 'A' && c <= 'Z'; };
    const std::size_t end = at + name.size();
    return (at == 0 || !is_letter(value[at - 1])) && (end == value.size() || !is_letter(value[end]));
  });
}

std::vector<std::string> suggested_words(CLI::Option& option) {
  try {
    const std::string& words = option.get_validator(0)->get_name();
    const std::vector<std::string_view> split = split_at('\n', words);
    return {split.begin(), split.end()};
  } catch (const CLI::OptionNotFound&) {
    return {};
  }
}

ArgumentDescription describe_argument(CLI::Option& option) {
  ArgumentDescription one;
  one.text = option.get_description();
  if (option.get_positional()) {
    one.names = {option.get_name(true)};
  } else {
    for (const std::string& name : option.get_snames()) one.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) one.names.push_back("--" + name);
  }
  one.repeats = option.get_expected_max() > 1;
  if (option.get_type_size() == 0) {
    one.kind = ValueKind::kFlag;
    return one;
  }
  one.value = option.get_positional() ? one.names.front() : option.get_type_name();
  one.words = suggested_words(option);
  one.listed = one.value.find(',') != std::string::npos;
  const std::string value = option.get_type_name();
  one.kind = !one.words.empty()               ? ValueKind::kWords
             : has_part(value, kFileValues)   ? ValueKind::kFile
             : has_part(value, kFolderValues) ? ValueKind::kFolder
                                              : ValueKind::kText;
  return one;
}

CommandDescription describe_app(CLI::App& app) {
  CommandDescription one;
  one.name = full_command_name(app);
  one.text = app.get_description();
  one.usage = usage_of(app);
  one.footer = app.get_footer();
  one.group = app.get_group();
  for (CLI::Option* option : app.get_options()) {
    if (option->get_name() == kProgramArgument) {
      one.runs_program = true;
    } else {
      (option->get_positional() ? one.positionals : one.options).push_back(describe_argument(*option));
    }
  }
  for (CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!sub->get_group().empty()) one.subcommands.push_back(describe_app(*sub));
  }
  return one;
}

}  // namespace

CommandDescription describe(const Command& command) { return describe_app(command.app()); }

}  // namespace flyball
