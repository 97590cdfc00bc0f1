// One function for each command, which leaves the work to zsh's _arguments. Commands behind a command are completed by
// the functions of their own.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "cli/completion.h"
#include "cli/console.h"

namespace flyball {
namespace {

std::string with_backslashes(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || special.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_function(const CommandDescription& command) {
  std::string name = "_" + command.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

// How _arguments completes the value.
std::string zsh_action(const ArgumentDescription& argument) {
  switch (argument.kind) {
    case ValueKind::kFile: return "_files";
    case ValueKind::kFolder: return "_files -/";
    case ValueKind::kWords:
      return argument.listed ? fmt::format("_sequence compadd - {}", fmt::join(argument.words, " "))
                             : fmt::format("({})", fmt::join(argument.words, " "));
    case ValueKind::kFlag:
    case ValueKind::kText: break;
  }
  return " ";  // nothing to choose from; the name of the value is shown
}

std::string zsh_value(const ArgumentDescription& argument) {
  return fmt::format(":{}:{}", with_backslashes(argument.value, ":"), zsh_action(argument));
}

std::string zsh_option(const ArgumentDescription& option, const std::string& name) {
  std::string text = option.repeats ? "*" : "";
  if (!option.repeats && option.names.size() > 1) text = fmt::format("({})", fmt::join(option.names, " "));
  text += name;
  const bool takes_value = option.kind != ValueKind::kFlag;
  if (takes_value) text += name.starts_with("--") ? "=" : "+";  // the value in the same word or in the next
  text += fmt::format("[{}]", with_backslashes(option.text, "[]"));
  return shell_quoted(takes_value ? text + zsh_value(option) : text);
}

std::string zsh_options(const CommandDescription& command) {
  std::string text;
  for (const ArgumentDescription& option : command.options) {
    for (const std::string& name : option.names) text += fmt::format(" \\\n    {}", zsh_option(option, name));
  }
  return text;
}

std::string zsh_leaf(const CommandDescription& command) {
  std::string text = "  _arguments -S" + zsh_options(command);
  for (std::size_t i = 0; i < command.positionals.size(); ++i) {
    const ArgumentDescription& one = command.positionals[i];
    text += fmt::format(" \\\n    {}", shell_quoted((one.repeats ? "*" : fmt::to_string(i + 1)) + zsh_value(one)));
  }
  return text + "\n";
}

// Of a command with commands below it, the first word may also be its own argument.
std::string zsh_branch(const CommandDescription& command) {
  std::string words;
  std::string calls;
  for (const CommandDescription& sub : command.subcommands) {
    words += fmt::format("\n        {}", shell_quoted(sub.word() + ":" + sub.text));
    calls += fmt::format("\n        {}) {} ;;", sub.word(), zsh_function(sub));
  }
  std::string own;
  if (!command.positionals.empty()) {
    const ArgumentDescription& first = command.positionals.front();
    own = first.kind == ValueKind::kFile ? "      _files\n" : "";
  }
  return fmt::format(R"zsh(  local curcontext=$curcontext state line
  local -A opt_args
  _arguments -C -S{} \
    '1: :->first' '*:: :->rest'
  case $state in
    first)
      local -a commands=({})
      _describe -t commands command commands
{}      ;;
    rest)
      case $words[1] in{}
      esac
      ;;
  esac
)zsh",
                     zsh_options(command), words, own, calls);
}

std::string zsh_functions(const CommandDescription& command) {
  std::string text = fmt::format("{}() {{\n{}{}}}\n\n", zsh_function(command),
                                 command.runs_program ? "  _flyball_program && return\n" : "",
                                 command.subcommands.empty() ? zsh_leaf(command) : zsh_branch(command));
  for (const CommandDescription& sub : command.subcommands) text += zsh_functions(sub);
  return text;
}

constexpr const char* kZshHead = R"zsh(#compdef flyball
# Completion of flyball in zsh, written by `flyball completion zsh`.
# For this shell, after compinit: eval "$(flyball completion zsh)"
# For all: flyball completion zsh >FOLDER/_flyball, with a FOLDER of $fpath.

# Completes a program that stands behind "--", if there is one.
_flyball_program() {
  local -i dashes=${words[(i)--]}
  ((dashes < CURRENT)) || return 1
  words=("${(@)words[dashes + 1, -1]}")
  ((CURRENT -= dashes))
  _normal
  return 0
}

)zsh";

constexpr const char* kZshTail = R"zsh(if [[ ${funcstack[1]} == _flyball ]]; then
  _flyball "$@"
else
  compdef _flyball flyball
fi
)zsh";

}  // namespace

std::string zsh_completion(const CommandDescription& program) { return kZshHead + zsh_functions(program) + kZshTail; }

}  // namespace flyball
