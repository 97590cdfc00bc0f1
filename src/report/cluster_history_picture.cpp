// Draws a simulated cluster's history: GPUs and power over time, completion times, and a row per job.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <vector>

#include "draw/scale.h"
#include "draw/text_table.h"
#include "report/cluster_report.h"
#include "report/history_axis.h"

namespace flyball {
namespace {

constexpr double kHistoryLeft = 58.0;
constexpr double kHistoryRight = 26.0;  // half of a long label
constexpr double kShortestPx = 0.4;     // the least width drawn of anything that a job does
constexpr std::size_t kMostRows = 240;
constexpr std::size_t kSizes = 8;  // colours: 1, 2, 4 ... 64 GPUs, and more

int hour_ticks(int width) { return width < 600 ? 5 : 12; }

TimeAxis time_axis(const Simulation& simulation, int width) {
  const ClusterState& state = simulation.state();
  Seconds begin = state.jobs.front().submit;
  Seconds end = begin;
  for (const ClusterJob& job : state.jobs) {
    begin = std::min(begin, job.submit);
    end = std::max(end, job.finish);
  }
  return time_axis(begin, end, kHistoryLeft, width - kHistoryRight);
}

// The power limit, eta G P_max in W, over time in hours.
StepFunction limit_steps(const SimulationSetup& setup, const ClusterSpec& spec, const TimeAxis& axis) {
  StepFunction line{{0.0}, {}};
  const auto limit = [&](double eta) { return eta * spec.gpus() * spec.p_max.value(); };
  double eta = setup.eta;
  for (const BudgetChange& change : setup.budget) {
    if (change.at >= axis.end) break;
    if (change.at > axis.begin) {
      line.values.emplace_back(limit(eta));
      line.times.push_back(hours(change.at - axis.begin));
    }
    eta = change.eta;
  }
  line.values.emplace_back(limit(eta));
  line.times.push_back(hours(axis.end - axis.begin));
  return line;
}

std::size_t size_colour(int gpus) {
  const auto doublings = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(std::max(1, gpus))) - 1);
  return std::min(doublings, kSizes - 1);
}

bool same_row_part(const JobSpan& a, const JobSpan& b) {
  return a.phase == b.phase && a.gpus == b.gpus && a.end == b.begin;
}

}  // namespace

TimeCharts usage_charts(const ClusterReport& report) {
  const std::vector<ClusterPower>& samples = report.simulation.history().power;
  const TimeAxis axis = time_axis(report.simulation, 0);
  const auto steps = [&](auto value) { return mean_steps(samples, axis.begin, axis.end, value); };
  return {.unit = "h",
          .lines = {steps([](const ClusterPower& one) { return one.power.value(); }),
                    limit_steps(report.setup, report.simulation.state().spec, axis),
                    steps([](const ClusterPower& one) { return double(one.gpus); }),
                    steps([](const ClusterPower& one) { return double(one.waiting); })},
          .charts = {{"Power of all GPUs",
                      "W",
                      {},
                      {{.label = "all GPUs", .colour = "--p5", .line = 0, .filled = true},
                       {.label = "limit of the jobs", .colour = "--ink", .line = 1, .dashed = true}}},
                     {"GPUs in use", "", {}, {{.label = "GPUs", .colour = "--p0", .line = 2, .filled = true}}},
                     {"Jobs that wait", "", {}, {{.label = "jobs", .colour = "--p6", .line = 3, .filled = true}}}}};
}

SvgCanvas jct_picture(const ClusterReport& report, int width) {
  constexpr double kHeight = 260.0;
  const std::vector<double> seconds = sorted_jcts(report.simulation.state());
  const LinearScale x = jct_scale(seconds.front(), seconds.back(), kHistoryLeft, width - kHistoryRight);
  const LinearScale y{0.0, 100.0, kHeight - 48.0, 12.0};
  SvgCanvas svg(width, kHeight, "Distribution of job completion times");
  draw_jct_axes(svg, x, y);
  svg.polyline(jct_line(seconds, x, y), "curve s0");
  const SimulationResult result = report.simulation.result();
  const std::array<std::pair<const char*, double>, 3> marks{
      {{"median", result.p50_jct_s}, {"average", result.avg_jct_s}, {"99 %", result.p99_jct_s}}};
  double text_y = y.low - 8.0;
  for (const auto& [name, value] : marks) {
    const double at = x(jct_logarithm(value));
    svg.line(at, y.high, at, y.low, "mark");
    const bool left = at > 0.5 * (x.low + x.high);
    svg.text(at + (left ? -5.0 : 5.0), text_y, fmt::format("{} {} s", name, short_number(value)), "small halo",
             left ? Anchor::kEnd : Anchor::kStart);
    text_y -= 16.0;
  }
  return svg;
}

