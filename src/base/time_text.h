// Reads points in time from text exactly: a double cannot hold today's time in nanoseconds. Every reader of files that
// have dates, or seconds with many digits, uses these. Functions may be called from several threads.
#pragma once

#include <optional>
#include <string_view>

#include "base/units.h"

namespace flyball {

// The greatest distance from zero that a reader takes. It leaves room for differences of two times and for sums of two.
inline constexpr Nanoseconds kFarthestTime = Nanoseconds{1} << 61;

// Reads a decimal number ("4423698059538.328", "1e3"), times 10^digits, rounded to a whole number; digits up to 9.
// Exact except for numbers with an exponent. Returns nullopt where the text is no finite number, or the result is
// beyond 2^62. Blanks and quotes around it are allowed.
[[nodiscard]] std::optional<Nanoseconds> parse_decimal(std::string_view text, int digits);

// Reads "2024-01-31T12:00:00.123456789+01:00", with 'T' or blanks, '-' or '/', "Z", an offset or none, with or without
// seconds, as nanoseconds since 1970-01-01. A stamp without a zone is local time, `utc_offset` ahead of UTC. Returns
// nullopt where the text is no such stamp, or there is no such day.
[[nodiscard]] std::optional<Nanoseconds> parse_date_time(std::string_view text, Seconds utc_offset);

// Reads how far local time is ahead of UTC: "+01:00", "-0530", "Z".
[[nodiscard]] std::optional<Seconds> parse_utc_offset(std::string_view text);

}  // namespace flyball
