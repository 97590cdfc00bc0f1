// CLI11 finds the subcommand and runs its action from within program.parse(). CLI11's own errors are turned into
// UsageError here: they get the command's full name, a pointer to its help and, for a misspelt word, the nearest known
// one.
#include "cli/parse_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/nearest_name.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/help_format.h"

namespace flyball {
namespace {

// The deepest command that the command line named.
const CLI::App& parsed_command(const CLI::App& program) {
  const CLI::App* command = &program;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

// Names what the command does not know, and what may have been meant.
std::string unexpected(const CLI::App& command) {
  const std::vector<std::string> extras = command.remaining();
  if (extras.empty()) return "unexpected argument";
  const auto option =
      std::find_if(extras.begin(), extras.end(), [](const auto& word) { return word.starts_with('-'); });
  const std::string& word = option != extras.end() ? *option : extras.front();
  std::vector<std::string> known;
  if (word.starts_with('-')) {
    for (const CLI::Option* choice : command.get_options()) known.push_back(choice->get_name());
  } else {
    for (const CLI::App* sub : command.get_subcommands({})) known.push_back(sub->get_name());
  }
  const std::string meant = nearest_name(word.substr(0, word.find('=')), known);
  const std::string what = word.starts_with('-') ? "there is no option"
                           : known.empty()       ? "unexpected"
                                                 : "there is no command";
  const bool runs_program = command.get_option_no_throw(kProgramArgument) != nullptr;
  const char* const apart = runs_program ? "; a program with its options stands after --" : "";
  return fmt::format("{} {}{}", what, word, meant.empty() ? apart : fmt::format("; did you mean {}?", meant));
}

[[noreturn]] void refuse_line(const CLI::App& command, const std::string& problem) {
  const std::string name = full_command_name(command);
  // Every message begins with the program's name already.
  const std::size_t program_end = name.find(' ');
  const std::string words = program_end == std::string::npos ? std::string() : name.substr(program_end + 1) + ": ";
  throw UsageError(fmt::format("{}{}\n  see: {} --help", words, problem, name));
}

}  // namespace

std::string help_text(const CLI::App& command) {
  return command.get_formatter()->make_help(&command, "", CLI::AppFormatMode::Normal);
}

void parse_line(CLI::App& program, int argc, const char* const* argv) {
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return print_result(help_text(parsed_command(program)));
  } catch (const CLI::CallForVersion& version) {
    return print_result(std::string(version.what()) + "\n");
  } catch (const CLI::ExtrasError&) {
    refuse_line(parsed_command(program), unexpected(parsed_command(program)));
  } catch (const CLI::ParseError& error) {
    refuse_line(parsed_command(program), error.what());
  }
  const CLI::App& parsed = parsed_command(program);
  if (parsed.get_subcommands([](const CLI::App*) { return true; }).empty() || stands_alone(parsed)) return;
  throw UsageError("no command given\n\n" + help_text(parsed));
}

}  // namespace flyball
