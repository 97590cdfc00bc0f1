// Where the agents of several nodes are, as a file tells it.
#pragma once

#include <map>
#include <string>

namespace flyball {

// Reads lines of a node's name and its agent's address, separated by blanks; '#' begins a comment. Throws SystemError,
// and InputError with the line that is wrong.
[[nodiscard]] std::map<std::string, std::string> read_agent_addresses(const std::string& path);

}  // namespace flyball
