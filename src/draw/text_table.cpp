// Cells are kept as texts until str(), which measures all columns first. Control characters are escaped in add_row().
#include "draw/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "base/printable.h"
#include "base/utf8.h"

namespace flyball {
namespace {

std::string pad(const std::string& text, std::size_t width, bool left) {
  const std::string blanks(width - std::min(width, count_characters(text)), ' ');
  return left ? text + blanks : blanks + text;
}

void append_line(std::string& out, std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + '\n';
}

}  // namespace

TextTable::TextTable(std::vector<std::string> headings) : headings_(std::move(headings)) {
  for (std::string& heading : headings_) {
    of_text_.push_back(heading.starts_with('<'));
    if (of_text_.back() || heading.starts_with('>')) heading.erase(0, 1);
  }
}

void TextTable::add_row(std::vector<std::string> cells) {
  assert(cells.size() <= headings_.size());
  for (std::string& cell : cells) cell = printable(cell);
  cells.resize(headings_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::str() const {
  std::vector<std::size_t> widths;
  for (const std::string& heading : headings_) widths.push_back(count_characters(heading));
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], count_characters(row[c]));
  }
  const auto line_of = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (c > 0) line += "  ";
      line += pad(cells[c], widths[c], of_text_[c]);
    }
    return line;
  };
  std::string rule;
  for (std::size_t c = 0; c < widths.size(); ++c) rule += (c > 0 ? "  " : "") + std::string(widths[c], '-');

  std::string out;
  append_line(out, line_of(headings_));
  append_line(out, rule);
  for (const auto& row : rows_) append_line(out, line_of(row));
  return out;
}

std::string format_fixed(double value, int decimals) {
  if (!std::isfinite(value)) return "-";
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.front() == '-' && text.find_first_not_of("-0.") == std::string::npos) text.erase(0, 1);
  return text;
}

std::string format_signed(double value, int decimals) {
  const std::string text = format_fixed(value, decimals);
  return text.front() == '-' || text.find_first_not_of("0.") == std::string::npos ? text : '+' + text;
}

}  // namespace flyball
