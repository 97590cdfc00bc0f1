// The parts of a planning, as planning.h and power_planning.h put it together: what is being done, whether to stop, and
// the two parts that both have.
#pragma once

#include <functional>
#include <string>

#include "plan/planner.h"
#include "plan/relaxation.h"

namespace flyball {

enum class PlanningWork {
  kPlanner,      // a planner plans
  kBound,        // a lower bound is computed; the share of it that is done is not known
  kPowerLimits,  // plans inside limits on power are looked for; neither is it
  kOrder,        // another order is looked at; neither is it
  kSwitching,    // plans with fewer clock changes are searched for
};

// A part of the work, one after the other.
struct PlanningPart {
  PlanningWork work = PlanningWork::kPlanner;
  std::string planner;
  double share = 1.0;  // of the options' range of powers that the planner is left with (capped_problem()); 1: all
};

// Called, on the planning thread, when a part begins; Progress then tells the share of that part. May be empty.
using PartBegins = std::function<void(const PlanningPart&)>;

// Hands on `progress` and remembers when it says no, so that whoever was stopped within a part begins no other one.
// Internal to plan/; what it was made with must outlive it. Not thread-safe.
class PlanningWatch {
 public:
  PlanningWatch(const Progress& progress, const PartBegins& begins) : progress_(progress), begins_(begins) {}

  // Begins a part and returns what to hand to it.
  [[nodiscard]] Progress begin(const PlanningPart& part) {
    if (begins_) begins_(part);
    return [this](double share) { return go_on(share); };
  }
  // A part of which the share is not known.
  [[nodiscard]] std::function<bool()> begin_unmeasured(PlanningWork work, const std::string& planner) {
    return [progress = begin({work, planner})] { return progress(0.0); };
  }
  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  bool go_on(double share) {
    stopped_ = stopped_ || (progress_ && !progress_(share));
    return !stopped_;
  }

  const Progress& progress_;
  const PartBegins& begins_;
  bool stopped_ = false;
};

// Returns the least energy of any plan that keeps the order of operations of `dag`, by time; of no use where the watch
// has stopped. Another order has another one.
[[nodiscard]] BoundCurve solve_bound(const PlanProblem& problem, const ComputationDag& dag, const std::string& planner,
                                     PlanningWatch& watch);

// Runs the planner and returns its frontier, which is empty only where the watch has stopped. Throws Error where the
// planner finds no plan. `share` is that of PlanningPart.
[[nodiscard]] PlannerResult run_planner(const PlanProblem& problem, const std::string& planner, PlanningWatch& watch,
                                        double share = 1.0);

}  // namespace flyball
