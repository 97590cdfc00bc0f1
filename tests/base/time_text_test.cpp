#include "base/time_text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace flyball {
namespace {

TEST(TimeText, ZonesAreHoursAndMinutes) {
  EXPECT_EQ(parse_utc_offset("+02:00"), Seconds(7200));
  EXPECT_EQ(parse_utc_offset("-0530"), Seconds(-19'800));
  EXPECT_EQ(parse_utc_offset("Z"), Seconds(0));
  for (const char* wrong : {"", "2", "02:00", "+2:00", "+19:00", "+02:60", "CET"}) {
    EXPECT_EQ(parse_utc_offset(wrong), std::nullopt) << wrong;
  }
}

// 12:00 is 43,200 s after midnight; 2024-01-31 is day 19,753 since 1970: 54 years of 365 days, 13 leap days, 30 of
// January.
TEST(TimeText, SecondsMayBeMissing) {
  constexpr Nanoseconds kNoon = (19'753 * INT64_C(86'400) + 43'200) * 1'000'000'000;
  EXPECT_EQ(parse_date_time("2024-01-31T12:00Z", Seconds(0)), kNoon);
  EXPECT_EQ(parse_date_time("2024-01-31 14:00+02", Seconds(0)), kNoon);
  EXPECT_EQ(parse_date_time("2024-01-31T12:00:00.5", Seconds(0)), kNoon + 500'000'000);
  EXPECT_EQ(parse_date_time("2024-01-31T12:00.5", Seconds(0)), std::nullopt);
  EXPECT_EQ(parse_date_time("2024-01-31T12:00:", Seconds(0)), std::nullopt);
}

TEST(TimeText, DecimalsAreExactAndBounded) {
  EXPECT_EQ(parse_decimal("1795280724.059922525", 9), Nanoseconds{1'795'280'724'059'922'525});
  EXPECT_EQ(parse_decimal("-1.5", 9), Nanoseconds{-1'500'000'000});
  EXPECT_EQ(parse_decimal("0.0005", 3), Nanoseconds{1});
  EXPECT_EQ(parse_decimal("0.00049999999999999999999", 3), Nanoseconds{0});
  EXPECT_EQ(parse_decimal(" \"+12345678.1234567890123\" ", 9), Nanoseconds{12'345'678'123'456'789});
  EXPECT_EQ(parse_decimal("0000000000000000000000000000001.", 0), Nanoseconds{1});
  EXPECT_EQ(parse_decimal(".5", 1), Nanoseconds{5});
  EXPECT_EQ(parse_decimal("4611686018.427387904", 9), Nanoseconds{1} << 62);
  EXPECT_EQ(parse_decimal("4611686018427387905", 0), std::nullopt);
  EXPECT_EQ(parse_decimal("10000000000000000000000", 0), std::nullopt);
  EXPECT_EQ(parse_decimal("9999999999999999999", 9), std::nullopt);
  EXPECT_EQ(parse_decimal("1e-3", 9), Nanoseconds{1'000'000});
  for (const char* wrong : {"", "-", ".", "1x", "nan", "inf", "99999999999999999999", "4611686019", "1e300"}) {
    EXPECT_EQ(parse_decimal(wrong, 9), std::nullopt) << wrong;
  }
  for (const char* wrong :
       {"2024-02-30T00:00:00", "2024-01-01", "2024-01-01T25:00:00", "2024-01-01T00:00:00+1:00", "x"}) {
    EXPECT_EQ(parse_date_time(wrong, Seconds(0)), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace flyball
