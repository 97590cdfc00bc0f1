// Puts a plan's pictures and tables into one HTML file, below a headline that says what the plan saves, and lists the
// pictures that stand as files beside it.
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "draw/html_page.h"
#include "draw/scale.h"
#include "draw/svg_canvas.h"
#include "draw/text_table.h"
#include "report/cost_curve_picture.h"
#include "report/html_tables.h"
#include "report/in_flight_picture.h"
#include "report/report.h"
#include "report/timeline_picture.h"

namespace flyball {
namespace {

// A change below this is not worth a figure in the headline.
constexpr double kSamePercent = 0.005;

// A number and its unit, kept on one line.
std::string with_unit(const std::string& number, std::string_view unit) {
  return fmt::format("{}&nbsp;{}", number, unit);
}

std::string headline(const ReportInput& input) {
  const RealisedPlan& before = input.baseline;
  const RealisedPlan& after = input.chosen;
  const double saving = (1.0 - after.energy.total() / before.energy.total()) * 100.0;
  const double t0 = to_seconds(before.makespan).value();
  const double t1 = to_seconds(after.makespan).value();
  const double slowdown = (t1 / t0 - 1.0) * 100.0;
  const std::string energy =
      fmt::format("<strong>{} {} energy</strong>: {} instead of {} per iteration",
                  with_unit(format_fixed(std::abs(saving), 1), "%"), saving >= 0.0 ? "less" : "more",
                  with_unit(grouped_number(after.energy.total().value(), 0), "J"),
                  with_unit(grouped_number(before.energy.total().value(), 0), "J"));
  const std::string time =
      std::abs(slowdown) < kSamePercent
          ? fmt::format("in an unchanged {}", with_unit(format_fixed(t1, 3), "s"))
          : fmt::format("in {} instead of {} ({})", with_unit(format_fixed(t1, 3), "s"),
                        with_unit(format_fixed(t0, 3), "s"), with_unit(format_signed(slowdown, 2), "%"));
  if (!input.t_straggler) {
    return fmt::format("{}, {}.{}", energy, time,
                       input.slower_is_dearer ? " It might take longer, but slower plans take more energy." : "");
  }
  return fmt::format("{} while a straggler takes {}, waiting counted; the pipeline itself is done {}.", energy,
                     with_unit(format_fixed(input.t_straggler->value(), 3), "s"), time);
}

// The picture has one width. A wide page enlarges it a little and a narrow one shrinks it a little, then scrolls.
std::string scrolled(std::string_view name, const SvgCanvas& picture) {
  return fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n{}</div>\n", name,
                     picture.inlined("frontier"));
}

std::string cost_curves(const ReportInput& input) {
  const auto key = [](auto draw) {
    SvgCanvas svg(22.0, 12.0, "key");
    draw(svg);
    return svg.inlined("key");
  };
  std::string out = "<div class=\"legend\">";
  out += "<span>" + key([](SvgCanvas& svg) { svg.circle(11, 6, 3, "option"); }) + "measured</span>";
  out += "<span>" + key([](SvgCanvas& svg) { svg.circle(11, 6, 3, "pareto"); }) + "Pareto-optimal</span>";
  out += "<span>" + key([](SvgCanvas& svg) { svg.line(1, 6, 21, 6, "hull"); }) + "lower hull</span>";
  if (input.problem->cost_model == CostModel::kExponential) {
    out += "<span>" + key([](SvgCanvas& svg) { svg.line(1, 6, 21, 6, "fit"); }) + "exponential fit</span>";
  }
  out += "<span>" + key([](SvgCanvas& svg) { svg.circle(11, 6, 4.6, "used"); }) + "in the chosen plan</span></div>\n";
  out += "<div class=\"multiples\">\n";
  for (const std::size_t type : types_with_choice(*input.problem->dag)) {
    out += cost_curve_canvas(input, type, 270).inlined("panel");
  }
  return out + "</div>\n";
}

constexpr std::string_view kPlanWords = R"(<h2>Words</h2>
<dl>
<dt>T<sub>min</sub></dt><dd>the fastest iteration that any clocks allow in the order of the schedule; EnvPipe may
run a stage's computations in another order, and its points then lie left of it</dd>
<dt>T*</dt><dd>the iteration time of least energy when waiting is paid for anyway: slower than this never saves</dd>
<dt>T&#8242;</dt><dd>the iteration time of a straggler that all pipelines wait for</dd>
<dt>least total energy</dt><dd>the cheapest point when nothing else sets the pace: beyond it, blocking costs more than
slower clocks save</dd>
<dt>blocking</dt><dd>the draw of a GPU that waits for another stage</dd>
<dt>net energy</dt><dd>energy above what the GPU would draw blocked for the same time</dd>
<dt>lower bound</dt><dd>no assignment of clocks that ends by that time takes less: the optimum over the lower hulls of
the measured options</dd>
<dt>critical path</dt><dd>operations whose delay delays the iteration; where there are several paths, one is drawn</dd>
</dl>
)";

}  // namespace

