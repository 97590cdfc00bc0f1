// Any bytes as a message of the agent: a value that survives being written and read again, or an Error.
#include <cstddef>
#include <cstdint>

#include "base/record.h"
#include "round_trip.h"
#include "wire/agent_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return flyball::round_trip_all(
      data, size, flyball::read_message<flyball::LeaseRequest>, flyball::read_message<flyball::SettingsChange>,
      flyball::read_message<flyball::NodeStatus>, flyball::read_message<flyball::LeaseInfo>,
      flyball::read_message<flyball::PowerEvent>, flyball::read_message<flyball::AccountSessionRequest>,
      flyball::read_message<flyball::AccountSessionInfo>);
}
