#include "wire/account_session_messages.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_object.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostGpus = 1024;
constexpr std::int64_t kMostCount = std::int64_t{1} << 53;
constexpr NumberRange kRowPeriod{0.0, 3600.0, "s"};
constexpr NumberRange kAnySeconds{-1e12, 1e12, "s"};
constexpr const char* kRequest = "the request";
constexpr const char* kAnswer = "the agent's answer";
constexpr AccountSessionState kAllStates[] = {AccountSessionState::kRecording, AccountSessionState::kStopped,
                                              AccountSessionState::kTooLong, AccountSessionState::kTooLarge};

AccountSessionInfo read_session(JsonObject object) {
  AccountSessionInfo session;
  session.name = object.text("name");
  const std::string state = object.text("state");
  const auto* known = std::find_if(std::begin(kAllStates), std::end(kAllStates),
                                   [&](AccountSessionState one) { return name_of(one) == state; });
  // A newer agent may know other ends.
  session.state = known != std::end(kAllStates) ? *known : AccountSessionState::kStopped;
  session.ended = object.find_text("ended").value_or("");
  session.devices = object.texts("devices");
  session.begin = Seconds(object.number("begin_s", kAnySeconds));
  session.length = Seconds(object.number("length_s", kAnySeconds));
  session.rows = static_cast<std::size_t>(object.integer("rows", 0, kMostCount));
  session.bytes = static_cast<std::size_t>(object.integer("bytes", 0, kMostCount));
  session.failures = object.texts("failures");
  return session;
}

}  // namespace

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

AccountSessionRequest read_account_session_request(const nlohmann::json& json) {
  JsonObject object(json, kRequest);
  AccountSessionRequest request;
  request.name = object.text("name");
  if (!is_session_name(request.name)) {
    object.refuse("name", "is no session's name",
                  fmt::format("give 1 to {} letters, digits, '.', '_' or '-'", kLongestSessionName));
  }
  if (object.has("gpus") && !object.is_null("gpus")) {
    request.gpus.emplace();
    for (const std::int64_t gpu : object.integers("gpus", 0, kMostGpus)) {
      request.gpus->push_back(static_cast<std::size_t>(gpu));
    }
  }
  if (object.has("cpus")) request.cpus = object.boolean("cpus");
  request.row_period = Seconds(object.find_number("row_period_s", kRowPeriod).value_or(0.0));
  object.refuse_others();
  return request;
}

Json to_json(const AccountSessionRequest& request) {
  Json json = {{"name", request.name}, {"cpus", request.cpus}, {"row_period_s", request.row_period.value()}};
  if (request.gpus) json["gpus"] = *request.gpus;
  return json;
}

Json to_json(const AccountSessionInfo& session) {
  return {{"name", session.name},       {"state", name_of(session.state)},  {"ended", session.ended},
          {"devices", session.devices}, {"begin_s", session.begin.value()}, {"length_s", session.length.value()},
          {"rows", session.rows},       {"bytes", session.bytes},           {"failures", session.failures}};
}

AccountSessionInfo read_account_session(const nlohmann::json& json) { return read_session(JsonObject(json, kAnswer)); }

std::vector<AccountSessionInfo> read_account_sessions(const nlohmann::json& json) {
  JsonObject object(json, kAnswer);
  std::vector<AccountSessionInfo> sessions;
  for (const JsonObject& session : object.objects("sessions")) sessions.push_back(read_session(session));
  return sessions;
}

}  // namespace flyball
