// Lines such as "n1 https://n1:4938".
#include "client/agent_addresses.h"

#include <string_view>

#include "base/error.h"
#include "base/text.h"

namespace flyball {

std::map<std::string, std::string> read_agent_addresses(const std::string& path) {
  std::map<std::string, std::string> addresses;
  const std::string text = read_text_file(path);
  std::size_t number = 0;
  for (const std::string_view whole : split_at('\n', text)) {
    ++number;
    const std::string_view line = trim(whole.substr(0, whole.find('#')));
    if (line.empty()) continue;
    const std::size_t blank = line.find_first_of(" \t");
    const std::string_view address = blank == std::string_view::npos ? "" : trim(line.substr(blank));
    if (address.empty() || address.find_first_of(" \t") != std::string_view::npos) {
      throw InputError({path, number}, "expected a node and its agent's address", "write n1 https://n1:4938");
    }
    addresses[std::string(line.substr(0, blank))] = address;
  }
  return addresses;
}

}  // namespace flyball
