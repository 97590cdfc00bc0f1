// The agent's log. Each event is one line of key=value pairs on standard error, with the level in front as journald
// reads it (sd-daemon(3)) where journald is what reads standard error, which JOURNAL_STREAM says. Thread-safe.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace flyball {

enum class LogLevel { kError = 3, kWarning = 4, kNotice = 5, kInfo = 6 };

void log_event(LogLevel level, std::string_view event,
               std::initializer_list<std::pair<std::string_view, std::string>> fields = {});

// Tells a state to the service manager, where NOTIFY_SOCKET names one (sd_notify(3)): "READY=1", "STOPPING=1".
void notify_service_manager(std::string_view state);

}  // namespace flyball
