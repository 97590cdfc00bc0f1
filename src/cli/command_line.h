// From argv to the subcommand that it names.
#pragma once

namespace flyball {

// Runs the program. Throws UsageError for a command line that cannot be understood, and what the command itself throws.
void run_command_line(int argc, const char* const* argv);

}  // namespace flyball
