// Each event is one write(2) of one line, values quoted where they hold blanks and control characters made visible.
#include "agent/log.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/printable.h"

namespace flyball {
namespace {

std::string quoted_value(std::string_view value) {
  const bool plain = !value.empty() && value.find_first_of(" \"=\\\n\r\t") == std::string_view::npos;
  if (plain) return printable(value);
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return printable(text + '"');
}

// systemd sets JOURNAL_STREAM to the device and inode of the stream that it made. Children may have another one.
bool journal_reads_standard_error() {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat own {};
  return stream != nullptr && ::fstat(STDERR_FILENO, &own) == 0 &&
         fmt::format("{}:{}", own.st_dev, own.st_ino) == stream;
}

}  // namespace

void log_event(LogLevel level, std::string_view event,
               std::initializer_list<std::pair<std::string_view, std::string>> fields) {
  std::string line = journal_reads_standard_error() ? fmt::format("<{}>", static_cast<int>(level)) : std::string();
  line += fmt::format("event={}", event);
  for (const auto& [key, value] : fields) line += fmt::format(" {}={}", key, quoted_value(value));
  line += '\n';
  // One call writes the line, so that lines of different threads do not mix. A log that cannot be written must not stop
  // the agent.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void notify_service_manager(std::string_view state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (*path != '/' && *path != '@')) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(path);
  if (length >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path, length);
  if (*path == '@') address.sun_path[0] = '\0';
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return;
  ::sendto(socket, state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address),
           static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
  ::close(socket);
}

}  // namespace flyball
