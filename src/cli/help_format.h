// The layout of --help: 80 columns, descriptions wrapped beside the options, examples as written.
#pragma once

#include <string>
#include <CLI/CLI.hpp>

namespace flyball {

// Returns the name of the command behind those of its parents: "flyball profile show".
[[nodiscard]] std::string full_command_name(const CLI::App& command);

// Returns whether the command can be given without one of its subcommands, which is so if it has options of its own.
[[nodiscard]] bool stands_alone(const CLI::App& command);

// Returns how the command is typed: "flyball partition LATENCIES [OPTIONS]".
[[nodiscard]] std::string usage_of(const CLI::App& command);

class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(kOptionColumns); }

  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* sub) const override;

 private:
  static constexpr std::size_t kOptionColumns = 28;
};

}  // namespace flyball
