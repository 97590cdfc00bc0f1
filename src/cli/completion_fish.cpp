// One line for each option and each command, which counts where the words before the cursor name its command.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>

#include "cli/completion.h"

namespace flyball {
namespace {

std::string fish_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

// What `complete` is told of a value: whether it is needed, and what it may be.
std::string fish_value(const ArgumentDescription& argument) {
  const bool is_option = argument.names.front().starts_with('-');
  const char* const needed = is_option ? " -r" : "";
  switch (argument.kind) {
    case ValueKind::kFlag: return "";
    case ValueKind::kFile: return fmt::format("{} -F", needed);
    case ValueKind::kFolder: return fmt::format("{} -f -a '(__fish_complete_directories)'", needed);
    case ValueKind::kWords:
      return fmt::format("{} -f -a {}", needed,
                         fish_quoted(fmt::format(fmt::runtime(argument.listed ? "(__fish_append , {})" : "{}"),
                                                 fmt::join(argument.words, " "))));
    case ValueKind::kText: break;
  }
  return is_option ? " -x" : "";
}

void add_fish_words(const CommandDescription& command, std::string& commands, std::string& valued) {
  for (const ArgumentDescription& option : command.options) {
    if (option.kind == ValueKind::kFlag) continue;
    for (const std::string& name : option.names) valued += " " + fish_quoted(command.name + " " + name);
  }
  for (const CommandDescription& sub : command.subcommands) {
    commands += " " + fish_quoted(sub.name);
    add_fish_words(sub, commands, valued);
  }
}

std::string fish_lines(const CommandDescription& command) {
  const std::string begin = fmt::format("complete -c flyball -n {}", fish_quoted("__flyball_at " + command.name));
  const std::string dashes = fish_quoted(fmt::format("__flyball_at {} --", command.name));
  std::string text;
  if (command.runs_program) text += fmt::format("complete -c flyball -n {} -a '(__flyball_program)'\n", dashes);
  for (const CommandDescription& sub : command.subcommands) {
    text += fmt::format("{} -a {} -d {}\n", begin, sub.word(), fish_quoted(sub.text));
  }
  for (const ArgumentDescription& one : command.positionals) {
    const std::string value = fish_value(one);
    if (value.empty()) continue;
    text += fmt::format("{}{}\ncomplete -c flyball -n {}{}\n", begin, value, dashes, value);
  }
  for (const ArgumentDescription& option : command.options) {
    std::string names;
    for (const std::string& name : option.names) {
      names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    text += fmt::format("{}{}{} -d {}\n", begin, names, fish_value(option), fish_quoted(option.text));
  }
  for (const CommandDescription& sub : command.subcommands) text += fish_lines(sub);
  return text;
}

constexpr const char* kFishHead = R"fish(# Completion of flyball in fish, written by `flyball completion fish`.
# For this shell: flyball completion fish | source
# For all: flyball completion fish >~/.config/fish/completions/flyball.fish

)fish";

constexpr const char* kFishFunctions = R"fish(
# Prints the command that the words before the cursor name; then "--" if it stands there.
function __flyball_command
    set -l command flyball
    set -l takes_value
    for word in (commandline -opc)[2..]
        if test -n "$takes_value"
            set takes_value
        else if test "$word" = --
            set command "$command --"
            break
        else if string match -q -- '-*' $word
            contains -- "$command $word" $__flyball_valued; and set takes_value yes
        else if contains -- "$command $word" $__flyball_commands
            set command "$command $word"
        end
    end
    echo $command
end

function __flyball_at
    test "$(__flyball_command)" = "$argv"
end

# Completes the program behind "--" as if it stood alone.
function __flyball_program
    set -l words (commandline -opc)
    set -l dashes (contains -i -- -- $words)
    set -l program (string escape -- $words[(math $dashes + 1)..]) (commandline -ct)
    complete -C "$program"
end

complete -c flyball -f
)fish";

}  // namespace

std::string fish_completion(const CommandDescription& program) {
  std::string commands;
  std::string valued;
  add_fish_words(program, commands, valued);
  return fmt::format(
      "{}# All commands below flyball, and the options that take a value.\n"
      "set -g __flyball_commands{}\nset -g __flyball_valued{}\n{}{}",
      kFishHead, commands, valued, kFishFunctions, fish_lines(program));
}

}  // namespace flyball
