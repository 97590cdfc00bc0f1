// Collects bytes into lines (ended by CR, LF or both) and lines into events, as the standard's interpretation rules
// say; the fields "id" and "retry" are ignored.
#include "net/event_parser.h"

#include <utility>

#include "base/error.h"

namespace flyball {

void EventParser::take_line(std::string_view line, std::vector<ServerEvent>& events) {
  if (line.empty()) {
    if (has_data_) events.push_back(std::exchange(event_, {}));
    event_ = {};
    has_data_ = false;
    return;
  }
  const std::size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") {
    event_.name = value;
  } else if (field == "data") {
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
    if (event_.data.size() > limit_) throw SystemError("an event of the stream is too long");
  }
}

std::vector<ServerEvent> EventParser::feed(std::string_view bytes) {
  std::vector<ServerEvent> events;
  for (const char c : bytes) {
    const bool second_half = std::exchange(after_return_, c == '\r') && c == '\n';
    if (second_half) continue;
    if (c == '\n' || c == '\r') {
      take_line(line_, events);
      line_.clear();
    } else {
      line_ += c;
      if (line_.size() > limit_) throw SystemError("a line of the stream is too long");
    }
  }
  return events;
}

}  // namespace flyball
