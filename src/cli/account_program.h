// flyball account -- CMD: records and profiles a training from outside, then accounts for it.
#pragma once

#include <optional>
#include <string>

#include "cli/account_command.h"
#include "cli/command.h"
#include "cli/measuring_options.h"

namespace flyball {

struct ProgramAccountOptions {
  MeasuringOptions measuring;
  int steps = 20;
  int warmup = 3;
  std::optional<std::string> folder;  // where the traces stay
  bool profiling_is_asked = false;    // whether one of the three above was given

  [[nodiscard]] bool is_given() const {
    return profiling_is_asked || measuring.gpus || measuring.no_cpu || measuring.period;
  }
};

// Adds --steps, --warmup and --folder, and those of measuring with CMD. `options` must outlive the parsing.
void add_program_account_options(const Command& command, ProgramAccountOptions& options);

// Runs the program, and ends as it did: throws ExitStatus. The report goes to standard error. Throws UsageError, before
// the program runs, where options contradict each other or a file cannot be written.
[[noreturn]] void account_program(const AccountArguments& arguments, const ProgramAccountOptions& options,
                                  const std::string& command_line);

}  // namespace flyball
