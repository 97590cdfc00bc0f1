// Finds time and energy of a rank's instructions from their measured times and its GPU's energy counter.
//
// Problem: the counter changes every 20 to 100 ms, and an instruction may be shorter than that. Cutting the counter at
// the instruction's ends charges it with part of its neighbours' energy, always the same way, so that no average mends
// it.
//
// Idea: let every change of the counter be one equation. Between two changes it rose by
//     sum over types (power of the type x time that it ran in between) + waiting power x the rest;
// some hundreds of such equations, robustly solved by least squares for the few powers, tell them apart however short
// the instructions are, as long as changes of the counter fall differently among them. An instruction's energy is its
// power times its time. Where the equations cannot tell two types apart (they always come together), both get the mean.
//
// Outliers: a time is the mean of the runs within kTimeOutlier scaled median absolute deviations of the median. For
// energies, the equations are first solved for least absolute residuals; then equations whose residual lies beyond
// kEnergyOutlier scaled deviations are dropped, and the rest is solved again by least squares. Every tenth change of
// the counter may thus be seen late; where every fifth is, few clocks come out wrong. (The scale, 1.4826, makes the
// median absolute deviation of normal noise its standard deviation: Rousseeuw and Croux, JASA 88, 1993.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/own_name.h"
#include "base/units.h"

namespace flyball {

inline constexpr double kTimeOutlier = 3.5;
inline constexpr double kEnergyOutlier = 4.0;

// One instruction as it ran.
struct InstructionSpan {
  std::uint16_t type = 0;
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  Microbatches of = Microbatches::kAll;  // where first and last runs are known apart
};

// The energy counter at a moment at which it changed.
struct CounterPoint {
  Nanoseconds time = 0;
  Joules energy;
};

struct InstructionEstimate {
  Seconds time;
  Joules energy;             // time x power
  std::size_t samples = 0;   // runs that the estimate uses
  std::size_t outliers = 0;  // runs that it leaves out
  Seconds time_deviation{};  // standard deviation of one of these runs; 0 where there is one
};

struct ActivityEstimate {
  // By type, of the runs that are not marked as first or last; without samples where there are none.
  std::vector<InstructionEstimate> types;
  std::vector<InstructionEstimate> first;  // the same of the runs that are marked so; at the power of all
  std::vector<InstructionEstimate> last;
  Watts waiting;               // power between instructions
  double waiting_share = 0.0;  // share of the time between instructions
  std::size_t equations = 0;   // how many equations were not dropped
};

// A mean without outliers, as described above. `values` must not be empty; its order changes.
struct RobustMean {
  double mean = 0.0;
  std::size_t used = 0;
  double deviation = 0.0;  // standard, of one of those that are used; 0 where there is one
};
[[nodiscard]] RobustMean robust_mean(std::vector<double>& values);

// Finds by how much a counter lags: by how much earlier than it changes it shows what it shows. Equations whose ends
// are moved to where they belong fit best, so that each lag up to the time between two changes is tried, in fortieths,
// on the same equations. A lag is believed if what it leaves is less than four fifths of what no lag leaves. What is
// found at one clock is added to what was found at others. Cost of add(): that of forty least squares.
class CounterLag {
 public:
  void add(std::span<const InstructionSpan> spans, std::span<const CounterPoint> points, Nanoseconds from,
           Nanoseconds until, std::size_t type_count);
  [[nodiscard]] Nanoseconds found() const;

 private:
  static constexpr std::size_t kSteps = 40;
  std::array<double, kSteps> left_{};  // sum of absolute residuals, in J
  Nanoseconds period_ = 0;             // of the counter, at the first clock
};

// Estimates times and powers over [from, until], from a counter that shows what had flowed `lag` earlier. `spans` must
// rise and not overlap, `points` must rise in time, and types must be below `type_count`. Energies need at least one
// point more than there are unknowns; with fewer, every type gets the mean power of all. Cost: O(spans + points) for
// some ten types.
[[nodiscard]] ActivityEstimate estimate_activity(std::span<const InstructionSpan> spans,
                                                 std::span<const CounterPoint> points, Nanoseconds from,
                                                 Nanoseconds until, std::size_t type_count, Nanoseconds lag = 0);

}  // namespace flyball