std::size_t shown_job_step(std::size_t jobs) { return (jobs + kMostRows - 1) / kMostRows; }

SvgCanvas job_picture(const ClusterReport& report, int width) {
  const ClusterState& state = report.simulation.state();
  const TimeAxis axis = time_axis(report.simulation, width);
  const std::size_t step = shown_job_step(state.jobs.size());
  const std::size_t rows = (state.jobs.size() + step - 1) / step;
  const double pitch = rows > 120 ? 4.0 : rows > 40 ? 7.0 : 14.0;
  constexpr double kTop = 58.0;
  const double bottom = kTop + static_cast<double>(rows) * pitch;
  SvgCanvas svg(width, bottom + 40.0, "What each job had, from its submission to its end");
  draw_time_axis(svg, axis, kTop, bottom, hour_ticks(width));
  const std::string rows_are = "jobs, in the order of submission";
  if (text_width(rows_are, 11.0) < bottom - kTop)
    svg.vertical_text(13.0, 0.5 * (kTop + bottom), rows_are, "small soft");

  std::vector<std::vector<JobSpan>> of_row(rows);
  for (const JobSpan& span : report.simulation.history().spans) {
    const auto job = static_cast<std::size_t>(span.job);
    if (job % step != 0) continue;
    std::vector<JobSpan>& row = of_row[job / step];
    if (!row.empty() && same_row_part(row.back(), span)) {
      row.back().end = span.end;  // it goes on at another clock
    } else {
      row.push_back(span);
    }
  }
  std::array<bool, kSizes> used{};
  bool waited = false;
  bool prepared = false;
  for (std::size_t r = 0; r < rows; ++r) {
    const double top = kTop + static_cast<double>(r) * pitch;
    const ClusterJobKind& kind = state.kind_of(static_cast<int>(r * step));
    for (const JobSpan& span : of_row[r]) {
      const double left = axis(span.begin);
      const double length = axis(span.end) - left;
      if (length < kShortestPx) continue;
      const bool waits = span.phase == JobPhase::kWaiting;
      const bool prepares = span.phase == JobPhase::kStarting || span.phase == JobPhase::kProfiling;
      const std::size_t colour = size_colour(span.gpus);
      const char* doing = waits ? "waits" : prepares ? "starts or is profiled" : "runs";
      const std::string title =
          fmt::format("job {}, {}\n{}{}\n{} to {} h", r * step, kind.model, doing,
                      waits ? std::string() : fmt::format(" on {} GPU{}", span.gpus, span.gpus == 1 ? "" : "s"),
                      short_number(hours(span.begin - axis.begin)), short_number(hours(span.end - axis.begin)));
      if (waits) {
        svg.rect(left, top + 0.35 * pitch, length, 0.3 * pitch, "bubble", {}, title);
        waited = true;
      } else if (prepares) {
        svg.rect(left, top + 0.1 * pitch, length, 0.8 * pitch, "option", {}, title);
        prepared = true;
      } else {
        svg.rect(left, top + 0.05 * pitch, length, 0.9 * pitch, fmt::format("bar f{}", colour), {}, title);
        used[colour] = true;
      }
    }
  }
  std::vector<std::pair<std::string, std::string>> entries;
  if (waited) entries.emplace_back("bubble", "waits");
  if (prepared) entries.emplace_back("option", "starts or is profiled");
  for (std::size_t k = 0; k < kSizes; ++k) {
    if (!used[k]) continue;
    const int gpus = 1 << k;
    entries.emplace_back(fmt::format("f{}", k), k + 1 == kSizes ? fmt::format("{} GPUs or more", gpus)
                                                : gpus == 1     ? std::string("1 GPU")
                                                                : fmt::format("{} GPUs", gpus));
  }
  draw_legend(svg, entries, axis.x.low, 8.0, axis.x.high);
  return svg;
}

}  // namespace flyball
