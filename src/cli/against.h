// `flyball emulate --against RUNS`: recorded points replayed, predicted beside measured.
#pragma once

#include <optional>
#include <string>

#include "pipeline/schedule.h"

namespace flyball {

struct AgainstRequest {
  std::string runs;                      // a folder, docs/formats/runs.md
  std::optional<std::string> fitted_to;  // another folder; none: one half of `runs`, for the other half
  ScheduleKind schedule = ScheduleKind::k1f1b;
};

// Both functions return what is to be printed, and throw what reading and fitting throw.
[[nodiscard]] std::string against_text(const AgainstRequest& request);
[[nodiscard]] std::string against_json(const AgainstRequest& request);

}  // namespace flyball
