// `flyball emulate --against RUNS`: recorded points replayed, predicted beside measured.
#pragma once

#include <optional>
#include <string>

#include "pipeline/schedule.h"

namespace flyball {

struct AgainstRequest {
  std::string runs;                      // a folder, docs/formats/runs.md
  std::optional<std::string> fitted_to;  // another one; without it every other point of `runs`
  ScheduleKind schedule = ScheduleKind::k1f1b;
};

// What is to be printed. Throws what reading and fitting throw.
[[nodiscard]] std::string against_text(const AgainstRequest& request);
[[nodiscard]] std::string against_json(const AgainstRequest& request);

}  // namespace flyball
