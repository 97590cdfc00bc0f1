// Greedy: each label takes the cheapest of its spots. A spot costs by how far it leaves the bounds, how much it
// overlaps labels already placed, and the weights of the obstacles that it covers; earlier spots are slightly cheaper.
#include "draw/label_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace flyball {
namespace {

constexpr double kPadding = 2.0;

double overlap(const Box& a, const Box& b) {
  const double w = std::min(a.right, b.right) - std::max(a.left, b.left);
  const double h = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  return w > 0.0 && h > 0.0 ? w * h : 0.0;
}

double outside(const Box& box, const Box& bounds) {
  return std::max(0.0, bounds.left - box.left) + std::max(0.0, box.right - bounds.right) +
         std::max(0.0, bounds.top - box.top) + std::max(0.0, box.bottom - bounds.bottom);
}

}  // namespace

Box LabelLayout::box_of(const std::string& text, const LabelSpot& spot) const {
  const double width = text_width(text, font_px_);
  const double left = spot.anchor == Anchor::kStart    ? spot.x
                      : spot.anchor == Anchor::kMiddle ? spot.x - width / 2.0
                                                       : spot.x - width;
  return {left - kPadding, spot.y - 0.8 * font_px_ - kPadding, left + width + kPadding,
          spot.y + 0.25 * font_px_ + kPadding};
}

void LabelLayout::avoid_line(const Points& points, double step, double weight) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto [x, y] = points[i];
    avoid(x, y, weight);
    if (i == 0) continue;
    const auto [from_x, from_y] = points[i - 1];
    const int pieces = static_cast<int>(std::hypot(x - from_x, y - from_y) / step);
    for (int k = 1; k < pieces; ++k) avoid(from_x + (x - from_x) * k / pieces, from_y + (y - from_y) * k / pieces);
  }
}

LabelSpot LabelLayout::place(const std::string& text, const std::vector<LabelSpot>& spots) {
  LabelSpot best = spots.front();
  double best_cost = std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < spots.size(); ++k) {
    const Box box = box_of(text, spots[k]);
    double cost = 0.05 * static_cast<double>(k) + 100.0 * outside(box, bounds_);
    for (const Box& other : taken_) cost += 10.0 * overlap(box, other);
    for (const Obstacle& o : obstacles_) {
      if (o.x > box.left && o.x < box.right && o.y > box.top && o.y < box.bottom) cost += o.weight;
    }
    if (cost < best_cost) {
      best_cost = cost;
      best = spots[k];
    }
  }
  taken_.push_back(box_of(text, best));
  return best;
}

std::vector<LabelSpot> spots_around(double x, double y, double distance, double font_px) {
  std::vector<LabelSpot> spots;
  const double middle = 0.32 * font_px;
  for (const double d : {distance, 2.2 * distance, 4.0 * distance}) {
    spots.push_back({x + d, y - d + middle, Anchor::kStart});
    spots.push_back({x + 1.2 * d, y + middle, Anchor::kStart});
    spots.push_back({x + d, y + d + 0.7 * font_px, Anchor::kStart});
    spots.push_back({x, y - 1.3 * d, Anchor::kMiddle});
    spots.push_back({x, y + 1.3 * d + 0.7 * font_px, Anchor::kMiddle});
    spots.push_back({x - d, y - d + middle, Anchor::kEnd});
    spots.push_back({x - 1.2 * d, y + middle, Anchor::kEnd});
    spots.push_back({x - d, y + d + 0.7 * font_px, Anchor::kEnd});
  }
  return spots;
}

}  // namespace flyball
