// Completion scripts for shells. Each holds all commands, options and words, and runs no program; see
// docs/manual/command-line.md for how a shell gets it.
#pragma once

#include <string>

#include "cli/command_tree.h"

namespace flyball {

[[nodiscard]] std::string bash_completion(const CommandDescription& program);  // bash 4.2
[[nodiscard]] std::string zsh_completion(const CommandDescription& program);   // zsh 5
[[nodiscard]] std::string fish_completion(const CommandDescription& program);  // fish 3.4

}  // namespace flyball
