// The descriptions. A report's times must be in order, so that whoever reads it need not look.
#include "wire/step_messages.h"

#include <fmt/format.h>

#include <tuple>

#include "base/record.h"
#include "wire/job_messages.h"

namespace flyball {

Record<StepReport> description_of(const StepReport* /*type*/) {
  using R = StepReport;
  return Record<R>::request("StepReport")
      .field("rank", &R::rank, "Number of the rank that ran the iteration.",
             {.needed = true, .minimum = 0, .maximum = kMostRanks - 1})
      .field("version", &R::version,
             "Version of the schedule by which the rank ran the iteration. 0: an iteration of a sweep, in the order of "
             "the job's schedule.",
             {.needed = true, .minimum = 0})
      .field("step", &R::step, "Number of the iteration, counted in the same way on all ranks.",
             {.needed = true, .minimum = 0})
      .field("begin_s", &R::begin,
             "For each computation, in the schedule's order: when it had its input and the GPU, in seconds since a "
             "moment that the rank chooses.",
             {.needed = true, .minimum = -1e9, .maximum = 1e9, .most = kMostStepTimes})
      .field("end_s", &R::end,
             "For each computation, in the schedule's order: when it was done, in seconds since the same moment.",
             {.needed = true, .minimum = -1e9, .maximum = 1e9, .most = kMostStepTimes})
      .field(
          "clock", &R::clock,
          "How the rank knows the times. `host`: its process then called begin and end, which are the GPU's times only "
          "if it waits there for the GPU. `device`: the GPU came to these places of its stream.",
          {.left_out = true})
      .check([](const JsonObject& object, R& report) {
        const auto& [begin, end] = std::tie(report.begin, report.end);
        if (begin.size() != end.size()) {
          object.refuse("end_s", fmt::format("has {} entries, begin_s {}", end.size(), begin.size()),
                        "give one of each for every computation");
        }
        for (std::size_t i = 0; i < begin.size(); ++i) {
          if (begin[i] > end[i] || (i > 0 && begin[i] < end[i - 1])) {
            object.refuse(fmt::format("begin_s[{}]", i), "is out of order",
                          "a stage runs one computation after the other");
          }
        }
        if (!begin.empty() && end.back() - begin.front() > kLongestStep) {
          object.refuse("end_s", fmt::format("has an iteration of more than {} s", kLongestStep.value()),
                        "give times of one iteration, by one clock");
        }
      });
}

Record<StepTaken> description_of(const StepTaken* /*type*/) {
  using R = StepTaken;
  return Record<R>::answer("StepTaken", "the server's answer",
                           "What iterations of sweeps have shown of how long the rank's stage takes to get its input "
                           "from another stage, from when both were free.")
      .field("receive_s", &R::receive, "Usual time before a forward.")
      .field("receives", &R::receives, "Number of forwards that it was found from. 0: it is not known.")
      .field("receive_back_s", &R::receive_back, "Usual time before a backward.")
      .field("receives_back", &R::receives_back, "Number of backwards that it was found from. 0: it is not known.");
}

}  // namespace flyball
