// A request that uses the field comes back out as it was read: the description alone makes it known to both sides.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/record.h"
#include "wire/agent_messages.h"

int main() {
  const nlohmann::json sent = {{"name", "epoch-3"}, {"note", "after the data moved"}};
  const auto request = flyball::read_message<flyball::AccountSessionRequest>(sent);
  std::puts(flyball::to_json(request).dump().c_str());
}
