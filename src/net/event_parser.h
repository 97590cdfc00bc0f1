// Reads text/event-stream, the format of server-sent events (HTML standard, section 9.2).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flyball {

struct ServerEvent {
  std::string name;  // empty: "message"
  std::string data;  // lines joined by '\n'
};

class EventParser {
 public:
  // `limit` bounds a line, and the data of one event, in bytes; a longer one counts as the server's error.
  explicit EventParser(std::size_t limit = 4u << 20u) : limit_(limit) {}

  // Returns the events that the bytes complete, in order. Throws SystemError where the limit is exceeded.
  [[nodiscard]] std::vector<ServerEvent> feed(std::string_view bytes);

 private:
  void take_line(std::string_view line, std::vector<ServerEvent>& events);

  std::size_t limit_;
  std::string line_;
  bool after_return_ = false;  // a line feed that follows belongs to the line end already seen
  ServerEvent event_;
  bool has_data_ = false;
};

}  // namespace flyball
