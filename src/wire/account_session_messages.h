// Account sessions as the agent and its clients speak of them: power traces that the agent records for its callers.
// Described as agent_messages.h is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/names.h"
#include "base/record.h"
#include "base/units.h"

namespace flyball {

inline constexpr std::size_t kLongestSessionName = 64;
[[nodiscard]] bool is_session_name(std::string_view name);

struct AccountSessionRequest {
  std::string name;                              // 1 to 64 letters, digits, '.', '_', '-'
  std::optional<std::vector<std::size_t>> gpus;  // none: all
  bool cpus = true;                              // and their memory
  Seconds row_period;                            // least time between two rows of a device; 0: every change is a row
};

enum class AccountSessionState {
  kRecording,
  kStopped,   // its owner ended it
  kTooLong,   // the agent ended it at the longest time that a session may take
  kTooLarge,  // the agent ended it at the largest size that a trace may have
};
template <>
inline constexpr auto kNamesOf<AccountSessionState> = name_list("recording", "stopped", "too_long", "too_large");
template <>
inline constexpr auto kUnknownName<AccountSessionState> = AccountSessionState::kStopped;

struct AccountSessionInfo {
  std::string name;
  AccountSessionState state = AccountSessionState::kRecording;
  std::string ended;  // why it ended, in words: "it had reached 64 MiB"; empty while it records
  std::vector<std::string> devices;
  Seconds begin;   // Unix time
  Seconds length;  // until its end, or until now
  std::size_t rows = 0;
  std::size_t bytes = 0;
  std::vector<std::string> failures;  // of devices whose readings failed meanwhile, one sentence each

  [[nodiscard]] bool recording() const { return state == AccountSessionState::kRecording; }
};

[[nodiscard]] const Record<AccountSessionRequest>& description_of(const AccountSessionRequest*);
[[nodiscard]] const Record<AccountSessionInfo>& description_of(const AccountSessionInfo*);

}  // namespace flyball
