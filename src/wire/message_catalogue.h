// All described messages of an interface in one list, for documents and for people.
#pragma once

#include <string>
#include <vector>

#include "base/names.h"
#include "base/record.h"

namespace flyball {

enum class Interface { kServer, kAgent };
template <>
inline constexpr auto kNamesOf<Interface> = name_list("server", "agent");

// Returns the messages in the order of their document. The descriptions live as long as the process.
[[nodiscard]] const std::vector<const RecordDescription*>& messages_of(Interface interface);

// Returns the schemas in YAML, indented by four, as they stand under components/schemas in the interface's OpenAPI
// document: docs/openapi.yaml and docs/openapi-agent.yaml end with this text.
[[nodiscard]] std::string openapi_schemas(Interface interface, const KnownNames& known);

}  // namespace flyball
