// Plans a pipeline anew from the plan before, after the profile of some operations has changed a little.
//
// Perseus goes through every price of time, and rounds a point for each step of energy. If a stage's forward was
// measured again and takes 3 % more, little of this changes:
//   bound   A flow of the relaxation is one whatever the operations take, and by weak duality every flow gives a lower
//           bound (relaxation.h). Some flows of the last planning are kept, and evaluated with the new curves. Where
//           they are no longer the best ones, the bound is lower by the square of the change.
//   points  Every fifth plan is taken over: its gates (gates.h) are moved as far as the ends of the frontier, every
//           operation takes the slowest option that fits, and slack is filled. Plans that were asked for (the problem's
//           focus, or T_min) are searched further, with path searches, of which there are the fewer, the fewer points
//           planning from new makes, and a thirtieth of the random trials.
//   check   The distance of the new points from the new bound tells how much the short cuts cost at most. Where a plan
//           that was asked for seems too far from it, the relaxation is solved once more, with coarse prices, for a
//           bound that knows the new curves. Where that is too far as well, or the mean is, there is no result, and the
//           caller plans from new.
//
// Cost: about a twentieth of planning from new (docs/performance.md). The bound takes some 10 ns for each operation and
// kept flow, a point 20 ns for each operation, a plan that was asked for some 4 to 15 us, the relaxation with coarse
// prices a fortieth of planning from new (Bloom 176B), a twelfth of it at 16,000 operations.
#pragma once

#include <optional>
#include <vector>

#include "plan/planner.h"

namespace flyball {

// Flows of a relaxation, from T* to T_min.
struct KeptFlows {
  struct Flow {
    double price = 0.0;      // of an iteration's time, J/ns
    std::vector<double> on;  // by operation, J/ns
  };
  std::vector<Flow> flows;
};

// By how much energy may be above its lower bound, as a share of it: that of plans that were asked for, and in the mean
// over all times between T_min and T* that of the plan that is looked up. Planning from new saves no more than that.
inline constexpr double kMostLostAsked = 0.002;
inline constexpr double kMostLostInTheMean = 0.005;

// Returns the plans of `now`, or none where they would be worse than allowed, where the pipelines do not have the same
// operations in the same order, or where `planned` has no flows. `planned` is the result of Perseus for `before`, which
// said keep_flows. The result keeps no flows: the next change is planned from `planned`, too.
[[nodiscard]] std::optional<PlannerResult> replan(const PlanProblem& before, const PlannerResult& planned,
                                                  const PlanProblem& now);

}  // namespace flyball
