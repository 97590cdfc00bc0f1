// The descriptions of account sessions: what each field is called, means and may hold.
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
          .field("cpus", &R::cpus, {.text = "Whether processors and their memory are recorded, too."})
          .field("row_period_s", &R::row_period,
                 {.text = "Least time between two rows of a device; changes in between are left out. 0: every change "
                          "is a row. Other values must not be below the agent's sampling period.",
                  .minimum = 0,
                  .maximum = 3600})
          .field("gpus", &R::gpus,
                 {.text = "Indices of the GPUs to record; all where it is missing.", .minimum = 0, .maximum = 1024})
          .check([](const JsonObject& object, R& session) {
            if (!is_session_name(session.name)) object.refuse("name", "is of dots alone", "give another name");
          });
  return kRecord;
}

const Record<AccountSessionInfo>& description_of(const AccountSessionInfo* /*type*/) {
  using R = AccountSessionInfo;
  static const auto kRecord =
      Record<R>::answer("Session", "the agent's answer")
          .field("name", &R::name, {.text = "The name under which it was started.", .needed = true})
          .field("state", &R::state,
                 {.text = "stopped: its owner ended it; too_long, too_large: the agent ended it.", .needed = true})
          .field("ended", &R::ended, {.text = "Why it ended, in words; empty while it records."})
          .field("devices", &R::devices, {.text = "What it records: GPU:0, CPU:0 or DRAM:0, for example."})
          .field("begin_s", &R::begin, {.text = "When it began, in Unix time.", .needed = true})
          .field("length_s", &R::length, {.text = "The time from its begin to its end, or until now.", .needed = true})
          .field("rows", &R::rows, {.text = "Rows of its trace.", .needed = true})
          .field("bytes", &R::bytes, {.text = "Bytes of its trace.", .needed = true})
          .field("failures", &R::failures,
                 {.text = "One sentence for each device of which readings failed, so that rows are missing."});
  return kRecord;
}

}  // namespace flyball
