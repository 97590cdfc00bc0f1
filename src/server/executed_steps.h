// Iterations that a job's ranks have run and report, collected until one is complete.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "plan/executed_step.h"
#include "server/job.h"
#include "wire/job_messages.h"

namespace flyball {

// One job's. One pipeline speaks for all: the first ranks of data and tensor parallelism. Remembers a few steps at
// most.
class ExecutedSteps {
 public:
  // By stage, the times of the step that is complete with this report; nothing where stages are missing, where another
  // rank speaks for this one, or where the plan in force wants no steps of that version. Throws HttpError: 409 where
  // the rank has not registered, 400 where the report does not fit its schedule.
  [[nodiscard]] std::optional<std::vector<std::vector<MeasuredTimes>>> add(Job& job, const StepReport& report);

 private:
  std::int64_t version_ = 0;
  std::map<std::int64_t, std::vector<std::vector<MeasuredTimes>>> steps_;  // by number, then by stage
};

}  // namespace flyball
