// flyball top: the GPUs of a node, or of many, live.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/monotonic_time.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "cli/top_screen.h"
#include "cli/top_source.h"
#include "cli/top_view.h"
#include "client/agent_client.h"
#include "client/energy_begin.h"
#include "client/plan_server.h"

namespace flyball {
namespace {

using Clock = TopScreen::Clock;

constexpr Seconds kDefaultInterval{1.0};
constexpr Seconds kLeastInterval{0.05};
constexpr std::size_t kPast = 60;  // readings of power that are kept

constexpr const char* kHelp =
    "flyball top\n"
    "\n"
    "  up, down, k, j      scroll by a row\n"
    "  page up, page down  scroll by a page\n"
    "  home, end           to the first row, to the last\n"
    "  p c t u e           by power, clock, temperature, use, energy, highest first\n"
    "  g o                 by GPU, by job\n"
    "  ? h                 this help; any key ends it\n"
    "  q, Ctrl-C           quit\n"
    "\n"
    "An asterisk marks a clock that a lease has locked, and a power limit that a\n"
    "holder who was lost has left. \"lately\" shows the last readings of power, as\n"
    "high as their share of the limit.\n";

struct TopOptions {
  TopSourceOptions source;
  bool once = false;
  std::optional<Seconds> interval;
  std::optional<std::string> order;
  std::optional<std::string> format;
};

bool may_colour() {
  const char* no_color = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) != 0 && (no_color == nullptr || *no_color == '\0');
}

// Takes a look into the frame: nodes that are new count their energy from here.
void take(TopFrame& frame, TopLook look) {
  std::vector<TopNode> nodes;
  for (TopLook::Node& seen : look.nodes) {
    const auto before =
        std::ranges::find_if(frame.nodes, [&](const TopNode& one) { return one.now.node == seen.status.node; });
    TopNode node{before == frame.nodes.end() ? seen.status : std::move(before->first), {}, std::move(seen.silent)};
    if (before != frame.nodes.end()) move_energy_begin(node.first, before->now, seen.status);
    for (const GpuStatus& gpu : seen.status.gpus) {
      if (!gpu.power) continue;
      std::vector<double>& past = frame.powers[gpu.uuid];
      if (past.size() >= kPast) past.erase(past.begin());
      past.push_back(gpu.power->value());
    }
    node.now = std::move(seen.status);
    nodes.push_back(std::move(node));
  }
  frame.nodes = std::move(nodes);
  frame.jobs = std::move(look.jobs);
}

// While nobody answers, the last look stays on the screen. A refusal remains an error.
void look_again(const TopSource& source, TopFrame& frame, bool tell) {
  const char* const who = source.has_nodes ? "server" : "agent";
  try {
    take(frame, source.look());
    if (tell && !frame.away.empty()) print_warning(fmt::format("the {} is back", who));
    frame.away.clear();
  } catch (const AgentRefusal&) {
    throw;
  } catch (const ServerRefusal&) {
    throw;
  } catch (const SystemError& error) {
    if (tell && frame.away.empty()) print_warning(fmt::format("{}; trying again", error.what()));
    frame.away = error.what();
  }
}

std::optional<TopOrder> order_of(char letter) {
  switch (letter) {
    case 'g': return TopOrder::kGpu;
    case 'p': return TopOrder::kPower;
    case 'c': return TopOrder::kClock;
    case 't': return TopOrder::kTemperature;
    case 'u': return TopOrder::kUse;
    case 'e': return TopOrder::kEnergy;
    case 'o': return TopOrder::kJob;
    default: return std::nullopt;
  }
}

// Shows the frame until it is time for the next look, and does what keys say. Returns whether to quit.
class Pager {
 public:
  [[nodiscard]] bool show(const TopScreen& screen, TopFrame& frame, Clock::time_point until) {
    while (true) {
      frame.columns = terminal_columns(STDOUT_FILENO);
      frame.lines = TopScreen::lines();
      screen.show(helps_ ? kHelp : draw_top(frame));
      const TopPress press = screen.wait(until);
      if (press.key == TopKey::kNone) return false;
      if (press.key == TopKey::kQuit) return true;
      helps_ = !helps_ && press.key == TopKey::kHelp;
      scroll(frame, press.key);
      if (const auto order = order_of(press.letter)) frame.order = *order;
    }
  }

