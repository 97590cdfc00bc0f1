// Chunk numbers are the digits behind the last dot of a name.
#include "pipeline/instruction.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/own_name.h"

namespace flyball {

bool is_constant_operation(std::string_view instruction) {
  constexpr std::array kNames = {kP2pName,          kP2pBackName,       kReceiveName, kReceiveBackName, kDataLoadName,
                                 kGradientSyncName, kOptimizerStepName, kWaitingName, kClockChangeName};
  return std::find(kNames.begin(), kNames.end(), instruction) != kNames.end();
}

std::string_view announced_name(std::string_view instruction) {
  instruction = common_name(instruction);
  const std::size_t dot = instruction.rfind('.');
  if (dot == std::string_view::npos || dot + 1 == instruction.size()) return instruction;
  for (const char c : instruction.substr(dot + 1)) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return instruction;
  }
  return instruction.substr(0, dot);
}

std::string name_of_chunk(std::string_view instruction, int chunk) {
  return chunk == 0 ? std::string(instruction) : fmt::format("{}.{}", instruction, chunk);
}

}  // namespace flyball
