// A slow, literal reference of the published crawl: Phillips and Dessouky's minimum cuts with lower bounds, one unit of
// time per step (Perseus algorithms 1-3, appendix D), with Edmonds-Karp from scratch each time.
#pragma once

#include <span>
#include <vector>

#include "base/units.h"
#include "pipeline/computation_dag.h"
#include "profile/cost_curve.h"

namespace flyball::testing {

struct CrawlPoint {
  Nanoseconds time = 0;
  double net_joules = 0.0;
};

// The relaxed frontier at T*, T* - unit, ..., T_min. Exact when all vertices of the curves lie on multiples of `unit`.
[[nodiscard]] std::vector<CrawlPoint> crawl_by_unit_cuts(const ComputationDag& dag, std::span<const CostCurve> curves,
                                                         Nanoseconds unit);

}  // namespace flyball::testing
