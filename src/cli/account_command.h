// What the subcommands of `flyball account` share: the options of a footprint, and what is done with them.
#pragma once

#include <optional>
#include <string>
#include <vector>
#include <CLI/CLI.hpp>

#include "base/units.h"

namespace flyball {

struct AccountOptions {
  std::vector<std::string> events;
  std::vector<std::string> power;
  std::vector<std::string> jiffies;
  std::vector<std::string> event_devices;
  std::vector<std::string> power_devices;
  std::vector<std::string> counter_ranges;
  std::optional<std::string> utc_offset;
  std::optional<Seconds> row_period;
  std::optional<std::string> chrome_device;
  std::optional<std::string> method;
  std::optional<Seconds> sensor_window;
  std::optional<std::string> share;
  std::optional<std::string> clock_offset;
  std::optional<std::string> similar;
  std::optional<int> top;
  std::optional<std::string> module;
  std::optional<std::string> json, csv, html, svg, pprof;
  std::optional<std::string> format;
  bool summary = false;
  bool kernels = false;
  bool frames = false;
};

// Adds all options of a footprint but --power. `options` must outlive the parsing.
void add_footprint_options(CLI::App& command, AccountOptions& options);

// Reads the traces, prints the footprint and writes the files that are asked for. `command_line` is for the report.
void run_account(const AccountOptions& options, const std::string& command_line);

// Adds start, stop, read, list and drop: the sessions that the agent records.
void add_session_commands(CLI::App& account, const std::string& command_line);

}  // namespace flyball
