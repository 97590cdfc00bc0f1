// The description of what a server is asked to plan without a job for it.
#include "wire/what_if_messages.h"

#include "wire/job_messages.h"

namespace flyball {

Record<WhatIfRequest> description_of(const WhatIfRequest* /*type*/) {
  using R = WhatIfRequest;
  return Record<R>::request("WhatIfRequest", "What is planned to be looked at; no rank runs it.")
      .field("job", &R::job,
             "A job, of which measurements and pipeline are taken. If it is missing, the profile says what was "
             "measured.",
             {.left_out = true, .longest = 128, .marks = "._+-"})
      .field("profile", &R::profile,
             "A profile as CSV text: columns stage, instruction, frequency (MHz), time (s) and energy (J).",
             {.left_out = true, .longest = kLongestProfile})
      .field("schedule", &R::schedule,
             "The order in which stages run their instructions. If it is missing, the job's, or 1f1b.",
             {.left_out = true, .known = "schedules"})
      .field("microbatches", &R::microbatches,
             "Number of microbatches of one pipeline in an iteration. A profile needs it; a job's are taken otherwise.",
             {.left_out = true, .minimum = 1, .maximum = kMostMicrobatches})
      .field("chunks", &R::chunks, "Number of model chunks of a stage. If it is missing, the job's, or 1.",
             {.left_out = true, .minimum = 1, .maximum = kMostChunks})
      .field("blocking_power_w", &R::blocking_power,
             "Blocking power: what a GPU draws while it waits for others, in watts; one number for all stages, or one "
             "per stage. If it is missing, the job's, or as measured, or 75 W.",
             {.left_out = true, .minimum = 0, .maximum = 1e6, .fewest = 1, .single = true})
      .field("planner", &R::planner, "The planner whose frontier is made, or all. If it is missing, perseus.",
             {.left_out = true, .longest = 64})
      .check([](const JsonObject& object, R& request) {
        if (request.job.empty() == request.profile.empty()) {
          object.refuse("profile", "must be given, or else a job", "give one of the two");
        }
        if (request.job.empty() && request.microbatches == 0) {
          object.refuse("microbatches", "is missing", "say how many microbatches an iteration has");
        }
      });
}

}  // namespace flyball
