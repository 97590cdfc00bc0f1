// Points in time as traces write them, exactly: a double holds no nanoseconds of today.
#pragma once

#include <optional>
#include <string_view>

#include "base/units.h"

namespace flyball {

// A decimal number ("4423698059538.328", "1e3") times 10^digits, rounded to a whole one; digits up to 9. Exact but for
// numbers with an exponent. nullopt where the text is no finite one or the result is beyond 2^62. Surrounding blanks
// and quotes are let pass.
[[nodiscard]] std::optional<Nanoseconds> parse_decimal(std::string_view text, int digits);

// "2024-01-31T12:00:00.123456789+01:00", with 'T' or blanks, '-' or '/', "Z", an offset or none, with or without
// seconds; since 1970-01-01. A stamp without a zone is local time, `utc_offset` ahead of UTC. nullopt where the text is
// no such stamp or no such day exists.
[[nodiscard]] std::optional<Nanoseconds> parse_date_time(std::string_view text, Seconds utc_offset);

// "+01:00", "-0530", "Z": how far local time is ahead of UTC.
[[nodiscard]] std::optional<Seconds> parse_utc_offset(std::string_view text);

}  // namespace flyball
