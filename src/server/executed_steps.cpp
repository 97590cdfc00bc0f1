// Steps are kept by number until every stage of the first pipeline has reported one; at most 16 wait, and the oldest
// goes. A new version of the schedule forgets them all.
#include "server/executed_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "net/http.h"

namespace flyball {
namespace {

constexpr std::size_t kMostSteps = 16;  // that wait for a stage; beyond that the oldest is dropped

}  // namespace

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
  auto& stages = steps_[report.step];
  stages.resize(static_cast<std::size_t>(job.request().stages));
  stages[stage].clear();
  for (std::size_t i = 0; i < expected; ++i) {
    stages[stage].push_back({to_nanoseconds(report.begin[i]), to_nanoseconds(report.end[i])});
  }
  if (std::all_of(stages.begin(), stages.end(), [](const auto& times) { return !times.empty(); })) {
    auto complete = std::move(stages);
    steps_.clear();
    return complete;
  }
  if (steps_.size() > kMostSteps) steps_.erase(steps_.begin());
  return std::nullopt;
}

}  // namespace flyball
