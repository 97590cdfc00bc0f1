// A client of the servers' event streams, as the HTML standard (section 9.2) has a browser read them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "support/raw_socket.h"

namespace flyball::testing {

struct ServerEvent {
  std::string name;
  std::string data;
};

// One event without the empty line after it: "event: NAME" and "data: DATA", or a comment, which has neither.
inline ServerEvent parse_event(std::string_view text) {
  ServerEvent event;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.starts_with("event: ")) event.name = line.substr(7);
    if (line.starts_with("data: ")) event.data = line.substr(6);
  }
  return event;
}

// Calls `on_event` with each event of the stream at `target` until it returns false or the server ends the stream.
inline void follow_events(const RawSocket& socket, const std::string& target,
                          const std::function<bool(const ServerEvent&)>& on_event, const std::string& token = {}) {
  socket.send("GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" +
              (token.empty() ? "" : "Authorization: Bearer " + token + "\r\n") + "\r\n");
  std::string text = socket.read_until("\r\n\r\n");
  if (!text.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")) throw std::runtime_error(text);
  text.erase(0, text.find("\r\n\r\n") + 4);
  while (true) {
    for (std::size_t end = 0; (end = text.find("\n\n")) != std::string::npos; text.erase(0, end + 2)) {
      const ServerEvent event = parse_event(std::string_view(text).substr(0, end));
      if (!event.data.empty() && !on_event(event)) return;
    }
    const std::string more = socket.read_some();
    if (more.empty()) return;
    text += more;
  }
}

}  // namespace flyball::testing
