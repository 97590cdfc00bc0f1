// Names are appended under a mutex, and the count is published last, so that finders need no lock.
#include "client/instruction_types.h"

#include <fmt/format.h>

#include "base/error.h"

namespace flyball {

std::uint16_t InstructionTypes::number_of(std::string_view name) {
  if (const auto type = find(name)) return *type;
  if (name.empty() || name.size() > kLongestInstructionName) {
    throw UsageError(fmt::format("an instruction's name has 1 to {} bytes, as \"forward\" does; got {}",
                                 kLongestInstructionName, name.size()));
  }
  const std::scoped_lock lock(adding_);
  if (const auto type = find(name)) return *type;
  const std::size_t type = count_.load();
  if (type == kMostInstructionTypes) {
    throw UsageError(fmt::format("more than {} instruction types; name them by what they do, not by microbatch",
                                 kMostInstructionTypes));
  }
  names_[type] = name;
  count_.store(type + 1, std::memory_order_release);
  return static_cast<std::uint16_t>(type);
}

}  // namespace flyball
