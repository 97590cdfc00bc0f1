// flyball top: the node's GPUs, live.
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/node_reader.h"
#include "base/error.h"
#include "base/monotonic_time.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "cli/top_view.h"
#include "client/agent_client.h"
#include "client/energy_begin.h"
#include "client/measurement.h"

namespace flyball {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Seconds kDefaultInterval{1.0};
constexpr Seconds kLeastInterval{0.05};

struct TopOptions {
  std::optional<std::string> agent;
  bool direct = false;
  bool once = false;
  std::optional<Seconds> interval;
  std::optional<std::string> format;
};

struct Source {
  std::string name;
  std::function<NodeStatus()> read;
};

Source agent_source(const Endpoint& endpoint) {
  const auto client = std::make_shared<AgentClient>(endpoint);
  return {"agent at " + endpoint.text(), [client] { return client->devices(); }};
}

Source direct_source() {
  const MachineDevices machine = open_machine();
  const auto reader = std::make_shared<NodeReader>(machine, machine.cpus);
  return {"read from the devices; without an agent there are no leases", [reader] { return reader->read(); }};
}

Source choose_source(const TopOptions& options) {
  if (options.direct && options.agent) throw UsageError("--direct and --agent exclude each other");
  if (options.direct) return direct_source();
  if (options.agent) return agent_source(parse_endpoint(*options.agent));
  const Endpoint usual = default_agent_endpoint();
  struct stat there {};
  const bool agent_runs = usual.socket_path.empty() || ::stat(usual.socket_path.c_str(), &there) == 0;
  return agent_runs ? agent_source(usual) : direct_source();
}

// Switches the terminal to its alternate screen, without echo and with keys told at once; the destructor brings
// everything back.
class Screen {
 public:
  Screen() {
    has_keys_ = ::isatty(STDIN_FILENO) != 0 && ::tcgetattr(STDIN_FILENO, &before_) == 0;
    if (has_keys_) {
      termios raw = before_;
      raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      raw.c_cc[VMIN] = 0;
      raw.c_cc[VTIME] = 0;
      ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    print_data("\x1b[?1049h\x1b[?25l");
  }
  ~Screen() {
    if (has_keys_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    static constexpr char kBack[] = "\x1b[?25h\x1b[?1049l";
    [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, kBack, sizeof kBack - 1);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Draws over what is there, line by line, so that nothing flickers.
  void show(const std::string& text) const {
    std::string out = "\x1b[H";
    for (const char c : text) {
      if (c == '\n') out += "\x1b[K\r";
      out += c;
    }
    print_data(out + "\x1b[J");
  }

  // Whether the terminal that was drawn on has gone away. Nobody looks any more then, so that this ends the program.
  [[nodiscard]] static bool is_gone() {
    pollfd terminal{STDOUT_FILENO, 0, 0};
    return ::poll(&terminal, 1, 0) == 1 && (terminal.revents & (POLLHUP | POLLERR)) != 0;
  }

  // Waits for the time or for 'q', for which it returns true.
  [[nodiscard]] bool wait_quits(Clock::time_point until) const {
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
      if (left <= 0) return false;
      pollfd keys{has_keys_ ? STDIN_FILENO : -1, POLLIN, 0};
      if (::poll(&keys, 1, static_cast<int>(left)) <= 0) return false;  // time is up, or a signal came
      char key = 0;
      const ssize_t count = ::read(STDIN_FILENO, &key, 1);
      if (count < 0 && errno == EINTR) continue;
      if (count != 1 || key == 'q' || key == 'Q') return true;  // without a terminal nobody looks any more
    }
  }

 private:
  termios before_{};
  bool has_keys_ = false;
};

bool may_colour() {
  const char* no_color = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) != 0 && (no_color == nullptr || *no_color == '\0');
}

// While the agent is away, the last look stays on the screen. An agent's refusal remains an error.
void look_again(const Source& source, TopFrame& frame, bool tell) {
  try {
    NodeStatus now = source.read();
    move_energy_begin(frame.first, frame.now, now);
    frame.now = std::move(now);
    if (tell && !frame.away.empty()) print_warning("the agent is back");
    frame.away.clear();
  } catch (const AgentRefusal&) {
    throw;
  } catch (const SystemError& error) {
    if (tell && frame.away.empty()) print_warning(fmt::format("{}; trying again", error.what()));
    frame.away = error.what();
  }
}

void run_top(const TopOptions& options) {
  const Source source = choose_source(options);
  const Seconds interval = options.interval.value_or(kDefaultInterval);
  if (interval < kLeastInterval) throw UsageError("--interval takes at least 50ms");
  const bool json = options.format == "json";
  const bool live = !options.once && !json && ::isatty(STDOUT_FILENO) != 0;

  TopFrame frame;
  frame.source = source.name;
  frame.first = source.read();
  frame.now = frame.first;
  const auto begin = Clock::now();
  if (options.once && !json) frame.columns = ::isatty(STDOUT_FILENO) != 0 ? terminal_columns(STDOUT_FILENO) : 120;
  if (options.once) return print_result(json ? top_json(frame) : draw_top(frame));

  const InterruptGuard interrupt;
  std::optional<Screen> screen;
  if (live) screen.emplace();
  frame.colour = may_colour();
  for (auto due = begin; !interrupt.interrupted();) {
    frame.elapsed = Seconds(std::chrono::duration<double>(Clock::now() - begin).count());
    frame.columns = terminal_columns(STDOUT_FILENO);
    if (live) {
      try {
        screen->show(draw_top(frame) + "\nq quits\n");
      } catch (const SystemError&) {
        if (Screen::is_gone()) return;
        throw;
      }
    } else {
      print_data(json ? top_json(frame) : draw_top(frame) + "\n");
    }
    due += duration_of(interval);
    if (due < Clock::now()) due = Clock::now();
    if (live) {
      if (screen->wait_quits(due)) return;
    } else {
      ::poll(nullptr, 0,
             static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(due - Clock::now()).count()));
    }
    if (!interrupt.interrupted()) look_again(source, frame, !live);
  }
}

}  // namespace

void add_top_command(const Command& program) {
  const Command command = program.add_subcommand("top", "watch power, clocks, leases and energy of this node's GPUs");
  const auto options = std::make_shared<TopOptions>();
  add_agent_option(command, options->agent);
  command.add_flag("--direct", options->direct, "read the devices without the agent");
  add_value(command, "--interval", options->interval, parse_duration, "TIME", "time between two readings (default 1s)");
  command.add_flag("--once", options->once, "print one reading and end");
  add_choice(command, "--format", options->format, {"text", "json"}, "NAME",
             "text (default) or json, one object a line");
  command.footer(
      "q or Ctrl-C ends it. An asterisk marks a clock that a lease has locked. Energy\n"
      "counts from the start of the program. Without an agent's socket it reads the\n"
      "devices itself, and says so.\n\n"
      "Examples:\n"
      "  flyball top\n"
      "  flyball top --once --format json\n"
      "  flyball top --agent node7:4938 --interval 500ms");
  command.callback([options] { run_top(*options); });
}

}  // namespace flyball
