// Linear interpolation between nine samples of a map of colours.
#include "draw/palette.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

#include "draw/web_files.h"

namespace flyball {
namespace {

struct Rgb {
  double r, g, b;
};

constexpr std::size_t kSamples = 9;

// --w0 to --w8 of web/chart.css, which the scripts of pages read, too.
std::array<Rgb, kSamples> read_ramp() {
  const std::string_view css = embedded_file(web_files(), "chart.css");
  std::array<Rgb, kSamples> ramp{};
  for (std::size_t k = 0; k < kSamples; ++k) {
    const std::string name = fmt::format("--w{}:#", k);
    const char* digits = css.data() + css.find(name) + name.size();
    unsigned rgb = 0;
    std::from_chars(digits, digits + 6, rgb, 16);
    ramp[k] = {static_cast<double>(rgb >> 16U), static_cast<double>((rgb >> 8U) & 0xffU),
               static_cast<double>(rgb & 0xffU)};
  }
  return ramp;
}

Rgb ramp_at(double share) {
  static const std::array<Rgb, kSamples> ramp = read_ramp();
  const double position = share * static_cast<double>(ramp.size() - 1);
  const auto index = std::min(static_cast<std::size_t>(position), ramp.size() - 2);
  const double t = position - static_cast<double>(index);
  const Rgb& a = ramp[index];
  const Rgb& b = ramp[index + 1];
  return {a.r + t * (b.r - a.r), a.g + t * (b.g - a.g), a.b + t * (b.b - a.b)};
}

}  // namespace

PowerScale::PowerScale(Watts least, Watts most)
    : least_(std::floor(least.value() / 25.0) * 25.0), most_(std::ceil(most.value() / 25.0) * 25.0) {
  if (most_ <= least_) most_ = least_ + Watts(25.0);
}

double PowerScale::share(Watts power) const { return std::clamp((power - least_) / (most_ - least_), 0.0, 1.0); }

std::string PowerScale::color(Watts power) const {
  const Rgb rgb = ramp_at(share(power));
  return fmt::format("#{:02x}{:02x}{:02x}", std::lround(rgb.r), std::lround(rgb.g), std::lround(rgb.b));
}

bool PowerScale::is_dark(Watts power) const {
  const Rgb rgb = ramp_at(share(power));
  // Perceived brightness by the weights of ITU-R BT.601.
  return 0.299 * rgb.r + 0.587 * rgb.g + 0.114 * rgb.b <= 125.0;
}

}  // namespace flyball
