// Collects the iterations that a job's ranks have run and report, until one is complete.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/executed_step.h"
#include "server/incomplete_steps.h"
#include "server/job.h"
#include "wire/job_messages.h"
#include "wire/step_messages.h"

namespace flyball {

// A step of which all stages have reported.
struct CompleteStep {
  std::int64_t number = 0;
  std::vector<std::vector<MeasuredTimes>> stages;
  std::vector<StepClock> clocks;  // by which each stage tells its times
};

// The steps of one job. Only the reports of one pipeline count, those of the first ranks of data and tensor
// parallelism. A few incomplete steps are remembered at most. Not thread-safe.
class ExecutedSteps {
 public:
  // Returns the step that this report completes; none where stages are missing, where this rank's reports do not count,
  // or where nobody wants steps of that version. Throws HttpError: 409 where the rank has not registered, 400 where the
  // report does not fit its schedule.
  [[nodiscard]] std::optional<CompleteStep> add(const Job& job, const StepReport& report);

 private:
  std::int64_t version_ = 0;
  IncompleteSteps steps_;
  std::vector<StepClock> clocks_;  // by stage
};

}  // namespace flyball
