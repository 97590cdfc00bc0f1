// The report of a plan: pictures of the timeline before and after, of every planner's frontier and of the cost curves,
// and one HTML file that holds all of these with their tables.
//
// Output is self-contained (no network, no fonts, no dates) and deterministic: the same input gives the same bytes.
// Pictures follow the reader's light or dark setting. All functions are thread-safe, since no state is kept.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "draw/svg_canvas.h"
#include "pipeline/computation_dag.h"
#include "pipeline/power_curve.h"
#include "pipeline/timeline.h"
#include "plan/frontier.h"
#include "plan/planner.h"

namespace flyball {

// A plan with its timeline and energy on the DAG for which it was made (a planner may have changed the order of
// operations). The DAG is not owned and must outlive the plan.
struct RealisedPlan {
  std::string name;  // "all-maximum clocks", "perseus"
  const ComputationDag* dag = nullptr;
  ClockPlan plan;
  std::vector<Nanoseconds> durations;  // one per operation
  Nanoseconds makespan = 0;
  EnergyBreakdown energy;  // of one pipeline and iteration, waiting for a straggler included
};

// Emulates a plan whose clock changes are free. Where they are not free, fill the fields from emulate_switching()
// (pipeline/late_clocks.h) instead.
[[nodiscard]] RealisedPlan realise_plan(std::string name, const ComputationDag& dag, ClockPlan plan,
                                        std::span<const Watts> blocking, Nanoseconds straggler_time = 0);

struct PlannerCurve {
  std::string name;
  const ComputationDag* dag = nullptr;  // the frontier's; not owned, as is the next
  const Frontier* frontier = nullptr;   // empty frontiers are left out
  std::optional<std::size_t> selected;  // the point that the planner proposes, marked in the picture
};

struct BoundPoint {
  Seconds time;
  Joules energy;  // the least total energy of any plan that ends by `time`, blocking included
};

// The power of all GPUs of the job under both plans, and the limit on its peak.
struct JobPower {
  PowerCurve baseline;
  PowerCurve chosen;
  std::optional<Watts> limit;
  int copies = 1;  // GPUs on each stage of the job, all pipelines together
};

struct SummaryRow {
  std::string label;
  std::string value;
  std::string unit;  // may be empty
};

// All that the pictures and tables show. What its pointers refer to must outlive it.
struct ReportInput {
  std::string title;                     // "GPT-3 1.3B on A100: 4 stages, 128 microbatches, 1F1B"
  const PlanProblem* problem = nullptr;  // the cost curves are drawn from its DAG and choices
  RealisedPlan baseline;                 // all-maximum clocks
  RealisedPlan chosen;
  std::vector<PlannerCurve> planners;   // the first is the chosen plan's planner; its frontier fills the table
  std::vector<BoundPoint> lower_bound;  // in rising time; may be empty
  Seconds t_min;
  Seconds t_star;                        // the time of least energy when waiting is paid anyway
  std::optional<Seconds> t_least_total;  // least total energy, blocking included, without straggler
  std::optional<Seconds> t_straggler;    // T'
  bool slower_is_dearer = false;         // whether slower plans would be allowed, but take more energy
  std::optional<JobPower> power;         // none where it is not known
  std::vector<SummaryRow> summary;       // further facts: solver, gap, counts
  std::vector<std::string> commands;     // the commands that made this report
};

// The next five functions draw pictures for the page and for files of their own. `width` is in pixels, at least 320.
//
// Draws the timelines before and after on one scale: a row per stage, operations coloured by mean power. A long
// iteration is drawn as its start, a part of its steady state and its end.
[[nodiscard]] SvgCanvas timeline_picture(const ReportInput& input, int width = 1200);
// Draws energy over time: every planner, the lower bound, T_min, T*, T', the least total energy, baseline and choice.
[[nodiscard]] SvgCanvas frontier_picture(const ReportInput& input, int width = 900);
// Draws the power of the job over one iteration, before and after. `input.power` must be there.
[[nodiscard]] SvgCanvas job_power_picture(const ReportInput& input, int width = 1000);
// Draws what every stage runs, and how many microbatches' activations it holds meanwhile, before and after. The stages'
// orders must be known (plan/stage_orders.h).
[[nodiscard]] SvgCanvas in_flight_picture(const ReportInput& input, int width = 1000);
// Draws the measured options per stage and instruction, the Pareto-optimal ones filled, and the curve that the planner
// uses.
[[nodiscard]] SvgCanvas cost_curve_picture(const ReportInput& input, int width = 1000);

struct PictureFile {
  std::string name;  // "timeline.svg"
  std::string what;  // a description for people
  std::string svg;
};

// Returns the pictures that stand beside the report as files of their own.
[[nodiscard]] std::vector<PictureFile> picture_files(const ReportInput& input);

// Returns the whole report as one HTML file.
[[nodiscard]] std::string html_report(const ReportInput& input);

}  // namespace flyball
