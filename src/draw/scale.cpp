// The step is the smallest of 1, 2, 5 and 10 times a power of ten that gives no more than the wanted number of ticks.
#include "draw/scale.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "draw/text_table.h"

namespace flyball {
namespace {

constexpr const char* kNarrowSpace = "\u202f";

int decimals_of_step(double step) { return std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 9); }

}  // namespace

std::string Ticks::label(double value) const { return grouped_number(value, decimals_of_step(step)); }

Ticks round_ticks(double from, double to, int count) {
  const double raw = std::max((to - from) / std::max(count, 1), 1e-12);
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10.0 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * (1.0 - 1e-9)) {
      step = factor * power;
      break;
    }
  }
  Ticks ticks{{}, step};
  const double slack = 1e-9 * (to - from);
  for (double k = std::ceil((from - slack) / step); k * step <= to + slack; k += 1.0) ticks.values.push_back(k * step);
  return ticks;
}

std::string grouped_number(double value, int decimals) {
  std::string plain = format_fixed(value, decimals);
  const std::size_t sign = plain.front() == '-' ? 1 : 0;
  const std::size_t whole_end = std::min(plain.find('.'), plain.size());
  if (!std::isfinite(value) || whole_end - sign < 5) return plain;
  std::string out;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (i > sign && i < whole_end && (whole_end - i) % 3 == 0) out += kNarrowSpace;
    out += plain[i];
  }
  return out;
}

std::string short_number(double value) {
  if (!std::isfinite(value)) return "-";
  const double size = std::abs(value);
  const int digits = size > 0.0 ? static_cast<int>(std::floor(std::log10(size))) : 0;
  return grouped_number(value, value == std::round(value) ? 0 : std::clamp(3 - digits, 0, 6));
}

double rounded_number(double value, int digits) {
  if (!(std::abs(value) > 1e-30)) return 0.0;
  const int decimals = digits - 1 - static_cast<int>(std::floor(std::log10(std::abs(value))));
  // Divides where digits are decimals: a product would be a neighbouring number, which takes 17 digits to write.
  const double power = std::pow(10.0, std::abs(decimals));
  return decimals >= 0 ? std::round(value * power) / power : std::round(value / power) * power;
}

}  // namespace flyball
