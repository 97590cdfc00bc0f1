// A job's last iteration that was measured on all stages, beside what was planned.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "plan/executed_step.h"
#include "server/executed_steps.h"
#include "server/job.h"
#include "wire/iteration_messages.h"

namespace flyball {

// Keeps one iteration, of some 20 bytes for each operation, and the plan by which it ran, also when the job has a newer
// one; and once somebody has asked, what he was told. Not thread-safe.
class LastIteration {
 public:
  // Keeps the step of the deployment's first pipeline in place of the one before; nothing where that is too large, or
  // where the deployment's run is not known any more.
  void keep(const Deployment& deployment, CompleteStep step, Seconds now);

  // Returns it as a MeasuredIteration of that job in JSON; without one, why there is none. The first call after keep()
  // takes as long as a few emulations of the iteration.
  [[nodiscard]] std::shared_ptr<const std::string> text(const Job& job) const;

 private:
  struct Kept {
    std::shared_ptr<const JobPlan> plan;
    ClockPlan clocks;
    CompleteStep step;
    std::int64_t version = 0;
    Seconds promised;
    Seconds at;  // since 1970
  };
  [[nodiscard]] MeasuredIteration beside_plan() const;

  std::optional<Kept> kept_;
  mutable std::shared_ptr<const std::string> text_;  // null: not made yet
};

}  // namespace flyball
