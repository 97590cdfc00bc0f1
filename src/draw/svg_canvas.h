// A growing SVG picture. Styles are classes of web/chart.css, so that one picture serves light and dark, alone or
// inside a page. Coordinates in pixels, y downwards.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flyball {

// Makes text safe for element content and attribute values.
[[nodiscard]] std::string escape_markup(std::string_view text);

// Writes a coordinate with at most two decimals and no trailing zeros: files are small and the same everywhere.
[[nodiscard]] std::string coordinate(double value);

// Estimates the width of sans-serif text, rather too wide than too narrow.
[[nodiscard]] double text_width(std::string_view text, double font_px);

enum class Anchor { kStart, kMiddle, kEnd };

using Points = std::vector<std::pair<double, double>>;

class SvgCanvas {
 public:
  // `label` says what the picture shows, for readers who cannot see it.
  SvgCanvas(double width, double height, std::string label);

  // `css` is one or more class names; `fill` a colour or empty for the class's own; `title` appears on hovering.
  void rect(double x, double y, double width, double height, std::string_view css, std::string_view fill = {},
            std::string_view title = {}, double radius = 0.0);
  void circle(double x, double y, double radius, std::string_view css, std::string_view title = {});
  void line(double x1, double y1, double x2, double y2, std::string_view css);
  void polyline(const Points& points, std::string_view css);
  // Draws a closed outline.
  void polygon(const Points& points, std::string_view css, std::string_view title = {});
  // Draws text. "_{...}" in the content, once at most, is set as an index.
  void text(double x, double y, std::string_view content, std::string_view css, Anchor anchor = Anchor::kStart);
  // The next two take style and fill from the group: a path, and text at the height of the group's origin.
  void path(std::string_view outline, std::string_view title = {});
  void label(double x, std::string_view content);
  // Draws text that is turned by a quarter and reads upwards.
  void vertical_text(double x, double y, std::string_view content, std::string_view css);

  // Everything drawn until close_group() is moved by (x, y).
  void open_group(double x, double y);
  // Everything drawn until close_group() has these attributes: markup.
  void open_group(std::string_view attributes);
  void close_group();
  // Copies another picture's content, moved by (x, y).
  void place(const SvgCanvas& other, double x, double y);

  [[nodiscard]] double width() const { return width_; }
  [[nodiscard]] double height() const { return height_; }

  // Returns the picture as a file of its own, with styles and background.
  [[nodiscard]] std::string standalone() const;
  // Returns the picture for a page that brings the styles; `css` are classes of the svg element.
  [[nodiscard]] std::string inlined(std::string_view css) const;

 private:
  double width_;
  double height_;
  std::string label_;
  std::string body_;
};

// Draws a square of each class with its name, in lines that wrap at `right`. Returns the y below them.
double draw_legend(SvgCanvas& svg, const std::vector<std::pair<std::string, std::string>>& entries, double left,
                   double top, double right);

}  // namespace flyball
