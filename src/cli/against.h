// What `flyball emulate --against RUNS` prints: recorded points replayed, predicted beside measured.
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"
#include "replay/judged_runs.h"

namespace flyball {

[[nodiscard]] std::string against_text(const Judgement& judgement);
[[nodiscard]] std::string against_json(const Judgement& judgement);

// Adds the option that says how the stages of recorded runs lie on machines.
void add_stages_per_node(const Command& command, std::optional<int>& stages);

}  // namespace flyball
