// All commands under their headings; parse_line.cpp does the rest.
#include "cli/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/help_format.h"
#include "cli/parse_line.h"

namespace flyball {
namespace {

// Returns the deepest subcommand that the words name, or the whole program if there are no words.
const CLI::App& find_command(const CLI::App& program, const std::vector<std::string>& words) {
  const CLI::App* command = &program;
  for (const std::string& word : words) {
    const auto found = command->get_subcommands([&](const CLI::App* sub) { return sub->get_name() == word; });
    if (found.empty()) throw UsageError(fmt::format("there is no command '{}'; 'flyball help' lists them", word));
    command = found.front();
  }
  return *command;
}

// What the user typed, quoted so that a shell would read it back.
std::string shell_line(int argc, const char* const* argv) {
  std::string line = "flyball";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789-_./,:=+@%") == std::string::npos;
    line += ' ' + (plain ? word : shell_quoted(word));
  }
  return line;
}

// Puts the commands that stand under no heading yet under this one. Hidden ones, which have an empty one, stay hidden.
void under_heading(CLI::App& program, const std::string& heading) {
  static const std::string kNone = CLI::App().get_group();
  for (CLI::App* command : program.get_subcommands([](const CLI::App* one) { return one->get_group() == kNone; })) {
    command->group(heading);
  }
}

void add_all_commands(CLI::App& program, const Command& commands, const std::string& command_line,
                      std::vector<std::string>& help_of) {
  add_devices_command(commands);
  add_run_command(commands);
  add_record_command(commands);
  add_account_command(commands, command_line);
  add_top_command(commands);
  under_heading(program, "Measure");

  add_profile_command(commands);
  add_partition_command(commands);
  add_plan_command(commands, command_line);
  add_emulate_command(commands);
  under_heading(program, "Plan a training job");

  add_agent_command(commands);
  add_serve_command(commands);
  add_jobs_command(commands);
  under_heading(program, "Run by plan");

  add_forecast_command(commands, command_line);
  add_cluster_command(commands, command_line);
  under_heading(program, "Look ahead, and schedule a cluster");

  add_sim_command(commands);
  under_heading(program, "Try it without a GPU");

  add_messages_command(commands);
  add_completion_command(commands);
  add_manual_pages_command(commands);
  const Command help = commands.add_subcommand("help", "print the help of a command");
  std::vector<std::string> names;
  for (const CLI::App* one : program.get_subcommands([](const CLI::App* sub) { return !sub->get_group().empty(); })) {
    names.push_back(one->get_name());
  }
  help.add_option("COMMAND", help_of, "the command's words, such as: profile synth").suggests(names);
  help.callback([&program, &help_of] { print_result(help_text(find_command(program, help_of))); });
  under_heading(program, "This program");
}

}  // namespace

void run_command_line(int argc, const char* const* argv) {
  CLI::App program(
      "Energy control plane for deep-network training: measures joules, accounts for\nthem, forecasts them, and plans "
      "and sets the clocks that save them.",
      "flyball");
  program.formatter(std::make_shared<HelpFormatter>());
  program.set_help_flag("-h,--help", "print this help and exit");
  program.set_version_flag("--version", "flyball " FLYBALL_VERSION, "print the version and exit");
  const Command commands(program);
  std::vector<std::string> help_of;
  add_all_commands(program, commands, shell_line(argc, argv), help_of);
  program.footer(
      "First steps:\n"
      "  flyball devices                  what can be measured and set on this machine\n"
      "  flyball run -- python train.py   the joules of a program\n"
      "  flyball profile synth --gpu a100 --workload gpt3-1.3b --out profile.csv\n"
      "  flyball plan profile.csv --microbatches 128\n\n"
      "'flyball help COMMAND' explains a command, with examples, as does\n"
      "'man flyball-COMMAND' where it is installed. The manual: docs/README.md.");

  parse_line(program, argc, argv);
}

}  // namespace flyball
