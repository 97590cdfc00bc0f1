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
  // A stage's clock may have any origin: from its first computation on, sums of times of all stages fit 64 bits.
  const Nanoseconds origin = report.begin.empty() ? 0 : to_nanoseconds(report.begin.front());
  for (std::size_t i = 0; i < report.begin.size(); ++i) {
    all[stage].push_back({to_nanoseconds(report.begin[i]) - origin, to_nanoseconds(report.end[i]) - origin});
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
