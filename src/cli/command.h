// A command of the program, and its options. The other files of this folder declare theirs through these two handles
// and do not see CLI11, whose header takes longer to compile than most of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the name is CLI11's
class App;
class Option;
}  // namespace CLI

namespace flyball {

// The argument of commands that run a program: everything behind "--".
inline constexpr const char* kProgramArgument = "CMD";

// Copies stand for the same option, which lives as long as the program's command line.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  // These return the option itself, so that several can follow one another.
  Option type_name(const std::string& name) const;
  Option required(bool required = true) const;
  Option excludes(const std::string& name) const;
  // Tells completion which words the value may be, or is likely to be. Nothing is refused by this.
  Option suggests(const std::vector<std::string>& words) const;
  // For an option that takes a list: makes each value need the option's name before it.
  Option one_value_each() const;

  [[nodiscard]] std::string name() const;
  [[nodiscard]] bool is_given() const;

 private:
  CLI::Option* option_;
};

// Copies stand for the same command, which lives as long as the program's command line. Targets of options must live as
// long.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}

  // A command with subcommands need not get one, unless it has no options of its own.
  [[nodiscard]] Command add_subcommand(const std::string& name, const std::string& description) const;
  [[nodiscard]] bool subcommand_is_given() const;

  // Adds text below the options in the help: explanations and examples.
  void footer(const std::string& text) const;
  // Leaves the command out of the list of commands.
  void hide() const;
  // Sets what the command does. The function is called while the command line is parsed, and may throw.
  void callback(const std::function<void()>& action) const;

  // A name without dashes is that of a positional argument.
  Option add_option(const std::string& name, std::string& target, const std::string& description) const;
  Option add_option(const std::string& name, std::vector<std::string>& target, const std::string& description) const;
  Option add_option_function(const std::string& name, const std::function<void(const std::string&)>& take,
                             const std::string& description) const;
  // Adds an option that may be given several times.
  Option add_list_function(const std::string& name, const std::function<void(const std::vector<std::string>&)>& take,
                           const std::string& description) const;
  Option add_flag(const std::string& name, bool& target, const std::string& description) const;

  // The command as CLI11 has it, for what is made of all commands (cli/command_tree.h).
  [[nodiscard]] CLI::App& app() const { return *app_; }

  [[nodiscard]] Option option(const std::string& name) const;
  [[nodiscard]] std::vector<Option> options() const;

 private:
  CLI::App* app_;
};

}  // namespace flyball
