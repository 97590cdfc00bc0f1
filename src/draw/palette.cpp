// Linear interpolation between nine samples of the viridis map.
#include "draw/palette.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace flyball {
namespace {

struct Rgb {
  double r, g, b;
};

// Nine even samples of matplotlib's viridis map (CC0).
constexpr std::array<Rgb, 9> kRamp = {{
    {0x44, 0x01, 0x54},
    {0x47, 0x2d, 0x7b},
    {0x3b, 0x52, 0x8b},
    {0x2c, 0x72, 0x8e},
    {0x21, 0x91, 0x8c},
    {0x28, 0xae, 0x80},
    {0x5e, 0xc9, 0x62},
    {0xad, 0xdc, 0x30},
    {0xfd, 0xe7, 0x25},
}};

Rgb ramp_at(double share) {
  const double position = share * static_cast<double>(kRamp.size() - 1);
  const auto index = std::min(static_cast<std::size_t>(position), kRamp.size() - 2);
  const double t = position - static_cast<double>(index);
  const Rgb& a = kRamp[index];
  const Rgb& b = kRamp[index + 1];
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
