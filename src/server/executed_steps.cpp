// Steps are kept until every stage of the first pipeline has reported one. A new version of the schedule forgets them
// all.
#include "server/executed_steps.h"

#include <fmt/format.h>

#include <utility>

#include "net/http.h"

namespace flyball {
std::optional<CompleteStep> ExecutedSteps::add(const Job& job, const StepReport& report) {
  const RankRequest& rank = job.registered_rank(report.rank).request;
  if (!job.current() || report.version != job.current()->version) return std::nullopt;
  const Deployment::Pipeline& first = job.current()->pipelines.front();
  if (!job.current()->plan->wants_steps() && first.texts->measured_every == 0) return std::nullopt;
  const auto stage = static_cast<std::size_t>(rank.pp_rank);
  const std::size_t expected = job.current()->plan->of_pipeline(rank.dp_rank).computations_of_stage(rank.pp_rank);
  if (report.begin.size() != expected) {
    throw HttpError(400, fmt::format("begin_s has {} entries, but stage {} runs {} computations", report.begin.size(),
                                     stage, expected));
  }
  if (rank.dp_rank != 0 || rank.tp_rank != 0) return std::nullopt;
  if (std::exchange(version_, report.version) != report.version) steps_.clear();
  clocks_.resize(static_cast<std::size_t>(job.request().stages));
  clocks_[stage] = report.clock;
  auto complete = steps_.add(report, stage, clocks_.size());
  if (!complete) return std::nullopt;
  steps_.clear();
  return CompleteStep{report.step, std::move(*complete), clocks_};
}

}  // namespace flyball
