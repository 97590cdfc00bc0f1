// How far the sum of a whole run may lie from what a few consecutive measurements of it promise.
//
// Problem: iterations m that follow each other were measured, and the run will have n. How wide is the interval round
// n times their mean that holds the run's sum with a given probability, when neighbours may be alike (a machine that
// warms up, a network that others use)? A handful of measurements cannot tell whether they are, so an estimate of the
// correlation in place of its value gives intervals that are far too short.
// Idea: measurements are a first-order autoregression whose correlation is unknown, before measuring as likely to lie
// anywhere in `CorrelationRange`. For a given correlation the sum's distribution is Student's t; the interval is that
// of the mixture, each correlation weighed by how well it explains the measurements (level and spread integrated out).
// Over correlations drawn from that range it holds the sum as often as it says; with independent measurements more
// often, where they stay alike for longer than was measured less often. docs/forecast-intervals.md says how often.
//
// Pure, deterministic; cost O(m). Reference: Zellner, An Introduction to Bayesian Inference in Econometrics, 1971, ch.
// 4.
#pragma once

#include <optional>
#include <span>

namespace flyball {

// Of one iteration with the next. {0, 0}: independent, which gives Student's interval.
struct CorrelationRange {
  double low = -0.95;
  double high = 0.95;
};

// What is believed of one iteration's standard deviation before measuring: that of so many measurements (a scaled
// inverse chi-squared of `weight` degrees of freedom). {0, 0}: nothing.
struct SpreadPrior {
  double deviation = 0.0;
  double weight = 0.0;
};

// Half the width of the interval round `repeats` times the mean, as if the run came after the measurements. Nothing for
// none, or for one without a prior. Preconditions: repeats > 0, confidence in (0, 1), the range within (-1, 1).
[[nodiscard]] std::optional<double> sum_half_width(std::span<const double> measured, double repeats, double confidence,
                                                   CorrelationRange range = {}, SpreadPrior prior = {});

}  // namespace flyball
