// CLI11's formatter with the parts replaced that break lines or name commands. Words are laid out greedily, and a name
// that is too long for its column has its text begin on the next line.
#include "cli/help_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace flyball {
namespace {

constexpr std::size_t kHelpColumns = 80;

// `name` on the left, `text` wrapped at words on the right. If the name is too long, the text begins below it.
std::string two_columns(const std::string& name, std::string_view text, std::size_t left) {
  std::string out = fmt::format("  {:<{}}", name, left - 2);
  if (name.size() + 3 > left) out += "\n" + std::string(left, ' ');
  std::size_t at = left;
  bool first = true;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
    if (!first && at + 1 + word.size() > kHelpColumns) {
      out += "\n" + std::string(left, ' ');
      at = left;
      first = true;
    }
    if (!first) out += ' ';
    out += word;
    at += word.size() + (first ? 0 : 1);
    first = false;
  }
  return out + "\n";
}

}  // namespace

std::string full_command_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_command_name(*parent) + " " + command.get_name();
}

bool stands_alone(const CLI::App& command) {
  const std::vector<const CLI::Option*> options = command.get_options();
  return std::any_of(options.begin(), options.end(), [&](const CLI::Option* option) {
    return option != command.get_help_ptr() && option != command.get_version_ptr();
  });
}

std::string usage_of(const CLI::App& command) {
  std::string usage = full_command_name(command);
  if (!command.get_subcommands({}).empty() && !stands_alone(command)) return usage + " COMMAND ...";
  const HelpFormatter format;
  std::string program;  // whose own options must not be taken for ours
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    (option->get_name() == kProgramArgument ? program : usage) += " " + format.make_option_usage(option);
  }
  return usage + " [OPTIONS]" + (program.empty() ? "" : " --" + program);
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string) const {
  return "Usage: " + usage_of(*app) + "\n";
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  return option->get_type_size() == 0 || option->get_type_name().empty() ? "" : " " + option->get_type_name();
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  const std::string name =
      is_positional ? make_option_name(option, true) : make_option_name(option, false) + make_option_opts(option);
  return two_columns(name, option->get_description(), kOptionColumns);
}

std::string HelpFormatter::make_subcommand(const CLI::App* sub) const {
  return two_columns(sub->get_name(), sub->get_description(), 14);
}

}  // namespace flyball
