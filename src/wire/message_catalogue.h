// All described messages of an interface in one list, for documents and for people.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/record.h"

namespace flyball {

enum class Interface { kServer, kAgent };
[[nodiscard]] std::string_view name_of(Interface interface);  // "server"
template <>
struct Choices<Interface> {
  static constexpr Interface kAll[] = {Interface::kServer, Interface::kAgent};
};

// In the order of their document. The descriptions live as long as the process.
[[nodiscard]] const std::vector<const RecordDescription*>& messages_of(Interface interface);

// The schemas as components/schemas of the interface's OpenAPI document has them, in YAML, indented by four. The last
// part of docs/openapi.yaml and docs/openapi-agent.yaml is this text.
[[nodiscard]] std::string openapi_schemas(Interface interface);

}  // namespace flyball
