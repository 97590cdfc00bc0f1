// The public C++ interface of the planners: from the measured profile of a pipeline-parallel training job to the
// time-energy frontier of its iteration, with a clock for every computation. Link libflyball-cpp; open this header
// first.
//
//   flyball::PlanRequest request;
//   request.profile_csv = text_of("profile.csv");
//   request.microbatches = 128;
//   const flyball::PlannedFrontier frontier = flyball::plan_pipeline(request);
//   const auto clocks = frontier.clocks(frontier.point_for(1.2 * frontier.t_min_s()));
//
// Units. Names end with their unit: seconds (_s), joules (_j), watts (_w), megahertz (_mhz). Energies are those of one
// iteration of one pipeline with one GPU per stage, blocking included, without a straggler (Perseus eq. 3 with T' = T).
// With P GPUs per stage and D pipelines, multiply by P and D.
// Errors. Functions throw std::runtime_error, whose what() says what is wrong, where (file:line:column) and how to mend
// it, and std::out_of_range for a point that is not there. Times that are asked for may be infinite, but not NaN. After
// an error nothing is held and nothing was written.
// Ownership. Everything is a value.
// Threads. plan_pipeline() may run in several threads at once; a PlannedFrontier is immutable and may be shared.
// Source. Perseus, SOSP'24; EnvPipe, ATC'23.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace flyball {

// What to plan. Every field but the profile and the microbatches has the default of `flyball plan`.
struct PlanRequest {
  // Text of a profile: CSV stage,instruction,frequency,time,energy (stage from 0, MHz, s, J); other columns are labels.
  std::string profile_csv;
  // The name of the profile in error messages, in place of a file name.
  std::string profile_name = "profile";
  // The number of microbatches of an iteration; 1 or above.
  int microbatches = 0;
  // One of gpipe, 1f1b, interleaved-1f1b, early-recompute-1f1b, zb-h1.
  std::string schedule = "1f1b";
  // Model chunks per stage; above 1 with interleaved-1f1b only.
  int chunks = 1;
  // The share of a backward's time and energy that its weight gradient takes, between 0 and 1, where backwards run in
  // two parts (1f1b, zb-h1) and the profile has whole ones. 0 states none; zb-h1 then needs a profile of the parts.
  double split_backward = 0.0;
  // The draw of a GPU that waits, 0 to 1e6: one number, or one per stage. If empty, it is taken from the rows `waiting`
  // of the profile, or is 75 where there are none.
  std::vector<double> blocking_power_w;
  // How many microbatches' activations fit into a stage's memory: one number, or one per stage; empty for no limit.
  // Planners that change the order of operations (joint, envpipe) keep to it. With 1f1b, a limit below what the
  // schedule itself holds is refused.
  std::vector<int> memory_limit = {};
  // perseus, or another planner that `flyball plan --help` lists.
  std::string planner = "perseus";
  // The cost curve that guides Perseus: hull, the lower convex hull of the measurements, or exponential, the curve that
  // the paper fits (section 4.1).
  std::string cost_model = "hull";
  // The spacing of the frontier's points, which must be no longer than the shortest computation. 0 states none: a
  // millisecond, less where computations are shorter, and more where that changes energy by less than 0.005 %.
  double unit_time_s = 0.0;
  // Iteration times that will be asked for, above all a straggler's: planners work harder on the plans for these times.
  // None may be NaN.
  std::vector<double> wanted_times_s;
  // The difference that the meter cannot tell, as a share of a computation's energy, from 0 to below 1. A slower clock
  // is used only if it saves more than this. Lower bounds hold for all measured clocks, whatever the noise.
  double noise = 0.0;
};

// One plan of the frontier.
struct TradeOff {
  double time_s = 0.0;         // iteration time when the plan is replayed with the measured clocks
  double energy_j = 0.0;       // sum of measured energies, not of fitted ones
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
  // What the option chooses besides its clock, name and value, in the order of the profile's columns.
  std::vector<std::pair<std::string, std::string>> labels{};
};

// A frontier, with a plan for every point. From point to point, time rises and energy net of blocking falls. Copies
// share one state.
class PlannedFrontier {
 public:
  // The points, of which there is at least one.
  [[nodiscard]] const std::vector<TradeOff>& points() const;
  [[nodiscard]] std::size_t size() const { return points().size(); }
  [[nodiscard]] int stages() const;

  // The iteration time with every computation at its fastest clock.
  [[nodiscard]] double t_min_s() const;
  // All computations at their highest clock, as they run without a plan. The lower bound is NaN.
  [[nodiscard]] TradeOff baseline() const;

  // Returns the point for a pipeline that waits for others until `deadline_s`, a straggler's iteration time, anyway:
  // the slowest point that ends by then, T_opt = min(T*, T') (Perseus eq. 2), or the fastest (0) when none does. Takes
  // microseconds.
  [[nodiscard]] std::size_t point_for(double deadline_s) const;
  // Returns the point for a pipeline that waits for no other one: of the points that end by `deadline_s` the one of
  // least total energy, or the fastest (0) when none does. Slower points than least_total() take more energy.
  [[nodiscard]] std::size_t cheapest_by(double deadline_s) const;
  // Returns the point of least total energy, for a pipeline that nobody waits for.
  [[nodiscard]] std::size_t least_total() const;
  // Returns the energy that a point takes while a straggler's iteration lasts `straggler_time_s`. Waiting for the
  // straggler is charged as blocking, at the clocks that the stages then keep.
  [[nodiscard]] double energy_with_straggler_j(std::size_t point, double straggler_time_s) const;

  // Returns, for each stage, its computations in the order in which it runs them. Linear in the computations.
  [[nodiscard]] std::vector<std::vector<ComputationClock>> clocks(std::size_t point) const;
  // Returns the clock changes per iteration, over all stages; the change back to a stage's first clock is included.
  [[nodiscard]] int switches(std::size_t point) const;

  // Returns the plan file (docs/formats/plan.md) with all points, in which `selected` is marked as the point to run.
  [[nodiscard]] std::string plan_json(std::size_t selected) const;

 private:
  struct State;
  explicit PlannedFrontier(std::shared_ptr<const State> state);
  friend PlannedFrontier plan_pipeline(const PlanRequest& request, const std::function<bool(double)>& progress);

  std::shared_ptr<const State> state_;
};

// Plans one pipeline. This takes milliseconds to seconds (docs/performance.md). `progress`, where given, is called from
// the calling thread with the share done, in [0, 1]; when it returns false, planning stops with std::runtime_error.
[[nodiscard]] PlannedFrontier plan_pipeline(const PlanRequest& request,
                                            const std::function<bool(double)>& progress = nullptr);

// Returns the library's version, such as "0.1.0".
[[nodiscard]] std::string version();

}  // namespace flyball
