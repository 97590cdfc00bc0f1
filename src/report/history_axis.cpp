// Draws the axes that pictures of a cluster's history share, and reduces histories to one value per pixel.
#include "report/history_axis.h"

#include <algorithm>
#include <cmath>

#include "draw/grid.h"

namespace flyball {

double hours(Seconds time) { return time.value() / 3600.0; }

double TimeAxis::operator()(Seconds at) const { return x(hours(at - begin)); }

TimeAxis time_axis(Seconds begin, Seconds end, double left, double right) {
  const Seconds last = std::max(end, begin + Seconds(1));
  return {begin, last, {0.0, hours(last - begin), left, right}};
}

void draw_time_axis(SvgCanvas& svg, const TimeAxis& axis, double top, double bottom, int ticks) {
  draw_columns(svg, axis.x, top, bottom, ticks, 15.0);
  svg.line(axis.x.low, bottom, axis.x.high, bottom, "axis");
  svg.text(0.5 * (axis.x.low + axis.x.high), bottom + 31.0, "time since the first submission (h)", "small soft",
           Anchor::kMiddle);
}

void draw_values(SvgCanvas& svg, const LinearScale& x, const LinearScale& y, const std::string& name, int ticks) {
  draw_rows(svg, y, x.low, x.high, ticks);
  if (!name.empty()) svg.vertical_text(13.0, 0.5 * (y.low + y.high), name, "small soft");
}

double jct_logarithm(double seconds) { return std::log10(std::max(seconds, 1e-3)); }

LinearScale jct_scale(double least_s, double most_s, double left, double right) {
  return {std::floor(jct_logarithm(least_s)), std::ceil(jct_logarithm(most_s) + 1e-9), left, right};
}

void draw_jct_axes(SvgCanvas& svg, const LinearScale& x, const LinearScale& y) {
  draw_values(svg, x, y, "share of the jobs (%)");
  const bool crowded = x(1.0) - x(0.0) < 60.0;  // for "1 000 000"
  for (double decade = x.from; decade <= x.to; decade += 1.0) {
    svg.line(x(decade), y.high, x(decade), y.low, "grid");
    if (crowded && std::fmod(decade - x.from, 2.0) != 0.0) continue;
    svg.text(x(decade), y.low + 15.0, short_number(std::pow(10.0, decade)), "small soft", Anchor::kMiddle);
  }
  svg.line(x.low, y.low, x.high, y.low, "axis");
  svg.text(0.5 * (x.low + x.high), y.low + 31.0, "job completion time, waiting included (s), logarithmic", "small soft",
           Anchor::kMiddle);
}

Points jct_line(const std::vector<double>& jcts_s, const LinearScale& x, const LinearScale& y) {
  Points line;
  const std::size_t step = std::max<std::size_t>(1, jcts_s.size() / 400);
  const auto share = [&](std::size_t k) {
    return 100.0 * static_cast<double>(k + 1) / static_cast<double>(jcts_s.size());
  };
  for (std::size_t k = 0; k < jcts_s.size(); k += step) line.emplace_back(x(jct_logarithm(jcts_s[k])), y(share(k)));
  line.emplace_back(x(jct_logarithm(jcts_s.back())), y(100.0));
  return line;
}

StepFunction mean_steps(const std::vector<ClusterPower>& samples, Seconds begin, Seconds end,
                        const std::function<double(const ClusterPower&)>& value) {
  constexpr std::size_t kMostSteps = 1000;
  StepFunction line;
  if (samples.size() <= kMostSteps / 2) {
    for (const ClusterPower& sample : samples) {
      line.times.push_back(hours(sample.at - begin));
      line.values.emplace_back(value(sample));
    }
    line.times.push_back(hours(end - begin));
    return line;
  }
  const Seconds width = (end - begin) / static_cast<double>(kMostSteps);
  std::size_t k = 0;  // the sample that is valid
  for (std::size_t step = 0; step < kMostSteps; ++step) {
    const Seconds from = begin + static_cast<double>(step) * width;
    const Seconds to = from + width;
    while (k + 1 < samples.size() && samples[k + 1].at <= from) ++k;
    double sum = 0.0;
    for (std::size_t s = k; s < samples.size() && samples[s].at < to; ++s) {
      const Seconds until = s + 1 < samples.size() ? std::min(to, samples[s + 1].at) : to;
      sum += value(samples[s]) * ((until - std::max(from, samples[s].at)) / width);
    }
    line.values.emplace_back(sum);
  }
  line.times = {0.0, hours(end - begin)};
  return line;
}

}  // namespace flyball
