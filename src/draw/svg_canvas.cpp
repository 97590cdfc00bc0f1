// Elements are appended as text; a picture within another is its text in a moved group. Text is never measured, only
// estimated by classes of letters.
#include "draw/svg_canvas.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "draw/web_files.h"

namespace flyball {
namespace {

std::string class_and_fill(std::string_view css, std::string_view fill) {
  std::string out;
  if (!css.empty()) out += fmt::format(" class=\"{}\"", css);
  if (!fill.empty()) out += fmt::format(" fill=\"{}\"", fill);
  return out;
}

// The end of an element: with a title inside, or closed at once.
std::string element_end(std::string_view tag, std::string_view title) {
  if (title.empty()) return "/>\n";
  return fmt::format("><title>{}</title></{}>\n", escape_markup(title), tag);
}

// Writes a text such as "T_{min}" with its index lowered.
std::string with_indices(std::string_view text) {
  const std::size_t open = text.find("_{");
  const std::size_t close = open == std::string_view::npos ? open : text.find('}', open);
  if (close == std::string_view::npos) return escape_markup(text);
  return fmt::format("{}<tspan dy=\"3\" font-size=\"85%\">{}</tspan><tspan dy=\"-3\">{}</tspan>",
                     escape_markup(text.substr(0, open)), escape_markup(text.substr(open + 2, close - open - 2)),
                     // A space of no width carries the line back up where nothing follows.
                     close + 1 < text.size() ? escape_markup(text.substr(close + 1)) : "\u200b");
}

std::string point_list(const Points& points) {
  std::string out;
  for (const auto& [x, y] : points) {
    if (!out.empty()) out += ' ';
    out += coordinate(x) + ',' + coordinate(y);
  }
  return out;
}

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default:
        // Other control characters are not allowed in XML at all.
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') out += c;
    }
  }
  return out;
}

std::string coordinate(double value) {
  const double rounded = std::round(value * 100.0) / 100.0;
  // Adding zero turns -0 into 0.
  return fmt::format("{}", rounded + 0.0);
}

double text_width(std::string_view text, double font_px) {
  double em = 0.0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0U) == 0x80U) continue;
    if (c == ' ' || c == '.' || c == ',' || c == 'i' || c == 'l' || c == ':' || c == '(' || c == ')') {
      em += 0.34;
    } else if (c == 'm' || c == 'w' || c == '%' || (c >= 'A' && c <= 'Z')) {
      em += 0.76;
    } else {
      em += 0.58;
    }
  }
  return em * font_px;
}

SvgCanvas::SvgCanvas(double width, double height, std::string label)
    : width_(width), height_(height), label_(std::move(label)) {}

void SvgCanvas::rect(double x, double y, double width, double height, std::string_view css, std::string_view fill,
                     std::string_view title, double radius) {
  fmt::format_to(std::back_inserter(body_), R"(<rect x="{}" y="{}" width="{}" height="{}"{}{}{})", coordinate(x),
                 coordinate(y), coordinate(width), coordinate(height),
                 radius > 0.0 ? fmt::format(" rx=\"{}\"", coordinate(radius)) : "", class_and_fill(css, fill),
                 element_end("rect", title));
}

void SvgCanvas::circle(double x, double y, double radius, std::string_view css, std::string_view title) {
  fmt::format_to(std::back_inserter(body_), R"(<circle cx="{}" cy="{}" r="{}"{}{})", coordinate(x), coordinate(y),
                 coordinate(radius), class_and_fill(css, {}), element_end("circle", title));
}

void SvgCanvas::line(double x1, double y1, double x2, double y2, std::string_view css) {
  fmt::format_to(std::back_inserter(body_), "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"{}/>\n", coordinate(x1),
                 coordinate(y1), coordinate(x2), coordinate(y2), class_and_fill(css, {}));
}

void SvgCanvas::polyline(const Points& points, std::string_view css) {
  if (points.size() < 2) return;
  fmt::format_to(std::back_inserter(body_), "<polyline points=\"{}\"{}/>\n", point_list(points),
                 class_and_fill(css, {}));
}

void SvgCanvas::polygon(const Points& points, std::string_view css, std::string_view title) {
  fmt::format_to(std::back_inserter(body_), "<polygon points=\"{}\"{}{}", point_list(points), class_and_fill(css, {}),
                 element_end("polygon", title));
}

void SvgCanvas::path(std::string_view outline, std::string_view title) {
  fmt::format_to(std::back_inserter(body_), "<path d=\"{}\"{}", outline, element_end("path", title));
}

void SvgCanvas::label(double x, std::string_view content) {
  fmt::format_to(std::back_inserter(body_), "<text x=\"{}\">{}</text>", coordinate(x), escape_markup(content));
}

void SvgCanvas::text(double x, double y, std::string_view content, std::string_view css, Anchor anchor) {
  const char* const side = anchor == Anchor::kMiddle ? R"( text-anchor="middle")"
                           : anchor == Anchor::kEnd  ? R"( text-anchor="end")"
                                                     : "";
  fmt::format_to(std::back_inserter(body_), "<text x=\"{}\" y=\"{}\"{}{}>{}</text>\n", coordinate(x), coordinate(y),
                 side, class_and_fill(css, {}), with_indices(content));
}

void SvgCanvas::vertical_text(double x, double y, std::string_view content, std::string_view css) {
  fmt::format_to(std::back_inserter(body_),
                 "<text transform=\"translate({} {}) rotate(-90)\" text-anchor=\"middle\"{}>{}</text>\n", coordinate(x),
                 coordinate(y), class_and_fill(css, {}), escape_markup(content));
}

void SvgCanvas::open_group(double x, double y) {
  fmt::format_to(std::back_inserter(body_), "<g transform=\"translate({} {})\">\n", coordinate(x), coordinate(y));
}

void SvgCanvas::open_group(std::string_view attributes) {
  fmt::format_to(std::back_inserter(body_), "<g {}>\n", attributes);
}

void SvgCanvas::close_group() { body_ += "</g>\n"; }

void SvgCanvas::place(const SvgCanvas& other, double x, double y) {
  open_group(x, y);
  body_ += other.body_;
  close_group();
}

std::string SvgCanvas::standalone() const {
  const std::string w = coordinate(width_);
  const std::string h = coordinate(height_);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
      "aria-label=\"{2}\">\n<style>{3}</style>\n<rect width=\"{0}\" height=\"{1}\" class=\"paper\"/>\n{4}</svg>\n",
      w, h, escape_markup(label_), embedded_file(web_files(), "chart.css"), body_);
}

std::string SvgCanvas::inlined(std::string_view css) const {
  return fmt::format("<svg class=\"{}\" width=\"{}\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
                     css, coordinate(width_), coordinate(width_), coordinate(height_), escape_markup(label_), body_);
}

double draw_legend(SvgCanvas& svg, const std::vector<std::pair<std::string, std::string>>& entries, double left,
                   double top, double right) {
  double x = left;
  double y = top;
  for (const auto& [css, name] : entries) {
    const double width = 16.0 + text_width(name, 11.0) + 12.0;
    if (x + width > right && x > left) {
      x = left;
      y += 17.0;
    }
    svg.rect(x, y, 11.0, 11.0, css);
    svg.text(x + 16.0, y + 9.5, name, "small soft");
    x += width;
  }
  return y + 17.0;
}

}  // namespace flyball
