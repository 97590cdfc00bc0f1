// Figures of time, power and energy that are measured while the machine does other things as well, and statistics.
#pragma once

namespace flyball::testing {

// Sanitizers slow everything down tenfold: under them the same is run, and of figures only the size is judged.
inline constexpr bool kFiguresCount = FLYBALL_SANITIZED == 0;

// How far, relatively, a figure may be off that is right to `share` where the machine lets it be.
constexpr double tolerance(double share) { return kFiguresCount ? share : 0.5; }

// How often something random is tried: under a sanitizer, which looks at one try as well as at the next, less often.
constexpr int tries(int plain, int sanitized) { return kFiguresCount ? plain : sanitized; }

// First line of a test, or of its SetUp, that runs what other tests run many times over for the sake of a statistic.
#define FLYBALL_STATISTIC() \
  if (!::flyball::testing::kFiguresCount) GTEST_SKIP() << "a statistic over what other tests run under the sanitizer"

}  // namespace flyball::testing
