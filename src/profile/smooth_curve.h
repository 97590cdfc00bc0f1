// Estimates what a measured curve may truly be, where nobody has said how noisy its points are: a curve as smooth as
// the points allow.
//
// Model: a point is the curve plus noise, normal, independent and alike everywhere; the curve's slope changes at random
// from point to point (an integrated random walk, the prior of a cubic smoothing spline). How noisy the points and how
// crooked the curve are follows from the points themselves by restricted maximum likelihood; how sure that is goes into
// the draws (Wahba, JRSS B 45, 1983; Patterson and Thompson, Biometrika 58, 1971).
//
// The curve may have a corner at its second point. The highest clock is often not reached, since the power limit holds
// the GPU below it: how far the first point lies off the others' course says little about the noise.
//
// It cannot see noise that neighbouring points share, such as the drift of a temperature during a sweep: that counts as
// part of the curve.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "profile/random_bits.h"

namespace flyball {

// Normal and uniform random numbers; the same for the same seed.
class NoiseSource {
 public:
  explicit NoiseSource(std::uint64_t seed) : state_(seed) {}
  double uniform() { return next_uniform(state_); }  // in [0, 1)
  double normal();                                   // of variance 1

 private:
  std::uint64_t state_;
};

class SmoothCurve {
 public:
  // Fewer points tell nothing about their noise.
  static constexpr std::size_t kLeastPoints = 6;

  // `places` rise or fall, and begin with that of the highest clock. There are as many `values`, at least kLeastPoints.
  // Cost O(points).
  SmoothCurve(std::span<const double> places, std::span<const double> values);

  // Returns the standard deviation of a point's noise.
  [[nodiscard]] double noise() const;

  // Draws two curves at random from those that may be the true one; one lies as far above the mean curve as the other
  // lies below it. Cost O(points).
  void draw(NoiseSource& random, std::span<double> one, std::span<double> other) const;

 private:
  // For one smoothness. The curve's precision is (I + lambda K) / variance with K of bandwidth 2; factorised L D L'.
  struct Fit {
    double weight = 0.0;  // how likely this smoothness is, among all
    double variance = 0.0;
    std::vector<double> mean;
    std::vector<double> first;   // L's subdiagonal
    std::vector<double> second;  // the one below
    std::vector<double> diagonal;
  };

  std::vector<Fit> fits_;
};

}  // namespace flyball
