// The time-energy frontier of a pipeline-parallel training iteration, from a measured profile to a clock for every
// computation: the public C++ interface. Link flyball_api; open this header first.
//
//   flyball::PlanRequest request;
//   request.profile_csv = text_of("profile.csv");
//   request.microbatches = 128;
//   const flyball::PlannedFrontier frontier = flyball::plan_pipeline(request);
//   const auto clocks = frontier.clocks(frontier.point_for(1.2 * frontier.t_min_s()));
//
// Units stand in the names: seconds (_s), joules (_j), watts (_w), megahertz (_mhz). Energies are of one iteration of
// one pipeline with one GPU per stage, blocking included, without straggler (Perseus eq. 3 with T' = T). With P GPUs
// per stage and D pipelines, multiply by P and D.
//
// Errors: std::runtime_error whose what() says what is wrong, where (file:line:column) and how to mend it;
// std::out_of_range for a point that is not there. Times that are asked for may be infinite, but not NaN. After an
// error nothing is held and nothing was written. Ownership: everything is a value. Threads: plan_pipeline() may run in
// several threads at once; a PlannedFrontier is immutable and may be shared. Source: Perseus, SOSP'24; EnvPipe, ATC'23.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace flyball {

// What is to be planned. Every field but the profile and the microbatches has the default of `flyball plan`.
struct PlanRequest {
  // Text of a profile: CSV stage,instruction,frequency,time,energy (stage from 0, MHz, s, J).
  std::string profile_csv;
  // Stands in error messages in place of a file name.
  std::string profile_name = "profile";
  int microbatches = 0;
  // gpipe, 1f1b, interleaved-1f1b, early-recompute-1f1b, zb-h1
  std::string schedule = "1f1b";
  // Model chunks per stage; above 1 with interleaved-1f1b only.
  int chunks = 1;
  // Draw of a GPU that waits, 0 to 1e6: one number, or one per stage. Empty: as the profile has it in its rows
  // `waiting`, else 75.
  std::vector<double> blocking_power_w;
  // Microbatches whose activations a stage can hold: one number, or one per stage; empty for no limit. EnvPipe moves
  // forwards of 1f1b no further; less than 1f1b itself holds is refused.
  std::vector<int> memory_limit = {};
  // perseus, or another of those that `flyball plan --help` lists
  std::string planner = "perseus";
  // hull: lower convex hull of the measurements. exponential: the curve that Perseus fits (section 4.1).
  std::string cost_model = "hull";
  // Spacing of the frontier's points; shorter than the shortest computation.
  double unit_time_s = 1e-3;
  // Iteration times that will be asked for, above all a straggler's: planners work harder on the plans there. No NaN.
  std::vector<double> wanted_times_s;
  // What a meter cannot tell apart, as a share of a computation's energy, from 0 to below 1: a slower clock must save
  // more than this. Lower bounds count the clocks that this drops, too.
  double noise = 0.0;
};

// One plan of the frontier.
struct TradeOff {
  double time_s = 0.0;         // iteration time when the plan is replayed with the measured clocks
  double energy_j = 0.0;       // measured, not fitted
  double lower_bound_j = 0.0;  // no plan that ends by time_s takes less; NaN where the planner has no bound
};

// One computation and its clock.
struct ComputationClock {
  std::string instruction;  // as in the profile
  int microbatch = 0;       // from 0; -1 for operations of the whole iteration
  int chunk = 0;
  double clock_mhz = 0.0;  // 0 for operations without a clock
  double time_s = 0.0;
  double energy_j = 0.0;
};

// A frontier in rising time and falling energy net of blocking, with a plan for every point. Copies share one state.
class PlannedFrontier {
 public:
  // Never empty.
  [[nodiscard]] const std::vector<TradeOff>& points() const;
  [[nodiscard]] std::size_t size() const { return points().size(); }
  [[nodiscard]] int stages() const;

  // Iteration time with every computation at its fastest.
  [[nodiscard]] double t_min_s() const;
  // All computations at their highest clock: what runs without a plan. Its bound is NaN.
  [[nodiscard]] TradeOff baseline() const;

  // For a pipeline that waits for others until `deadline_s` anyway, a straggler's iteration time: the slowest point
  // that ends by then, T_opt = min(T*, T') (Perseus eq. 2), or the fastest (0) when none does. Takes microseconds.
  [[nodiscard]] std::size_t point_for(double deadline_s) const;
  // For one that waits for nobody: of the points that end by `deadline_s` the one of least total energy, or the fastest
  // (0) when none does. Slower points than least_total() take more energy.
  [[nodiscard]] std::size_t cheapest_by(double deadline_s) const;
  // The point of least total energy, for a pipeline that nobody waits for.
  [[nodiscard]] std::size_t least_total() const;
  // What a point takes while a straggler's iteration lasts `straggler_time_s`: the wait is charged as blocking, at
  // the clocks that the stages then keep.
  [[nodiscard]] double energy_with_straggler_j(std::size_t point, double straggler_time_s) const;

  // Per stage its computations in the order in which it runs them. Linear in the computations.
  [[nodiscard]] std::vector<std::vector<ComputationClock>> clocks(std::size_t point) const;
  // Clock changes per iteration, over all stages, the one back to the first computation included.
  [[nodiscard]] int switches(std::size_t point) const;

  // The plan file (docs/formats/plan.md) with all points, `selected` marked.
  [[nodiscard]] std::string plan_json(std::size_t selected) const;

 private:
  struct State;
  explicit PlannedFrontier(std::shared_ptr<const State> state);
  friend PlannedFrontier plan_pipeline(const PlanRequest& request, const std::function<bool(double)>& progress);

  std::shared_ptr<const State> state_;
};

// Plans one pipeline; milliseconds to seconds, see docs/performance.md. `progress`, where given, is called from this
// thread with the share done in [0, 1]; when it returns false, planning stops with std::runtime_error.
[[nodiscard]] PlannedFrontier plan_pipeline(const PlanRequest& request,
                                            const std::function<bool(double)>& progress = nullptr);

// "0.1.0"
[[nodiscard]] std::string version();

}  // namespace flyball
