// The plans of several planners for one pipeline, as the data of a page: web/plan_set.js reads them, runs any of them
// through a timeline of its own, and draws it.
//
// A plan file (plan/plan_file.h) is for programs and holds every plan of one planner. This text is for people's
// browsers: it has one character for each column of an operation and for the option that a plan gives it, and holds as
// many plans as a page has room for. The options of operations of one type stand side by side, and repeat themselves,
// so that the text can be packed to a small part of its length. docs/openapi.yaml says what its members are (POST
// /v1/what-if). Units are seconds, nanoseconds, joules, watts and megahertz.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "pipeline/computation_dag.h"
#include "pipeline/timeline.h"
#include "plan/frontier.h"

namespace flyball {

// A planner's frontier. What it points at must outlive the call.
struct PlanSetCurve {
  std::string planner;
  const ComputationDag* dag = nullptr;  // the frontier's; of the same operation types for all curves of a set
  const Frontier* frontier = nullptr;
  std::optional<std::size_t> selected;  // the point that is proposed
};

// One iteration as it is run, which may take other times than the plan's options say, since clocks change late.
struct PlanSetIteration {
  std::string name;  // "all-maximum clocks"
  Joules energy;     // without waiting for a straggler
  Joules straggler_wait;
  const ComputationDag* dag = nullptr;
  const ClockPlan* plan = nullptr;
  std::span<const Nanoseconds> durations;  // one per operation
};

struct PlanSet {
  std::vector<Watts> blocking;               // one per stage
  std::vector<PlanSetCurve> curves;          // the first is the one that a page shows at first
  std::vector<std::string> not_planned;      // planners that have no curve, since time was over
  std::vector<PlanSetIteration> iterations;  // the first is what plans are compared with
  Nanoseconds straggler_time = 0;            // until which each plan waits; 0: there is none
};

// Returns the set as JSON. Of each curve it holds the points that are worth choosing (worthwhile_points()), thinned out
// evenly over time but for the first, the last and the selected one, so that all plans together have about
// `most_options` operations, and no curve more points than another that has as many. Deterministic. Cost: linear in the
// operations of all points.
// The set must have a curve or an iteration, and frontiers must not be empty. Thread-safe.
[[nodiscard]] std::string plan_set_json(const PlanSet& set, std::size_t most_options);

}  // namespace flyball
