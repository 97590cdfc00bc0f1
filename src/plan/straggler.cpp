// Computes the energies of Perseus eq. 3 for one pipeline and for a whole job.
#include "plan/straggler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/error.h"

namespace flyball {

Joules energy_with_straggler(const FrontierPoint& point, Watts total_blocking, Nanoseconds straggler_time) {
  const Nanoseconds wait = std::max<Nanoseconds>(0, straggler_time - point.time);
  return Joules(point.net_joules) + total_blocking * to_seconds(point.time + wait) +
         point.waiting_above * to_seconds(wait);
}

BloatBreakdown break_down_bloat(const Frontier& frontier, const FrontierPoint& baseline, double degree) {
  assert(!frontier.empty());
  if (!std::isfinite(degree) || degree < 1.0) {
    throw UsageError(fmt::format("the straggler's slowdown is {}, it must be at least 1 (--straggler 1.2)", degree));
  }
  const Watts blocking = frontier.total_blocking();
  BloatBreakdown bloat;
  bloat.straggler_time = std::llround(degree * static_cast<double>(baseline.time));
  bloat.point = frontier.lookup(bloat.straggler_time);
  bloat.baseline = energy_with_straggler(baseline, blocking, bloat.straggler_time);
  const std::size_t as_fast = frontier.lookup(baseline.time);
  const Joules fastest = energy_with_straggler(frontier.points()[as_fast], blocking, bloat.straggler_time);
  const Joules chosen = energy_with_straggler(frontier.points()[bloat.point], blocking, bloat.straggler_time);
  bloat.intrinsic = bloat.baseline - fastest;
  bloat.extrinsic = fastest - chosen;
  return bloat;
}

JobEmulation emulate_job(const Frontier& frontier, const FrontierPoint& baseline, int stages, JobShape shape,
                         double degree) {
  if (stages < 1 || shape.pipelines < 1 || shape.tensor_parallel < 1) {
    throw UsageError(
        fmt::format("a job of {} pipelines with {} stages of {} tensor-parallel ranks; each must be at least 1",
                    shape.pipelines, stages, shape.tensor_parallel));
  }
  JobEmulation job;
  job.pipeline = break_down_bloat(frontier, baseline, degree);
  job.gpus = static_cast<long>(stages) * shape.pipelines * shape.tensor_parallel;
  job.planned_pipelines = degree > 1.0 ? shape.pipelines - 1 : shape.pipelines;
  const auto ranks = static_cast<double>(shape.tensor_parallel);
  job.baseline = shape.pipelines * ranks * job.pipeline.baseline;
  job.intrinsic = job.planned_pipelines * ranks * job.pipeline.intrinsic;
  job.extrinsic = job.planned_pipelines * ranks * job.pipeline.extrinsic;
  return job;
}

}  // namespace flyball
