// What instructions are by their names.
#include "pipeline/instruction.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/own_name.h"

namespace flyball {

bool is_constant_operation(std::string_view instruction) {
  constexpr std::array kNames = {kP2pName,          kP2pBackName,       kReceiveName, kReceiveBackName, kDataLoadName,
                                 kGradientSyncName, kOptimizerStepName, kWaitingName, kClockChangeName};
  return std::find(kNames.begin(), kNames.end(), instruction) != kNames.end();
}

std::string_view announced_name(std::string_view instruction) { return without_chunk(common_name(instruction)); }

bool is_forward(std::string_view instruction) {
  return announced_name(instruction) == instruction_name(InstructionKind::kForward);
}

std::string instruction_letters(std::string_view instruction) {
  std::string letters;
  bool word_start = true;
  for (const char c : instruction) {
    if (word_start) letters += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    word_start = c == '_';
  }
  return letters;
}

std::string name_of_chunk(std::string_view instruction, int chunk) {
  return chunk == 0 ? std::string(instruction) : fmt::format("{}.{}", instruction, chunk);
}

}  // namespace flyball
