// Figures of time, power and energy that are measured while the machine does other things as well.
#pragma once

namespace flyball::testing {

// Sanitizers slow everything down tenfold: under them the same is run, and of figures only the size is judged.
inline constexpr bool kFiguresCount = FLYBALL_SANITIZED == 0;

// How far, relatively, a figure may be off that is right to `share` where the machine lets it be.
constexpr double tolerance(double share) { return kFiguresCount ? share : 0.5; }

}  // namespace flyball::testing
