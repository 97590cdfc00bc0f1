// Iterations of which not all stages have reported yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "plan/executed_step.h"
#include "wire/step_messages.h"

namespace flyball {

// The newest sixteen at most. Not thread-safe.
class IncompleteSteps {
 public:
  using Stages = std::vector<std::vector<MeasuredTimes>>;  // what each stage measured

  // Takes what a stage of so many has measured. Returns the step if all have, and forgets it and those before it.
  [[nodiscard]] std::optional<Stages> add(const StepReport& report, std::size_t stage, std::size_t stages);
  void clear() { steps_.clear(); }

 private:
  std::map<std::int64_t, Stages> steps_;  // by number
};

}  // namespace flyball
