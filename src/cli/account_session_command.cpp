// flyball account start, stop, read, list, drop: power traces that the node's agent records while any program runs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/record.h"
#include "base/text.h"
#include "cli/account_command.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "client/agent_client.h"
#include "draw/text_table.h"

namespace flyball {
namespace {

struct SessionCall {
  std::string name = "default";
  std::optional<std::string> agent;
  std::optional<std::string> format;

  [[nodiscard]] AgentClient client() const {
    return AgentClient(agent ? parse_endpoint(*agent) : default_agent_endpoint());
  }
};

void add_name_option(const Command& command, std::string& name) {
  command.add_option("NAME", name, "name of one of your sessions (default: default)");
}

std::string rows_text(const AccountSessionInfo& session) {
  return fmt::format("{} rows of {}, {:.3f} s", session.rows, fmt::join(session.devices, ", "), session.length.value());
}

// Warns of all in which the trace is not as it was asked for.
void warn_of(const AccountSessionInfo& session) {
  if (session.state == AccountSessionState::kTooLong || session.state == AccountSessionState::kTooLarge) {
    print_warning(
        fmt::format("the agent ended session '{}': {}; nothing after that was recorded", session.name, session.ended));
  }
  for (const std::string& failure : session.failures) print_warning(failure);
}

std::string json_text(const nlohmann::ordered_json& json) { return json.dump(2) + "\n"; }

void add_start(const Command& parent) {
  struct StartOptions : SessionCall {
    std::optional<std::vector<std::size_t>> gpus;
    bool no_cpu = false;
    std::optional<Seconds> period;
  };
  const Command command = parent.add_subcommand("start", "have the agent record power until 'account stop'");
  const auto options = std::make_shared<StartOptions>();
  add_name_option(command, options->name);
  add_value(command, "--gpus", options->gpus, parse_gpus, "LIST",
            "GPUs to record, such as 0,1, or none (default: all of the node)");
  command.add_flag("--no-cpu", options->no_cpu, "leave out processors and their memory");
  add_value(
      command, "--period", options->period, parse_duration, "TIME",
      "least time between two rows of a device (default: a row for every change of its sensor that the agent sees)");
  add_agent_option(command, options->agent);
  add_format(command, options->format);
  command.footer(
      "Returns when the sensors have been seen to change, half a second at most: from\n"
      "then on nothing is missed. The session is its user's, goes on when the caller\n"
      "ends, and ends by 'account stop', after 24 hours, at 64 MiB, or with the agent.\n"
      "A name whose session has ended may be taken again; the old trace is forgotten.\n\n"
      "Examples:\n"
      "  flyball account start\n"
      "  flyball account start epoch-3 --gpus 0,1 --no-cpu\n"
      "  flyball account start night --period 100ms --format json");
  command.callback([options] {
    AccountSessionRequest request;
    request.name = options->name;
    request.gpus = options->gpus;
    request.cpus = !options->no_cpu;
    request.row_period = options->period.value_or(Seconds(0));
    const AccountSessionInfo session = options->client().start_session(request);
    for (const std::string& failure : session.failures) print_warning(failure);
    print_result(options->format == "json"
                     ? json_text(to_json(session))
                     : fmt::format("session '{}' records {}\n", session.name, fmt::join(session.devices, ", ")));
  });
}

void add_stop(const Command& parent) {
  const Command command = parent.add_subcommand("stop", "end a session; its trace can be read for an hour");
  const auto options = std::make_shared<SessionCall>();
  add_name_option(command, options->name);
  add_agent_option(command, options->agent);
  add_format(command, options->format);
  command.footer(
      "Returns when the sensors have shown the energy up to now, half a second at\n"
      "most. A session that the agent has already ended stays as it is, with a\n"
      "warning.\n\n"
      "Examples:\n"
      "  flyball account stop\n"
      "  flyball account stop epoch-3 --format json");
  command.callback([options] {
    const AccountSessionInfo session = options->client().stop_session(options->name);
    warn_of(session);
    print_result(options->format == "json"
                     ? json_text(to_json(session))
                     : fmt::format("session '{}' has ended: {}\n", session.name, rows_text(session)));
  });
}

struct ReadOptions : SessionCall {
  std::optional<std::string> output;
  AccountArguments footprint;
};

// Adds to the error that there is no agent what this means for the session.
template <class Ask>
auto asked_of(AgentClient& client, const Ask& ask) {
  try {
    return ask(client);
  } catch (const AgentRefusal&) {
    throw;
  } catch (const SystemError& error) {
    throw SystemError(
        fmt::format("{}\n  a session ends with its agent: if that was killed, so is the trace", error.what()));
  }
}

void run_read(ReadOptions options, const std::string& command_line) {
  AgentClient client = options.client();
  const AccountSessionInfo session = asked_of(client, [&](AgentClient& agent) { return agent.session(options.name); });
  const std::string trace = asked_of(client, [&](AgentClient& agent) { return agent.session_trace(options.name); });
  warn_of(session);
  if (session.recording()) print_warning(fmt::format("session '{}' still records; this is its begin", session.name));
  if (options.output) write_text_file(*options.output, trace);
  if (!options.footprint.account.events.empty()) {
    if (options.output) {
      options.footprint.account.power = {*options.output};
      return run_account(options.footprint, command_line);
    }
    options.footprint.account.power = {fmt::format("session '{}'", options.name)};
    return run_account(options.footprint, command_line, trace);
  }
  if (options.footprint.format == "json") return print_result(json_text(to_json(session)));
  if (!options.output) return print_data(trace);
  print_report(fmt::format("flyball: {}: {}\n", *options.output, rows_text(session)));
}

void add_read(const Command& parent, const std::string& command_line) {
  const Command command =
      parent.add_subcommand("read", "the power trace of a session, or the footprint with an event trace");
  const auto options = std::make_shared<ReadOptions>();
  add_name_option(command, options->name);
  add_value(command, "-o,--out", options->output, parse_path, "FILE",
            "write the power trace there, as 'flyball record' does (without --events, default: standard output)");
  add_agent_option(command, options->agent);
  add_footprint_options(command, options->footprint);
  command.footer(
      "With --events, what 'flyball account --events FILE --power TRACE' prints and\n"
      "writes, by the same options. Without, --format json prints the session's state.\n"
      "A session that still records gives its trace until now.\n\n"
      "Examples:\n"
      "  flyball account read epoch-3 --out power.csv\n"
      "  flyball account read epoch-3 --events trace.json\n"
      "  flyball account read epoch-3 --events trace.json --html account.html --format json");
  command.callback([options, command_line] {
    const InterruptExit interrupt_exit;
    run_read(*options, command_line);
  });
}

void add_list(const Command& parent) {
  const Command command = parent.add_subcommand("list", "your sessions in the agent");
  const auto options = std::make_shared<SessionCall>();
  add_agent_option(command, options->agent);
  add_format(command, options->format);
  command.footer(
      "Examples:\n"
      "  flyball account list\n"
      "  flyball account list --format json");
  command.callback([options] {
    const std::vector<AccountSessionInfo> sessions = options->client().sessions();
    if (options->format == "json") return print_result(json_text(to_json(AccountSessionList{sessions})));
    TextTable table({"<session", "<state", "time (s)", "rows", "<devices"});
    for (const AccountSessionInfo& session : sessions) {
      table.add_row({session.name, std::string(name_of(session.state)), format_fixed(session.length.value(), 3),
                     fmt::to_string(session.rows), fmt::format("{}", fmt::join(session.devices, ", "))});
    }
    print_result(table.str());
  });
}

void add_drop(const Command& parent) {
  const Command command = parent.add_subcommand("drop", "end a session and forget its trace");
  const auto options = std::make_shared<SessionCall>();
  add_name_option(command, options->name);
  add_agent_option(command, options->agent);
  command.footer(
      "Examples:\n"
      "  flyball account drop epoch-3");
  command.callback([options] { options->client().drop_session(options->name); });
}

}  // namespace

void add_session_commands(const Command& account, const std::string& command_line) {
  add_start(account);
  add_stop(account);
  add_read(account, command_line);
  add_list(account);
  add_drop(account);
}

}  // namespace flyball
