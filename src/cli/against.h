// What `flyball emulate --against RUNS` prints: recorded points replayed, predicted beside measured.
#pragma once

#include <string>

#include "replay/judged_runs.h"

namespace flyball {

[[nodiscard]] std::string against_text(const Judgement& judgement);
[[nodiscard]] std::string against_json(const Judgement& judgement);

}  // namespace flyball
