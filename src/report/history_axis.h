// Axes, lines and step functions of a simulated cluster's history. Internal to the pictures and charts of this folder.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cluster/simulator.h"
#include "draw/scale.h"
#include "draw/svg_canvas.h"
#include "report/time_charts.h"

namespace flyball {

// The span of time that a picture shows, and its scale.
struct TimeAxis {
  Seconds begin;
  Seconds end;
  LinearScale x;  // from hours since `begin` to pixels

  [[nodiscard]] double operator()(Seconds at) const;
};

[[nodiscard]] double hours(Seconds time);
[[nodiscard]] TimeAxis time_axis(Seconds begin, Seconds end, double left, double right);

// Draws at most `ticks` ticks.
void draw_time_axis(SvgCanvas& svg, const TimeAxis& axis, double top, double bottom, int ticks);
void draw_values(SvgCanvas& svg, const LinearScale& x, const LinearScale& y, const std::string& name, int ticks = 5);

// Draws ticks at 1, 10, 100 s and so on along `x`, a scale of decimal logarithms, and the share of the jobs along `y`.
void draw_jct_axes(SvgCanvas& svg, const LinearScale& x, const LinearScale& y);
// Returns the x scale for draw_jct_axes(), which covers the whole decades around the given times.
[[nodiscard]] LinearScale jct_scale(double least_s, double most_s, double left, double right);
[[nodiscard]] double jct_logarithm(double seconds);
// Returns the line of the share of the jobs, in per cent, that are done within a time. `jcts_s` must rise and have at
// least one value.
[[nodiscard]] Points jct_line(const std::vector<double>& jcts_s, const LinearScale& x, const LinearScale& y);

// Returns what `value` is over time, in hours since `begin`: of all samples, or of many the means over 1,000 equal
// times.
[[nodiscard]] StepFunction mean_steps(const std::vector<ClusterPower>& samples, Seconds begin, Seconds end,
                                      const std::function<double(const ClusterPower&)>& value);

}  // namespace flyball
