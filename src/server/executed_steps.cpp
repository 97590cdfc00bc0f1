// Steps are kept until every stage of the first pipeline has reported one. A new version of the schedule forgets them
// all.
#include "server/executed_steps.h"

#include <fmt/format.h>

#include <utility>

#include "net/http.h"

namespace flyball {
std::optional<std::vector<std::vector<MeasuredTimes>>> ExecutedSteps::add(Job& job, const StepReport& report) {
  const RankRequest& rank = job.registered_rank(report.rank).request;
  const bool wanted = job.current() && job.current()->plan->wants_steps() && job.current()->plan == job.plan() &&
                      report.version == job.current()->version;
  if (!wanted) return std::nullopt;
  const auto stage = static_cast<std::size_t>(rank.pp_rank);
  const std::size_t expected = job.current()->plan->computations_of_stage(rank.pp_rank);
  if (report.begin.size() != expected) {
    throw HttpError(400, fmt::format("begin_s has {} entries, but stage {} runs {} computations", report.begin.size(),
                                     stage, expected));
  }
  if (rank.dp_rank != 0 || rank.tp_rank != 0) return std::nullopt;
  if (std::exchange(version_, report.version) != report.version) steps_.clear();
  auto complete = steps_.add(report, stage, static_cast<std::size_t>(job.request().stages));
  if (complete) steps_.clear();
  return complete;
}

}  // namespace flyball
