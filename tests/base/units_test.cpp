#include "base/units.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace flyball {
namespace {

// Everything below holds at compile time.
static_assert(Watts(75) * Seconds(2) == Joules(150));
static_assert(Seconds(2) * Watts(75) == Joules(150));
static_assert(Joules(150) / Seconds(2) == Watts(75));
static_assert(Joules(150) / Watts(75) == Seconds(2));
static_assert(Joules(3) / Joules(2) == 1.5);
static_assert(Seconds(1) + Seconds(2) - Seconds(4) == -Seconds(1));
static_assert(2.0 * Seconds(3) == Seconds(3) * 2.0);
static_assert(Seconds(3) / 2.0 == Seconds(1.5));
static_assert(Megahertz(1410) > Megahertz(210));
static_assert(to_seconds(1'500'000'000) == Seconds(1.5));

// A time is no energy, and a bare number is neither.
static_assert(!std::is_convertible_v<double, Seconds>);
static_assert(!std::is_convertible_v<Seconds, Joules>);
static_assert(!std::is_constructible_v<Joules, Seconds>);
template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
static_assert(Addable<Seconds, Seconds> && !Addable<Seconds, Joules> && !Addable<Seconds, double>);

TEST(Units, AccumulateInPlace) {
  Joules sum;
  sum += Joules(2.5);
  sum -= Joules(0.5);
  EXPECT_EQ(sum, Joules(2));
}

TEST(Units, NanosecondsAreRoundedNotCut) {
  EXPECT_EQ(to_nanoseconds(Seconds(1.4e-9)), 1);
  EXPECT_EQ(to_nanoseconds(Seconds(1.6e-9)), 2);
  EXPECT_EQ(to_nanoseconds(Seconds(0.1)), 100'000'000);  // 0.1 is not exact in binary
  EXPECT_EQ(to_nanoseconds(-Seconds(0.1)), -100'000'000);
}

TEST(Units, NanosecondsSurviveTheWayThroughSeconds) {
  // Doubles hold whole numbers to 2^53, which is 104 days of nanoseconds.
  for (const Nanoseconds t : {Nanoseconds{1}, Nanoseconds{999'999'999}, Nanoseconds{86'400} * 1'000'000'000 + 1}) {
    EXPECT_EQ(to_nanoseconds(to_seconds(t)), t);
  }
}

}  // namespace
}  // namespace flyball
