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

PlanSetIteration iteration_of(const RealisedPlan& plan, const RealisedPlan* than) {
  return {plan_heading(plan, than), plan.energy.computation + plan.energy.blocking, plan.dag, &plan.plan,
          plan.durations};
}

}  // namespace

std::string timeline_view(const ReportInput& input) {
  PlanSet set{input.problem->blocking, {}, {}};
  set.iterations = {iteration_of(input.baseline, nullptr), iteration_of(input.chosen, &input.baseline)};
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
