// How long the stages of a job take to get their input from one another, found from the iterations of a sweep.
//
// A framework waits for another stage and for the data in one call, so that no hook of a single rank can tell the
// transfer from the wait. All ranks together can: from when the input had been computed and the stage was free until
// the computation began, only the transfer passes, and what the engine does around it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "pipeline/computation_dag.h"
#include "server/incomplete_steps.h"
#include "server/job.h"
#include "wire/job_messages.h"
#include "wire/step_messages.h"

namespace flyball {

// The handovers of one job. Only the reports of its first pipeline count, but every rank is answered. Reports that do
// not fit the job's schedule, or tell of another order, are passed over. A few incomplete steps are remembered at most.
// Not thread-safe. Cost of a step: linear in the pipeline's computations.
class Handovers {
 public:
  // Returns what is known of the handovers to the rank's stage. Throws HttpError 409 where the rank has not registered.
  [[nodiscard]] StepTaken add(const Job& job, const StepReport& report);

  // Forgets what was found: another sweep begins.
  void begin_anew();

 private:
  struct Found {
    std::vector<Seconds> of_step;  // the mean of each step
    std::int64_t count = 0;        // of handovers
  };

  void join(const IncompleteSteps::Stages& stages);

  std::optional<ComputationDag> dag_;  // of the job's schedule, without a profile
  IncompleteSteps steps_;
  std::vector<std::array<Found, 2>> found_;  // by stage, of forwards and of backwards
};

}  // namespace flyball
