// How far the sum over a whole run may lie from the estimate that a few consecutive measurements of it give.
//
// Problem. m iterations that follow each other were measured, and the run will have n. How wide is the interval round
// n times their mean that holds the run's sum with a given probability, when neighbours may be alike (a machine that
// warms up, a network that others use)? A handful of measurements cannot tell how alike neighbours are, so that to
// estimate their correlation and use it as if it were known gives intervals that are far too short.
//
// Idea. The measurements are taken to be a first-order autoregression of unknown correlation, which a priori is as
// likely to lie anywhere in `CorrelationRange`. For a given correlation the sum follows Student's t distribution. The
// interval is that of the mixture, in which each correlation has the weight with which it explains the measurements
// (level and spread integrated out). Over correlations drawn from the range, the interval holds the sum as often as it
// says. It does so more often for independent measurements, and less often where values stay alike for longer than was
// measured. docs/forecast-intervals.md says how often.
//
// Pure and deterministic. Cost: O(m). Source: Zellner, An Introduction to Bayesian Inference in Econometrics, 1971,
// ch. 4.
#pragma once

#include <optional>
#include <span>

namespace flyball {

// The range of the correlation of one iteration with the next. {0, 0} stands for independent iterations, which gives
// Student's interval.
struct CorrelationRange {
  double low = -0.95;
  double high = 0.95;
};

// The standard deviation of one iteration as it is believed to be before measuring, which counts as much as `weight`
// measurements (a scaled inverse chi-squared distribution of `weight` degrees of freedom). {0, 0} stands for no belief.
struct SpreadPrior {
  double deviation = 0.0;
  double weight = 0.0;
};

// Returns half the width of the interval round `repeats` times the mean, as if the run came after the measurements.
// Returns none without a measurement, and for a single one without a prior. Requires repeats > 0, confidence in (0, 1),
// and a range within (-1, 1).
[[nodiscard]] std::optional<double> sum_half_width(std::span<const double> measured, double repeats, double confidence,
                                                   CorrelationRange range = {}, SpreadPrior prior = {});

}  // namespace flyball
