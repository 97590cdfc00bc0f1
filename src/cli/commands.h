// The subcommands. Each adds itself, its options and its action to the program; the action runs while the command line
// is parsed, throws what its engine throws, and prints only when it has succeeded.
#pragma once

#include <string>

#include "cli/command.h"

namespace flyball {

// `command_line` is what the user typed, for reports.
void add_plan_command(const Command& program, const std::string& command_line);
void add_partition_command(const Command& program);
void add_emulate_command(const Command& program);
void add_profile_command(const Command& program);
void add_profile_fit_command(const Command& parent);  // below `profile`
void add_profile_compose_command(const Command& parent);
void add_cluster_command(const Command& program, const std::string& command_line);
void add_devices_command(const Command& program);
void add_run_command(const Command& program);
void add_record_command(const Command& program);
void add_sim_command(const Command& program);
void add_sim_commands(const Command& parent);  // what is below `sim`
void add_agent_command(const Command& program);
void add_top_command(const Command& program);
void add_jobs_command(const Command& program);
void add_serve_command(const Command& program);
void add_messages_command(const Command& program);
void add_account_command(const Command& program, const std::string& command_line);
void add_forecast_command(const Command& program, const std::string& command_line);
// These write what is made of all commands, so that they see those that are added later, too.
void add_completion_command(const Command& program);
void add_manual_pages_command(const Command& program);  // hidden: for packages

}  // namespace flyball
