// Axes and lines of the pictures of a simulated cluster's history. Not for others to include.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cluster/simulator.h"
#include "draw/scale.h"
#include "draw/svg_canvas.h"

namespace flyball {

// The time of what happened, and what is a pixel of it.
struct TimeAxis {
  Seconds begin;
  Seconds end;
  LinearScale x;  // of hours since the beginning

  [[nodiscard]] double operator()(Seconds at) const;
};

[[nodiscard]] double hours(Seconds time);
[[nodiscard]] TimeAxis time_axis(Seconds begin, Seconds end, double left, double right);

// `ticks`: how many at most.
void draw_time_axis(SvgCanvas& svg, const TimeAxis& axis, double top, double bottom, int ticks);
void draw_values(SvgCanvas& svg, const LinearScale& x, const LinearScale& y, const std::string& name, int ticks = 5);

// 1, 10, 100 s ... along a scale of decimal logarithms, and the share of the jobs upwards.
void draw_jct_axes(SvgCanvas& svg, const LinearScale& x, const LinearScale& y);
// The scale for draw_jct_axes(), over whole decades around the times.
[[nodiscard]] LinearScale jct_scale(double least_s, double most_s, double left, double right);
[[nodiscard]] double jct_logarithm(double seconds);
// The share of the jobs (%) that are done within a time. `jcts_s` rising, one at least.
[[nodiscard]] Points jct_line(const std::vector<double>& jcts_s, const LinearScale& x, const LinearScale& y);

// Means over the time of each pixel, as a line that ends with the samples.
[[nodiscard]] Points mean_line(const std::vector<ClusterPower>& samples, const TimeAxis& axis, const LinearScale& y,
                               const std::function<double(const ClusterPower&)>& value);

}  // namespace flyball
