// A row per stage and plan: above, what the stage runs, coloured by its kind; below, steps of the microbatches that it
// holds meanwhile, on one scale for all rows.
#include "report/in_flight_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/index.h"
#include "base/own_name.h"
#include "draw/grid.h"
#include "draw/scale.h"
#include "pipeline/instruction.h"
#include "plan/stage_orders.h"
#include "report/timeline_picture.h"

namespace flyball {
namespace {

constexpr double kLeftOfRows = 64.0;
constexpr double kRightOfRows = 44.0;
constexpr double kStripHeight = 9.0;
constexpr double kStepsHeight = 24.0;
constexpr double kHeldPitch = kStripHeight + kStepsHeight + 9.0;

// What an operation is for the activations; -1 for what neither takes nor frees them.
int kind_of(const OperationType& type) {
  constexpr std::array kKinds = {InstructionKind::kForward, InstructionKind::kBackward, InstructionKind::kBackwardInput,
                                 InstructionKind::kBackwardWeight};
  const auto found = std::ranges::find(kKinds, common_name(type.instruction), instruction_name);
  return found == kKinds.end() ? -1 : static_cast<int>(found - kKinds.begin());
}

// The class that fills operations of a kind, and what they are called.
constexpr std::array<std::pair<const char*, const char*>, 4> kKindNames = {
    {{"f0", "forward"}, {"f1", "backward"}, {"f1", "gradient of the activations"}, {"f2", "gradient of the weights"}}};

bool has_kind(const ComputationDag& dag, int kind) {
  return std::ranges::any_of(dag.types(), [&](const OperationType& type) { return kind_of(type) == kind; });
}

void draw_stage(SvgCanvas& svg, const RealisedPlan& plan, const Timeline& timeline, int stage, const LinearScale& x,
                int most) {
  const auto at_time = [&](Nanoseconds time) { return x(to_seconds(time).value()); };
  const double top = stage * kHeldPitch;
  const double foot = top + kStripHeight + kStepsHeight;
  svg.text(kLeftOfRows - 8.0, top + 20.0, fmt::format("stage {}", stage), "small soft", Anchor::kEnd);
  std::array<std::string, kKindNames.size()> outlines;
  for (const int i : plan.dag->stage_order(stage)) {
    const int kind = kind_of(plan.dag->type_of(i));
    if (kind < 0) continue;
    const double from = at_time(timeline.start[at(i)]);
    outlines[at(kind)] += fmt::format("M{} {}v{}h{}V{}z", coordinate(from), coordinate(top), kStripHeight,
                                      coordinate(at_time(timeline.finish[at(i)]) - from), coordinate(top));
  }
  for (std::size_t kind = 0; kind < outlines.size(); ++kind) {
    if (outlines[kind].empty()) continue;
    svg.open_group(fmt::format("class=\"{}\" style=\"stroke-width:.4\"", kKindNames[kind].first));
    svg.path(outlines[kind]);
    svg.close_group();
  }
  int now = 0;
  int highest = 0;
  Points steps{{at_time(0), foot}};
  for (const auto& [time, microbatches] : held_over_time(*plan.dag, timeline, stage)) {
    const auto height = [&](int count) { return foot - (kStepsHeight - 3.0) * count / most; };
    steps.emplace_back(at_time(time), height(now));
    steps.emplace_back(at_time(time), height(microbatches));
    now = microbatches;
    highest = std::max(highest, now);
  }
  svg.polygon(steps, "bubble");
  svg.polyline(steps, "leader");
  svg.line(x.low, foot, x.high, foot, "axis");
  svg.text(x.high + 8.0, foot - 5.0, fmt::to_string(highest), "small strong");
}

}  // namespace

bool has_in_flight_picture(const ReportInput& input) {
  if (most_in_flight(*input.baseline.dag).empty() || most_in_flight(*input.chosen.dag).empty()) return false;
  return input.baseline.dag != input.chosen.dag ||
         has_kind(*input.chosen.dag, kind_of({0, std::string(instruction_name(InstructionKind::kBackwardWeight)), {}}));
}

std::vector<HeldFrom> held_over_time(const ComputationDag& dag, const Timeline& timeline, int stage) {
  std::vector<std::pair<Nanoseconds, int>> changes;
  const auto order = dag.stage_order(stage);
  const bool splits = std::ranges::any_of(order, [&](int i) { return kind_of(dag.type_of(i)) == 3; });
  for (const int i : order) {
    const int kind = kind_of(dag.type_of(i));
    if (kind == 0) changes.emplace_back(timeline.start[at(i)], 1);
    if (kind == (splits ? 3 : 1)) changes.emplace_back(timeline.finish[at(i)], -1);
  }
  // What ends as another begins has freed its memory before.
  std::ranges::sort(changes);
  std::vector<HeldFrom> held;
  int now = 0;
  for (const auto& [time, change] : changes) {
    now += change;
    if (!held.empty() && held.back().time == time) held.pop_back();
    held.push_back({time, now});
  }
  return held;
}

SvgCanvas in_flight_picture(const ReportInput& input, int width) {
  const double rows = input.baseline.dag->stages() * kHeldPitch;
  SvgCanvas svg(width, 2.0 * (rows + 62.0) + 40.0,
                "Microbatches that the stages hold over one iteration, before and after. " + input.title);
  const LinearScale x{0.0, longest_iteration(input).value(), kLeftOfRows, width - kRightOfRows};
  std::vector<std::pair<std::string, std::string>> legend;
  for (std::size_t kind = 0; kind < kKindNames.size(); ++kind) {
    if (has_kind(*input.chosen.dag, static_cast<int>(kind))) {
      legend.emplace_back(kKindNames[kind].first, kKindNames[kind].second);
    }
  }
  double y = draw_legend(svg, legend, kLeftOfRows, 10.0, width - kRightOfRows) + 4.0;
  int most = 1;
  for (const RealisedPlan* plan : {&input.baseline, &input.chosen}) {
    for (const int held : most_in_flight(*plan->dag)) most = std::max(most, held);
  }
  for (const RealisedPlan* plan : {&input.baseline, &input.chosen}) {
    const Timeline timeline = emulate(*plan->dag, plan->durations);
    svg.text(kLeftOfRows, y + 14.0, plan_heading(*plan, plan == &input.chosen ? &input.baseline : nullptr), "heading");
    svg.text(width - 6.0, y + 14.0, "most held", "small soft", Anchor::kEnd);
    y += 24.0;
    draw_columns(svg, x, y, y + rows - 6.0, 8);
    svg.open_group(0.0, y);
    for (int stage = 0; stage < plan->dag->stages(); ++stage) draw_stage(svg, *plan, timeline, stage, x, most);
    svg.close_group();
    y += rows + 32.0;
  }
  svg.text(0.5 * (x.low + x.high), y + 2.0, "time within the iteration (s)", "soft", Anchor::kMiddle);
  return svg;
}

}  // namespace flyball
