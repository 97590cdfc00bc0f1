// The descriptions of account sessions.
#include "wire/account_session_messages.h"

#include <fmt/format.h>

#include <algorithm>

namespace flyball {

bool is_session_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kLongestSessionName && std::all_of(name.begin(), name.end(), allowed) &&
         name.find_first_not_of('.') != std::string_view::npos;  // "..": no segment of a path
}

std::string_view name_of(AccountSessionState state) {
  switch (state) {
    case AccountSessionState::kRecording: return "recording";
    case AccountSessionState::kStopped: return "stopped";
    case AccountSessionState::kTooLong: return "too_long";
    case AccountSessionState::kTooLarge: return "too_large";
  }
  return "stopped";
}

const Record<AccountSessionRequest>& description_of(const AccountSessionRequest* /*type*/) {
  using R = AccountSessionRequest;
  static const auto kRecord =
      Record<R>::request("SessionRequest")
          .field("name", &R::name,
                 {.text = "1 to 64 letters, digits, '.', '_' or '-', not of dots alone.",
                  .needed = true,
                  .shortest = 1,
                  .longest = kLongestSessionName,
                  .marks = "._-"})
          .field("cpus", &R::cpus, {.text = "Processors and their memory, too."})
          .field(
              "row_period_s", &R::row_period,
              {.text = "A device's changes sooner after its last row are left out; 0: none is. Not below the agent's "
                       "sampling period.",
               .minimum = 0,
               .maximum = 3600})
          .field("gpus", &R::gpus, {.text = "Indices; all where it is missing.", .minimum = 0, .maximum = 1024})
          .check([](const JsonObject& object, R& session) {
            if (!is_session_name(session.name)) object.refuse("name", "is of dots alone", "give another name");
          });
  return kRecord;
}

const Record<AccountSessionInfo>& description_of(const AccountSessionInfo* /*type*/) {
  using R = AccountSessionInfo;
  static const auto kRecord =
      Record<R>::answer("Session", "the agent's answer")
          .field("name", &R::name, {.text = "As it was started.", .needed = true})
          .field("state", &R::state,
                 {.text = "stopped: as it was told; too_long, too_large: the agent ended it.", .needed = true})
          .field("ended", &R::ended, {.text = "Why, in words; empty while it records."})
          .field("devices", &R::devices, {.text = "GPU:0, CPU:0 or DRAM:0, for example."})
          .field("begin_s", &R::begin, {.text = "Unix time.", .needed = true})
          .field("length_s", &R::length, {.text = "Until its end, or until now.", .needed = true})
          .field("rows", &R::rows, {.text = "Of its trace.", .needed = true})
          .field("bytes", &R::bytes, {.text = "Of its trace.", .needed = true})
          .field("failures", &R::failures,
                 {.text = "Devices whose readings failed meanwhile, and rows are missing; one sentence each."});
  return kRecord;
}

}  // namespace flyball
