// Two tables, as functions with a case statement: what follows a command, and what an option or a positional argument
// of a command takes. The function that completes walks the words of the line by these. Equal entries share a line, so
// that the script stays small.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/completion.h"
#include "cli/console.h"

namespace flyball {
namespace {

// The rows of a case statement: what is done, and in which cases.
using BashCases = std::map<std::string, std::vector<std::string>>;

std::string bash_value(const ArgumentDescription& argument) {
  switch (argument.kind) {
    case ValueKind::kFlag: return "kind=flag";
    case ValueKind::kFile: return "kind=file";
    case ValueKind::kFolder: return "kind=folder";
    case ValueKind::kWords:
      return fmt::format("kind={} words={}", argument.listed ? "list" : "words",
                         shell_quoted(fmt::format("{}", fmt::join(argument.words, " "))));
    case ValueKind::kText: break;
  }
  return "kind=text";
}

void add_bash_cases(const CommandDescription& command, BashCases& commands, BashCases& values) {
  std::vector<std::string> subcommands;
  std::vector<std::string> options;
  for (const CommandDescription& sub : command.subcommands) {
    subcommands.push_back(sub.word());
    add_bash_cases(sub, commands, values);
  }
  for (const ArgumentDescription& option : command.options) {
    for (const std::string& name : option.names) {
      options.push_back(name);
      values[bash_value(option)].push_back(shell_quoted(command.name + " " + name));
    }
  }
  for (std::size_t i = 0; i < command.positionals.size(); ++i) {
    const ArgumentDescription& one = command.positionals[i];
    values[bash_value(one)].push_back(shell_quoted(command.name + " ") +
                                      (one.repeats ? "[0-9]*" : fmt::to_string(i + 1)));
  }
  commands[fmt::format("commands='{}' options='{}' program={}", fmt::join(subcommands, " "), fmt::join(options, " "),
                       command.runs_program ? "yes" : "")]
      .push_back(shell_quoted(command.name));
}

std::string bash_case(const BashCases& cases) {
  std::string text = "  case $1 in\n";
  for (const auto& [what, patterns] : cases) {
    text += fmt::format("    {})\n      {} ;;\n", fmt::join(patterns, " | "), what);
  }
  return text + "  esac\n";
}

constexpr const char* kBashHead = R"bash(# Completion of flyball in bash, written by `flyball completion bash`.
# For this shell: eval "$(flyball completion bash)"
# For all: flyball completion bash >~/.local/share/bash-completion/completions/flyball

)bash";

constexpr const char* kBashTail = R"bash(
_flyball() {
  local command=flyball current=${COMP_WORDS[COMP_CWORD]} option='' word
  local commands options program kind words
  local -i i number=0
  _flyball_command "$command"
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ $word == = ]]; then
      continue # bash takes --option=value apart
    elif [[ -n $option ]]; then
      option=''
    elif [[ $word == -- ]]; then
      _flyball_program "$((i + 1))"
      return
    elif [[ $word == -* ]]; then
      _flyball_value "$command $word"
      [[ $kind == flag ]] || option=$word
    elif ((number == 0)) && [[ " $commands " == *" $word "* ]]; then
      command+=" $word"
      _flyball_command "$command"
    else
      number+=1
    fi
  done
  [[ $current != = ]] || current=''
  COMPREPLY=()
  if [[ -z $option && $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
    return
  fi
  _flyball_value "$command ${option:-$((number + 1))}"
  case $kind in
    words) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current") ;;
    list)
      local before=''
      [[ $current != *,* ]] || before=${current%,*},
      mapfile -t COMPREPLY < <(compgen -W "$words" -P "$before" -- "${current##*,}")
      ;;
    file) compopt -o default ;;
    folder) compopt -o dirnames ;;
  esac
  if [[ -z $option ]] && ((number == 0)); then
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$commands" -- "$current")
  fi
}

# Completes a program that stands behind "--", from its word of this number on.
_flyball_program() {
  COMPREPLY=()
  if [[ -n $program ]] && declare -F _command_offset >/dev/null; then
    _command_offset "$1" # of the package bash-completion
  else
    compopt -o default
    [[ -z $program ]] || (($1 != COMP_CWORD)) ||
      mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
  fi
}

complete -F _flyball flyball
)bash";

}  // namespace

std::string bash_completion(const CommandDescription& program) {
  BashCases commands;
  BashCases values;
  add_bash_cases(program, commands, values);
  return fmt::format(
      "{}# Sets what follows a command: commands, options, and whether a program stands behind \"--\".\n"
      "_flyball_command() {{\n{}}}\n\n"
      "# Sets what an option takes, or the argument of this number, of a command: the kind of value, and its words.\n"
      "_flyball_value() {{\n  kind=none words=''\n{}}}\n{}",
      kBashHead, bash_case(commands), bash_case(values), kBashTail);
}

}  // namespace flyball
