#include "account/trace_time.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <system_error>

namespace flyball {
namespace {

std::string_view bare(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const auto trim = [&text, kBlank] {
    while (!text.empty() && kBlank.find(text.front()) != std::string_view::npos) text.remove_prefix(1);
    while (!text.empty() && kBlank.find(text.back()) != std::string_view::npos) text.remove_suffix(1);
  };
  trim();
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
    trim();
  }
  return text;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes `count` digits off the front.
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

// "Z", "+01:00", "+0100", " UTC"; `ahead` stays as it is where there is none.
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
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  text = bare(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  const bool negative = text.starts_with('-');
  std::size_t at = negative ? 1 : 0;
  const std::size_t first = at;
  std::int64_t value = 0;
  bool fits = true;
  const auto append = [&](int digit) {
    if (value > (kMost - digit) / 10) fits = false;
    if (fits) value = value * 10 + digit;
  };
  while (at < text.size() && is_digit(text[at])) append(text[at++] - '0');
  const std::size_t whole = at - first;
  std::size_t fraction = 0;
  int left = digits;
  if (at < text.size() && text[at] == '.') {
    for (++at; at < text.size() && is_digit(text[at]); ++at, ++fraction) {
      if (left > 0) {
        append(text[at] - '0');
        --left;
      } else if (fraction == static_cast<std::size_t>(digits) && text[at] >= '5') {
        ++value;
      }
    }
  }
  if (whole + fraction == 0) return std::nullopt;
  if (at == text.size()) {
    for (; left > 0; --left) append(0);
    if (!fits) return std::nullopt;
    return negative ? -value : value;
  }
  double number = 0.0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  number *= std::pow(10.0, digits);
  if (!(std::abs(number) < static_cast<double>(kMost))) return std::nullopt;
  return std::llround(number);
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
  if (!minute || !take(text, ":")) return std::nullopt;
  const auto second = take_number(text, 2);
  if (!second || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  Nanoseconds fraction = 0;
  if (take(text, ".,")) {
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