std::vector<PictureFile> picture_files(const ReportInput& input) {
  std::vector<PictureFile> files = {
      {"timeline.svg", "the iteration before and after", timeline_picture(input).standalone()},
      {"frontier.svg", "time against energy, every planner", frontier_picture(input).standalone()},
      {"cost-curves.svg", "the measurements and what the planner sees", cost_curve_picture(input).standalone()},
  };
  if (has_in_flight_picture(input)) {
    files.push_back({"in-flight.svg", "the microbatches that the stages hold", in_flight_picture(input).standalone()});
  }
  if (input.power)
    files.push_back({"power.svg", "the power of the job over an iteration", job_power_picture(input).standalone()});
  return files;
}

std::string html_report(const ReportInput& input) {
  std::string body = before_after_table(input);

  body +=
      "<h2>Timeline</h2>\n<p>One row per stage; an operation is as bright as the power it draws. Point at one for "
      "its clock, time and energy; a click keeps it. The slider, or a click on the frontier below, shows another plan "
      "in place of the chosen one.</p>\n";
  body += timeline_view(input);

  if (has_in_flight_picture(input)) {
    body +=
        "<h2>Microbatches in flight</h2>\n<p>What every stage runs, and below it how many microbatches' activations it "
        "holds meanwhile: from a forward's begin to the end of the backward, or of the weights' gradient.</p>\n";
    body += scrolled("Microbatches in flight", in_flight_picture(input, 760));
  }

  if (input.power) {
    body +=
        "<h2>Power</h2>\n<p>What all GPUs of the job draw together over one iteration, each operation at its mean "
        "power. Clocks are drawn as if every change took hold at once.</p>\n";
    body += in_both_widths([&](int width) { return job_power_picture(input, width); });
  }

  body +=
      "<h2>Frontier</h2>\n<p>Every point is a plan: what its clocks give when the iteration is replayed with the "
      "measured options.</p>\n";
  body += in_both_widths([&](int width) { return frontier_picture(input, width); });
  body += planner_table(input);
  body += frontier_table(input);

  body += "<h2>Clocks</h2>\n" + clock_table(input);

  body += "<h2>Cost curves</h2>\n<p>What each operation takes at each measured clock, fastest on the left.</p>\n";
  body += cost_curves(input);

  if (!input.summary.empty()) body += "<h2>Figures</h2>\n" + summary_table(input);

  return html_document({.title = input.title,
                        .headline = headline(input),
                        .body = std::move(body),
                        .commands = input.commands,
                        .closing = std::string(kPlanWords),
                        .files = {"timeline.css", "elements.js", "plan_set.js", "timeline_row.js", "timeline_pen.js",
                                  "operation_search.js", "timeline.js", "plan_picker.js", "plan_timeline.js"}});
}

}  // namespace flyball
