// Places the labels of a plot so that they cover neither each other nor the data, as far as there is room.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "draw/svg_canvas.h"

namespace flyball {

struct LabelSpot {
  double x = 0.0;
  double y = 0.0;  // of the baseline of the text
  Anchor anchor = Anchor::kStart;
};

struct Box {
  double left = 0.0;
  double top = 0.0;
  double right = 0.0;
  double bottom = 0.0;
};

class LabelLayout {
 public:
  // Labels keep within `bounds`.
  LabelLayout(Box bounds, double font_px) : bounds_(bounds), font_px_(font_px) {}

  // Adds a point that labels should not cover: of a curve, or a mark. Weight 1 is one point of a curve.
  void avoid(double x, double y, double weight = 1.0) { obstacles_.push_back({x, y, weight}); }
  // Adds the points of a line, and between them one every `step` pixels, each of weight 1.
  void avoid_line(const Points& points, double step, double weight = 1.0);

  // Returns the best of the spots, the earliest among equals, and takes its room.
  LabelSpot place(const std::string& text, const std::vector<LabelSpot>& spots);

 private:
  struct Obstacle {
    double x, y, weight;
  };

  [[nodiscard]] Box box_of(const std::string& text, const LabelSpot& spot) const;

  Box bounds_;
  double font_px_;
  std::vector<Obstacle> obstacles_;
  std::vector<Box> taken_;
};

// Returns eight spots around a point at each of three distances, the near ones first and at each the upper right first.
[[nodiscard]] std::vector<LabelSpot> spots_around(double x, double y, double distance, double font_px);

}  // namespace flyball
