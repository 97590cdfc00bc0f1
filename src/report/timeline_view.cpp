// Makes the timelines of a page: the plans as data, which the page's scripts draw.
#include <fmt/format.h>

#include <utility>

#include "draw/html_page.h"
#include "draw/svg_canvas.h"
#include "plan/plan_set.h"
#include "report/timeline_picture.h"

namespace flyball {
namespace {

// A page has room for so many operations of all plans together: some 100 kB.
constexpr std::size_t kMostPlanned = 80'000;

PlanSetIteration iteration_of(const RealisedPlan& plan) {
  return {
      plan.name,     plan.energy.computation + plan.energy.blocking, plan.energy.straggler_wait, plan.dag, &plan.plan,
      plan.durations};
}

}  // namespace

std::string timeline_view(const ReportInput& input) {
  PlanSet set;
  set.blocking = input.problem->blocking;
  if (input.t_straggler) set.straggler_time = to_nanoseconds(*input.t_straggler);
  set.iterations = {iteration_of(input.baseline), iteration_of(input.chosen)};
  for (const PlannerCurve& curve : input.planners) {
    if (curve.frontier == nullptr || curve.frontier->empty()) continue;
    set.curves.push_back({curve.name, curve.dag, curve.frontier, curve.selected});
  }
  return fmt::format(
      "<plan-timeline data-waiting=\"{}\">\n<div class=\"shown\"><p class=\"note\">The timelines need JavaScript; the "
      "picture timeline.svg does not.</p></div>\n<script type=\"application/json\">{}</script>\n</plan-timeline>\n",
      escape_markup(blocking_label(*input.problem)), script_json(plan_set_json(set, kMostPlanned)));
}

}  // namespace flyball
