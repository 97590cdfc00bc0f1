// Any bytes as a message of the agent: a value that survives being written and read again, or an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/json_object.h"
#include "wire/account_session_messages.h"
#include "wire/agent_messages.h"

namespace {

template <class Read>
void round_trip(const nlohmann::json& json, Read read) {
  try {
    const auto value = read(json);
    const std::string text = flyball::to_json(value).dump();
    if (flyball::to_json(read(nlohmann::json::parse(text))).dump() != text) std::abort();
  } catch (const flyball::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const nlohmann::json json =
        flyball::parse_json("fuzz", std::string_view(reinterpret_cast<const char*>(data), size));
    round_trip(json, flyball::read_lease_request);
    round_trip(json, flyball::read_settings_change);
    round_trip(json, flyball::read_node_status);
    round_trip(json, flyball::read_power_points);
    round_trip(json, flyball::read_account_session_request);
    round_trip(json, flyball::read_account_session);
  } catch (const flyball::Error&) {
  }
  return 0;
}
