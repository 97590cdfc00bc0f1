// Any bytes as a message of the agent: a value that survives being written and read again, or an Error.
#include <cstddef>
#include <cstdint>

#include "round_trip.h"
#include "wire/account_session_messages.h"
#include "wire/agent_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return flyball::round_trip_all(data, size, flyball::read_lease_request, flyball::read_settings_change,
                                 flyball::read_node_status, flyball::read_power_points,
                                 flyball::read_account_session_request, flyball::read_account_session);
}
