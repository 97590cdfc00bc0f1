// A stage that has reported nothing has no times. A stage that reports a step again replaces what it had said.
#include "server/incomplete_steps.h"

#include <algorithm>
#include <utility>

namespace flyball {
namespace {

constexpr std::size_t kMostSteps = 16;  // that wait for a stage; beyond that the oldest is dropped

}  // namespace

std::optional<IncompleteSteps::Stages> IncompleteSteps::add(const StepReport& report, std::size_t stage,
                                                            std::size_t stages) {
  Stages& all = steps_[report.step];
  all.resize(stages);
  all[stage].clear();
  for (std::size_t i = 0; i < report.begin.size(); ++i) {
    all[stage].push_back({to_nanoseconds(report.begin[i]), to_nanoseconds(report.end[i])});
  }
  if (std::none_of(all.begin(), all.end(), [](const auto& times) { return times.empty(); })) {
    Stages complete = std::move(all);
    steps_.erase(steps_.begin(), steps_.upper_bound(report.step));
    return complete;
  }
  if (steps_.size() > kMostSteps) steps_.erase(steps_.begin());
  return std::nullopt;
}

}  // namespace flyball
