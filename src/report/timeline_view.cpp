// Makes the timeline of a page: pictures of the whole iteration in a field that scrolls, and the data that the page's
// script shows.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/index.h"
#include "draw/html_page.h"
#include "draw/scale.h"
#include "draw/svg_canvas.h"
#include "report/timeline_picture.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t microseconds(Nanoseconds t) { return (t + 500) / 1000; }

Json choice(const RealisedPlan& plan, int i) {
  const ClockOption& option = option_of(plan, i);
  const OperationType& type = plan.dag->type_of(i);
  return {type.instruction, setting_text(type, plan.plan[at(i)]),
          fmt::format("{} W, {} J", short_number(mean_power(option).value()), short_number(option.energy.value()))};
}

// The data of a plan, as web/timeline.js describes them.
Json plan_data(const RealisedPlan& plan, const Timeline& timeline) {
  std::map<std::pair<int, int>, std::size_t> index_of;  // by type and option: the choice's index
  Json choices = Json::array();
  Json stages = Json::array();
  for (int stage = 0; stage < plan.dag->stages(); ++stage) {
    std::array<std::vector<std::int64_t>, 6> columns;
    std::int64_t end = 0;
    for (const int i : plan.dag->stage_order(stage)) {
      const Computation& computation = (*plan.dag)[i];
      const auto [entry, is_new] = index_of.try_emplace({computation.type, plan.plan[at(i)]}, index_of.size());
      if (is_new) choices.push_back(choice(plan, i));
      const std::int64_t start = microseconds(timeline.start[at(i)]);
      const std::int64_t duration = microseconds(plan.durations[at(i)]);
      const std::array<std::int64_t, 6> values{static_cast<std::int64_t>(entry->second),
                                               computation.microbatch,
                                               computation.chunk,
                                               start - end,
                                               duration,
                                               microseconds(timeline.latest_start[at(i)] - timeline.start[at(i)])};
      for (std::size_t k = 0; k < values.size(); ++k) columns[k].push_back(values[k]);
      end = start + duration;
    }
    stages.push_back(columns);
  }
  return {{"choices", std::move(choices)}, {"stages", std::move(stages)}};
}

std::string legend(const ReportInput& input) {
  const PowerScale power = power_scale(input);
  constexpr int kStops = 8;
  std::string stops;
  for (int k = 0; k <= kStops; ++k) {
    stops += (k > 0 ? "," : "") + power.color(power.least() + (power.most() - power.least()) * (k / 8.0));
  }
  return fmt::format(
      "<div class=\"legend\"><span>mean power: {} W <i class=\"bar\" "
      "style=\"background:linear-gradient(90deg,{})\"></i> "
      "{} W</span><span><i class=\"swatch\"></i>{}</span><span><i class=\"rule\"></i>critical "
      "path</span><span>forwards are lower</span></div>\n",
      short_number(power.least().value()), stops, short_number(power.most().value()),
      escape_markup(blocking_label(*input.problem)));
}

constexpr std::string_view kTools = R"(<div class="tools" hidden>
<button type="button" data-go="start">Start</button>
<button type="button" data-go="middle">Steady state</button>
<button type="button" data-go="end">End</button>
<button type="button" data-go="all">Whole iteration</button>
<button type="button" data-zoom="0.625" aria-label="Zoom out">&#8722;</button>
<button type="button" data-zoom="1.6" aria-label="Zoom in">+</button>
</div>
<div class="view" tabindex="0" role="group"
 aria-label="Timelines; arrow keys move, plus and minus zoom, Home and End jump">
)";

}  // namespace

std::string timeline_view(const ReportInput& input) {
  const TimelineRows rows(input);
  const PowerScale power = power_scale(input);
  Json data = {{"pixel", rows.seconds_per_px * 1e6},
               {"pitch", TimelineRows::kPitch},
               {"stretch", TimelineRows::kStretch},
               {"most", rows.most_zoom},
               {"plans", Json::array()}};
  std::string out = "<plan-timeline>\n" + legend(input);
  out += kTools;
  for (const RealisedPlan* plan : {&input.baseline, &input.chosen}) {
    const Timeline timeline = emulate(*plan->dag, plan->durations);
    out += fmt::format("<h3>{}</h3><div class=\"rows\">\n{}{}</div>\n",
                       escape_markup(plan_heading(*plan, plan == &input.chosen ? &input.baseline : nullptr)),
                       timeline_names(*plan->dag).inlined("names"), timeline_rows(*plan, timeline, power, rows));
    data["plans"].push_back(plan_data(*plan, timeline));
  }
  out += "</div>\n<script type=\"application/json\">" +
         script_json(data.dump(-1, ' ', true, Json::error_handler_t::replace)) + "</script>\n</plan-timeline>\n";
  return out;
}

}  // namespace flyball
