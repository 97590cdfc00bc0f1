// A command line is read and its command run, with the words for what cannot be understood.
#pragma once

#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): the name is CLI11's
class App;
}

namespace flyball {

// Returns the help of this command, whichever subcommand was parsed (CLI::App::help() would show that one's).
[[nodiscard]] std::string help_text(const CLI::App& command);

// Runs the command that the line names, or prints the help or the version that it asks for. Throws UsageError for a
// line that cannot be understood, and what the command itself throws.
void parse_line(CLI::App& program, int argc, const char* const* argv);

}  // namespace flyball
