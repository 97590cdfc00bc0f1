// Each function reads a number or a time by base/text.h and compares it with its bounds; refuse() words all errors.
#include "cli/option_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "pipeline/pipeline_spec.h"
#include "pipeline/schedule.h"

namespace flyball {
namespace {

// About a month: the longest time of which whole nanoseconds are sure to hold even the sum of many.
constexpr double kLongestSeconds = 3e6;
[[noreturn]] void refuse(std::string_view option, std::string_view text, std::string_view wanted) {
  throw UsageError(fmt::format("{} takes {}, not '{}'", option, wanted, text));
}

}  // namespace

long parse_integer_within(std::string_view option, std::string_view text, long least, long most,
                          std::string_view wanted) {
  const auto value = parse_integer(text);
  if (!value || *value < least || *value > most) refuse(option, text, wanted);
  return *value;
}

double parse_number_within(std::string_view option, std::string_view text, double least, double most,
                           std::string_view wanted) {
  const auto value = parse_number(text);
  if (!value || *value < least || *value > most) refuse(option, text, wanted);
  return *value;
}

int parse_count(std::string_view option, std::string_view text) {
  const std::string wanted = fmt::format("a whole number from 1 to {}", kMostOperations);
  return static_cast<int>(parse_integer_within(option, text, 1, kMostOperations, wanted));
}

int parse_memory_option(std::string_view option, std::string_view text) {
  const auto limit = parse_memory_limit(text);
  if (!limit) {
    refuse(option, text,
           fmt::format("a number of microbatches from 1 to {}, or memory over memory with units, such as 60GB/6.4GB",
                       kMostOperations));
  }
  return *limit;
}

double parse_positive(std::string_view option, std::string_view text) {
  const auto value = parse_number(text);
  if (!value || *value <= 0.0) refuse(option, text, "a number above 0");
  return *value;
}

double parse_straggler(std::string_view option, std::string_view text) {
  return parse_number_within(option, text, 1.0, kLongestSeconds,
                             fmt::format("a slowdown from 1 to {:.0f}, such as 1.2 for 20 % slower", kLongestSeconds));
}

double parse_percent(std::string_view option, std::string_view text) {
  const auto value = parse_number(text);
  if (!value || *value < 0.0 || *value >= 100.0) refuse(option, text, "per cent, from 0 to below 100");
  return *value;
}

double parse_share(std::string_view option, std::string_view text) {
  const auto value = parse_number(text);
  if (!value || *value <= 0.0 || *value >= 1.0) refuse(option, text, "a share between 0 and 1, such as 0.5");
  return *value;
}

Seconds parse_duration(std::string_view option, std::string_view text) {
  const auto value = parse_duration_seconds(text);
  if (!value || *value < 1e-9 || *value > kLongestSeconds) {
    refuse(option, text,
           fmt::format("a time such as 1ms, 250us or 1.5s (a bare number is in seconds), up to {:.0f} s",
                       kLongestSeconds));
  }
  return Seconds(*value);
}

Seconds parse_duration_or_zero(std::string_view option, std::string_view text) {
  const auto value = parse_duration_seconds(text);
  if (value && *value == 0.0) return Seconds(0);
  return parse_duration(option, text);
}

LatencyRange parse_latency(std::string_view option, std::string_view text) {
  const std::size_t dots = text.find("..");
  const std::string_view last = dots == std::string_view::npos ? text : text.substr(dots + 2);
  const LatencyRange range{parse_duration_or_zero(option, text.substr(0, dots)), parse_duration_or_zero(option, last)};
  if (range.longest < range.shortest) refuse(option, text, "the shortest latency before the longest, such as 4ms..9ms");
  return range;
}

std::vector<Watts> parse_powers(std::string_view option, std::string_view text) {
  std::vector<Watts> powers;
  for (const std::string_view part : split_at(',', text)) {
    const auto value = parse_number(part);
    if (!value || *value < 0.0 || *value > kMostBlockingWatts) {
      refuse(
          option, text,
          fmt::format("watts from 0 to {:.0f}: one number, or one per stage with commas between", kMostBlockingWatts));
    }
    powers.emplace_back(*value);
  }
  return powers;
}

std::vector<std::size_t> parse_gpus(std::string_view option, std::string_view text) {
  std::vector<std::size_t> gpus;
  if (text == "none") return gpus;
  for (const std::string_view part : split_at(',', text)) {
    const auto number = parse_integer(part);
    if (!number || *number < 0 || *number > 4096) {
      throw UsageError(
          fmt::format("{} takes numbers of GPUs with commas between, such as 0,1, or none; not '{}'", option, text));
    }
    gpus.push_back(static_cast<std::size_t>(*number));
  }
  return gpus;
}

std::string parse_path(std::string_view option, std::string_view text) {
  if (text.empty()) refuse(option, text, "the name of a file or folder");
  return std::string(text);
}

std::string parse_choice(std::string_view option, std::string_view text, const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
    refuse(option, text, fmt::format("one of {}", fmt::join(choices, ", ")));
  }
  return std::string(text);
}

Option add_choice(const Command& app, const std::string& name, std::optional<std::string>& target,
                  const std::vector<std::string>& choices, const std::string& what, const std::string& description) {
  return add_value(
             app, name, target,
             [choices](std::string_view option, std::string_view text) { return parse_choice(option, text, choices); },
             what, description)
      .suggests(choices);
}

void add_format(const Command& app, std::optional<std::string>& target) {
  add_choice(app, "--format", target, {"text", "json"}, "NAME", "text (default) or json");
}

std::string default_database(std::string_view name) {
  const auto variable = [](const char* key) {
    const char* value = std::getenv(key);
    return value == nullptr ? std::string() : std::string(value);
  };
  std::filesystem::path folder = variable("STATE_DIRECTORY");
  if (folder.empty() && !variable("XDG_STATE_HOME").empty()) folder = variable("XDG_STATE_HOME") + "/flyball";
  if (folder.empty() && !variable("HOME").empty()) folder = variable("HOME") + "/.local/state/flyball";
  if (folder.empty()) {
    throw UsageError("neither STATE_DIRECTORY, XDG_STATE_HOME nor HOME is set; say where to keep jobs (--database)");
  }
  return (folder / name).string();
}

void add_agent_option(const Command& app, std::optional<std::string>& target) {
  add_value(app, "--agent", target, parse_path, "WHERE",
            "socket or host:port of the agent (default: what FLYBALL_AGENT names, else /run/flyball/agent.sock)");
}

}  // namespace flyball
