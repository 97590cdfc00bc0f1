// Digits are read as integers, so that nothing is rounded before the last digit that is kept; days come from
// std::chrono's calendar.
#include "base/time_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <system_error>

#include "base/text.h"

namespace flyball {
namespace {

std::string_view bare(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  return trim(unquoted(trim(text, kBlanks)), kBlanks);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Removes at most `most` digits from the front of `text`. Their value is right for up to 19 digits.
std::uint64_t take_digits(std::string_view& text, std::size_t most) {
  std::uint64_t value = 0;
  std::size_t at = 0;
  most = std::min(most, text.size());
  for (; at < most && is_digit(text[at]); ++at) value = value * 10 + static_cast<std::uint64_t>(text[at] - '0');
  text.remove_prefix(at);
  return value;
}

constexpr std::int64_t kMost = std::int64_t{1} << 62;
constexpr std::array<std::uint64_t, 10> kPowersOfTen{1,       10,        100,        1'000,       10'000,
                                                     100'000, 1'000'000, 10'000'000, 100'000'000, 1'000'000'000};

std::optional<Nanoseconds> parse_scientific(std::string_view text, int digits) {
  double number = 0.0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  number *= std::pow(10.0, digits);
  if (!(std::abs(number) < static_cast<double>(kMost))) return std::nullopt;
  return std::llround(number);
}

// Removes `count` digits from the front.
std::optional<int> take_number(std::string_view& text, std::size_t count) {
  if (text.size() < count) return std::nullopt;
  int value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_digit(text[i])) return std::nullopt;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(count);
  return value;
}

bool take(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

// Reads "Z", "+01:00", "+0100" or " UTC"; leaves `ahead` as it is if there is none.
bool take_zone(std::string_view text, std::int64_t& ahead) {
  while (take(text, " ")) {
  }
  if (text.empty()) return true;
  if (text == "Z" || text == "z" || text == "UTC") {
    ahead = 0;
    return true;
  }
  const bool west = text.front() == '-';
  if (!take(text, "+-")) return false;
  const auto hours = take_number(text, 2);
  take(text, ":");
  const auto minutes = text.empty() ? std::optional(0) : take_number(text, 2);
  if (!hours || !minutes || !text.empty() || *hours > 18 || *minutes > 59) return false;
  ahead = (std::int64_t{*hours} * 3600 + std::int64_t{*minutes} * 60) * (west ? -1 : 1);
  return true;
}

}  // namespace

std::optional<Nanoseconds> parse_decimal(std::string_view text, int digits) {
  if (text.empty() || !is_digit(text.front()) || !is_digit(text.back())) text = bare(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative) rest.remove_prefix(1);
  const std::size_t from_sign = rest.size();
  while (rest.starts_with('0')) rest.remove_prefix(1);
  const std::size_t from_first = rest.size();
  const std::uint64_t whole = take_digits(rest, rest.size());
  const std::size_t whole_digits = from_first - rest.size();
  bool any_digit = rest.size() < from_sign;
  std::uint64_t fraction = 0;
  auto missing = static_cast<std::size_t>(digits);  // of the digits behind the point
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    const std::size_t from_point = rest.size();
    fraction = take_digits(rest, missing);
    missing -= from_point - rest.size();
    fraction *= kPowersOfTen[missing];
    if (!rest.empty() && is_digit(rest.front())) {
      if (rest.front() >= '5') ++fraction;
      take_digits(rest, rest.size());
    }
    any_digit = any_digit || rest.size() < from_point;
  }
  if (!any_digit) return std::nullopt;
  if (!rest.empty()) return parse_scientific(text, digits);
  std::int64_t value = 0;
  const bool fits = whole_digits <= 19 &&
                    !__builtin_mul_overflow(whole, kPowersOfTen[static_cast<std::size_t>(digits)], &value) &&
                    !__builtin_add_overflow(value, fraction, &value) && value <= kMost;
  return fits ? std::optional(negative ? -value : value) : std::nullopt;
}

std::optional<Seconds> parse_utc_offset(std::string_view text) {
  std::int64_t ahead = 0;
  if (text.empty() || !take_zone(text, ahead)) return std::nullopt;
  return Seconds(static_cast<double>(ahead));
}

std::optional<Nanoseconds> parse_date_time(std::string_view text, Seconds utc_offset) {
  text = bare(text);
  const auto year = take_number(text, 4);
  if (!year || !take(text, "-/")) return std::nullopt;
  const auto month = take_number(text, 2);
  if (!month || !take(text, "-/")) return std::nullopt;
  const auto day = take_number(text, 2);
  if (!day || !take(text, "Tt ")) return std::nullopt;
  while (take(text, " ")) {
  }
  const auto hour = take_number(text, 2);
  if (!hour || !take(text, ":")) return std::nullopt;
  const auto minute = take_number(text, 2);
  const bool to_the_second = take(text, ":");
  const auto second = to_the_second ? take_number(text, 2) : 0;
  if (!minute || !second || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  Nanoseconds fraction = 0;
  if (to_the_second && take(text, ".,")) {
    Nanoseconds unit = 100'000'000;
    std::size_t count = 0;
    for (; !text.empty() && is_digit(text.front()); text.remove_prefix(1), ++count, unit /= 10) {
      fraction += unit * (text.front() - '0');
    }
    if (count == 0) return std::nullopt;
  }
  auto ahead = std::int64_t{std::llround(utc_offset.value())};
  if (!take_zone(text, ahead)) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *year < 1900 || *year > 2200) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const std::int64_t seconds = days * 86400 + *hour * INT64_C(3600) + *minute * INT64_C(60) + *second - ahead;
  return seconds * 1'000'000'000 + fraction;
}

}  // namespace flyball
