// Collects the iterations that a job's ranks have run and report, until one is complete.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/executed_step.h"
#include "server/incomplete_steps.h"
#include "server/job.h"
#include "wire/job_messages.h"

namespace flyball {

// The steps of one job. Only the reports of one pipeline count, those of the first ranks of data and tensor
// parallelism. A few incomplete steps are remembered at most. Not thread-safe.
class ExecutedSteps {
 public:
  // Returns, by stage, the times of the step that this report completes; none where stages are missing, where this
  // rank's reports do not count, or where the plan in force needs no steps of that version. Throws HttpError: 409 where
  // the rank has not registered, 400 where the report does not fit its schedule.
  [[nodiscard]] std::optional<std::vector<std::vector<MeasuredTimes>>> add(Job& job, const StepReport& report);

 private:
  std::int64_t version_ = 0;
  IncompleteSteps steps_;
};

}  // namespace flyball
