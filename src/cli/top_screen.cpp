// Keys beyond letters come as sequences of ECMA-48 that begin with ESC [, in one piece.
#include "cli/top_screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <string_view>

#include "cli/console.h"

namespace flyball {
namespace {

TopPress press_of(std::string_view bytes) {
  struct Known {
    std::string_view bytes;
    TopKey key;
  };
  static constexpr std::array<Known, 18> kKnown = {{{"\x1b[A", TopKey::kUp},
                                                    {"\x1bOA", TopKey::kUp},
                                                    {"k", TopKey::kUp},
                                                    {"\x1b[B", TopKey::kDown},
                                                    {"\x1bOB", TopKey::kDown},
                                                    {"j", TopKey::kDown},
                                                    {"\x1b[5~", TopKey::kPageUp},
                                                    {"\x1b[6~", TopKey::kPageDown},
                                                    {" ", TopKey::kPageDown},
                                                    {"\x1b[H", TopKey::kHome},
                                                    {"\x1bOH", TopKey::kHome},
                                                    {"\x1b[1~", TopKey::kHome},
                                                    {"\x1b[F", TopKey::kEnd},
                                                    {"\x1bOF", TopKey::kEnd},
                                                    {"\x1b[4~", TopKey::kEnd},
                                                    {"?", TopKey::kHelp},
                                                    {"h", TopKey::kHelp},
                                                    {"q", TopKey::kQuit}}};
  for (const Known& known : kKnown) {
    if (bytes == known.bytes) return {known.key, 0};
  }
  if (bytes == "Q") return {TopKey::kQuit, 0};
  const bool is_letter = bytes.size() == 1 && std::isalpha(static_cast<unsigned char>(bytes.front())) != 0;
  return is_letter ? TopPress{TopKey::kOrder, bytes.front()} : TopPress{};
}

}  // namespace

TopScreen::TopScreen() {
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

TopScreen::~TopScreen() {
  if (has_keys_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  static constexpr char kBack[] = "\x1b[?25h\x1b[?1049l";
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, kBack, sizeof kBack - 1);
}

void TopScreen::show(const std::string& text) const {
  std::string out = "\x1b[H";
  // No end of line after the last line: it would scroll the screen that it fills.
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') out += i + 1 == text.size() ? "\x1b[K" : "\x1b[K\r\n";
    if (text[i] != '\n') out += text[i];
  }
  print_data(out + "\x1b[J");
}

TopPress TopScreen::wait(Clock::time_point until) const {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return {};
    pollfd keys{has_keys_ ? STDIN_FILENO : -1, POLLIN, 0};
    if (::poll(&keys, 1, static_cast<int>(left)) <= 0) return {};  // time is up, or a signal came
    std::array<char, 16> bytes{};
    const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return {TopKey::kQuit, 0};
    const TopPress press = press_of({bytes.data(), static_cast<std::size_t>(count)});
    if (press.key != TopKey::kNone) return press;
  }
}

bool TopScreen::is_gone() {
  pollfd terminal{STDOUT_FILENO, 0, 0};
  return ::poll(&terminal, 1, 0) == 1 && (terminal.revents & (POLLHUP | POLLERR)) != 0;
}

std::size_t TopScreen::lines() {
  constexpr std::size_t kUsual = 24;
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : kUsual;
}

}  // namespace flyball
