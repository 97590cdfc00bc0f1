// flyball completion: what a shell needs in order to complete flyball's command lines.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_tree.h"
#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/console.h"
#include "cli/option_values.h"

namespace flyball {
namespace {

using CompletionWriter = std::string (*)(const CommandDescription&);

const std::vector<std::pair<std::string, CompletionWriter>>& completion_writers() {
  static const std::vector<std::pair<std::string, CompletionWriter>> kAll = {
      {"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};
  return kAll;
}

}  // namespace

void add_completion_command(const Command& program) {
  const Command command = program.add_subcommand("completion", "print a script by which a shell completes flyball");
  std::vector<std::string> shells;
  for (const auto& [name, writer] : completion_writers()) shells.push_back(name);
  const auto shell = std::make_shared<std::string>();
  command.add_option("SHELL", *shell, "the shell: bash, zsh or fish").required().suggests(shells);
  command.footer(
      "The script completes commands, options and their values, and runs no program.\n\n"
      "For the shell in which it is typed:\n"
      "  eval \"$(flyball completion bash)\"      also zsh, after compinit\n"
      "  flyball completion fish | source\n\n"
      "Examples:\n"
      "  flyball completion bash\n"
      "  flyball completion zsh\n"
      "  flyball completion fish");
  command.callback([program, shell, shells] {
    const std::string name = parse_choice("completion", *shell, shells);
    for (const auto& [known, writer] : completion_writers()) {
      if (known == name) print_data(writer(describe(program)));
    }
  });
}

}  // namespace flyball
