// The program's commands and options as plain values, for what is written of all of them: completion and manual pages.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace flyball {

// What completion offers for a value.
enum class ValueKind { kFlag, kText, kWords, kFile, kFolder };

// An option, or a positional argument.
struct ArgumentDescription {
  std::vector<std::string> names;  // "-o", "--output"; of a positional argument its one name
  std::string value;               // the name of the value: "FILE"; empty for flags
  std::string text;
  ValueKind kind = ValueKind::kText;
  std::vector<std::string> words;  // of kWords
  bool listed = false;             // the value is a list of these words with commas between
  bool repeats = false;
};

struct CommandDescription {
  std::string name;  // with those of its parents: "flyball profile show"
  std::string text;
  std::string usage;   // "flyball partition LATENCIES [OPTIONS]"
  std::string footer;  // explanations and examples, in lines, as --help has them
  std::string group;   // heading of the parent's help under which the command stands
  std::vector<ArgumentDescription> options;
  std::vector<ArgumentDescription> positionals;  // without the program of a command that runs one
  bool runs_program = false;                     // what stands after -- is a program with its arguments
  std::vector<CommandDescription> subcommands;   // without hidden ones

  // The last word of the name.
  [[nodiscard]] std::string word() const { return name.substr(name.rfind(' ') + 1); }
};

// Describes the command and all commands below it.
[[nodiscard]] CommandDescription describe(const Command& command);

}  // namespace flyball
