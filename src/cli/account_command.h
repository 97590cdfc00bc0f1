// What the subcommands of `flyball account` share: the options of a footprint, and what is done with them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "account/account_options.h"
#include "cli/command.h"

namespace flyball {

// What the options that notes and errors name are called on the command line.
inline constexpr AccountNames kAccountOptionNames{.event_devices = "--event-device",
                                                  .power_devices = "--power-device",
                                                  .counter_ranges = "--counter-range",
                                                  .chrome_device = "--chrome-device",
                                                  .row_period = "--row-period",
                                                  .clock_offset = "--clock-offset",
                                                  .jiffies = "--jiffies",
                                                  .method = "--method",
                                                  .sensor_window = "--sensor-window",
                                                  .static_powers = "--static-power"};

struct AccountArguments {
  AccountOptions account;
  std::optional<int> top;
  std::optional<std::string> module;
  std::optional<std::string> json, csv, html, svg, pprof, speedscope, chrome;
  std::optional<std::string> order;  // of the text's rows
  std::optional<std::string> format;
  std::optional<double> price;  // of a kWh
  std::optional<double> carbon_g_per_kwh;
  bool to_standard_error = false;  // what is printed, beside a program's own output
};

// Adds all options of a footprint but --power. `arguments` must outlive the parsing.
void add_footprint_options(const Command& command, AccountArguments& arguments);

// Reads the traces, prints the footprint and writes the files that are asked for. `command_line` is for the report. A
// `power_text` is the one power trace itself, and the arguments have its name.
void run_account(const AccountArguments& arguments, const std::string& command_line,
                 std::optional<std::string_view> power_text = std::nullopt);

// Adds start, stop, read, list and drop: the sessions that the agent records.
void add_session_commands(const Command& account, const std::string& command_line);

}  // namespace flyball