 private:
  static void scroll(TopFrame& frame, TopKey key) {
    const TopRows rows = rows_of_top(frame);
    const std::size_t last = rows.all - rows.shown;
    const std::size_t page = std::max<std::size_t>(rows.shown, 1);
    frame.offset = std::min(frame.offset, last);
    if (key == TopKey::kUp) frame.offset -= std::min<std::size_t>(frame.offset, 1);
    if (key == TopKey::kPageUp) frame.offset -= std::min(frame.offset, page);
    if (key == TopKey::kDown) frame.offset = std::min(frame.offset + 1, last);
    if (key == TopKey::kPageDown) frame.offset = std::min(frame.offset + page, last);
    if (key == TopKey::kHome) frame.offset = 0;
    if (key == TopKey::kEnd) frame.offset = last;
  }

  bool helps_ = false;
};

void sleep_until(Clock::time_point due) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(due - Clock::now()).count();
  ::poll(nullptr, 0, static_cast<int>(std::max<std::int64_t>(left, 0)));  // a signal ends it
}

void run_top(const TopOptions& options) {
  const TopSource source = choose_source(options.source);
  const Seconds interval = options.interval.value_or(kDefaultInterval);
  if (interval < kLeastInterval) throw UsageError("--interval takes at least 50ms");
  const bool json = options.format == "json";
  const bool live = !options.once && !json && ::isatty(STDOUT_FILENO) != 0;

  TopFrame frame;
  frame.source = source.name;
  frame.has_nodes = source.has_nodes;
  if (options.order) frame.order = value_named<TopOrder>(*options.order).value_or(TopOrder::kGpu);
  take(frame, source.look());
  const auto begin = Clock::now();
  if (options.once) {
    frame.powers.clear();  // of one look there is no past
    frame.columns = ::isatty(STDOUT_FILENO) != 0 ? terminal_columns(STDOUT_FILENO) : 120;
    return print_result(json ? top_json(frame) : draw_top(frame));
  }

  const InterruptGuard interrupt;
  std::optional<TopScreen> screen;
  if (live) screen.emplace();
  Pager pager;
  frame.colour = may_colour();
  for (auto due = begin; !interrupt.interrupted();) {
    frame.elapsed = Seconds(std::chrono::duration<double>(Clock::now() - begin).count());
    due = std::max(due + duration_of(interval), Clock::now());
    if (live) {
      try {
        if (pager.show(*screen, frame, due)) return;
      } catch (const SystemError&) {
        if (TopScreen::is_gone()) return;
        throw;
      }
    } else {
      frame.columns = terminal_columns(STDOUT_FILENO);
      print_data(json ? top_json(frame) : draw_top(frame) + "\n");
      sleep_until(due);
    }
    if (!interrupt.interrupted()) look_again(source, frame, !live);
  }
}

}  // namespace

void add_top_command(const Command& program) {
  const Command command = program.add_subcommand("top", "watch power, clocks, leases, jobs and energy of GPUs");
  const auto options = std::make_shared<TopOptions>();
  add_agent_option(command, options->source.agent);
  command.add_flag("--direct", options->source.direct, "read the devices without the agent");
  add_value(command, "--server", options->source.server, parse_path, "ADDRESS",
            "a planning server that asks the nodes' agents (flyball serve --agents): watch all of its nodes");
  add_value(command, "--token-file", options->source.token_file, parse_path, "FILE",
            "file with the token of the server's administrator");
  add_value(command, "--ca-file", options->source.ca_file, parse_path, "FILE",
            "PEM file of the authorities from which an https:// server's certificate may come");
  add_value(command, "--interval", options->interval, parse_duration, "TIME", "time between two readings (default 1s)");
  add_choice(command, "--sort", options->order, names_of<TopOrder>(), "NAME",
             "what rows are ordered by, the highest first: gpu (default), power, clock, temperature, use, energy, job");
  command.add_flag("--once", options->once, "print one reading and end");
  add_choice(command, "--format", options->format, {"text", "json"}, "NAME",
             "text (default) or json, one object a line");
  command.footer(
      "q or Ctrl-C ends it, arrows scroll, ? lists the keys. An asterisk marks a clock\n"
      "that a lease has locked. Energy counts from the start of the program. Without an\n"
      "agent's socket it reads the devices itself, and says so.\n\n"
      "Examples:\n"
      "  flyball top\n"
      "  flyball top --once --format json\n"
      "  flyball top --agent node7:4938 --interval 500ms\n"
      "  flyball top --server plan:4940 --token-file admin.token --sort power");
  command.callback([options] { run_top(*options); });
}

}  // namespace flyball
