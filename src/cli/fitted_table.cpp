// Widths are counted in characters of UTF-8, each of which is taken to be as wide as any other.
#include "cli/fitted_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "base/utf8.h"

namespace flyball {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kLeastText = 6;  // what a shortened column keeps

std::size_t total_width(const std::vector<FittedColumn>& columns) {
  std::size_t total = columns.empty() ? 0 : kGap * (columns.size() - 1);
  for (const FittedColumn& column : columns) total += column.width;
  return total;
}

std::size_t least_width(const FittedColumn& column) {
  return std::min(column.width, std::max(kLeastText, count_characters(column.heading)));
}

std::string padded(const std::string& text, std::size_t width, bool left) {
  const std::string fitting = shortened(text, width);
  const std::string blanks(width - count_characters(fitting), ' ');
  return left ? fitting + blanks : blanks + fitting;
}

void end_line(std::string& line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
}

}  // namespace

bool FittedColumn::is_whole() const {
  return std::ranges::all_of(cells, [&](const std::string& cell) { return count_characters(cell) <= width; });
}

void fit_columns(std::vector<FittedColumn>& columns, std::size_t width) {
  for (FittedColumn& column : columns) {
    column.width = count_characters(column.heading);
    for (const std::string& cell : column.cells) column.width = std::max(column.width, count_characters(cell));
  }
  while (total_width(columns) > width && columns.size() > 1) {
    std::size_t spare = 0;
    for (const FittedColumn& column : columns) {
      if (column.shrinks) spare += column.width - least_width(column);
    }
    std::size_t excess = total_width(columns) - width;
    if (spare >= excess) {
      // From the right: a lease's holder is longer than the reason that holds a clock back.
      for (auto at = columns.rbegin(); at != columns.rend(); ++at) {
        if (!at->shrinks) continue;
        const std::size_t cut = std::min(excess, at->width - least_width(*at));
        at->width -= cut;
        excess -= cut;
      }
      return;
    }
    columns.erase(std::ranges::min_element(columns, {}, &FittedColumn::keep));
  }
}

std::string heading_line(const std::vector<FittedColumn>& columns, bool may_colour) {
  std::string line;
  for (const FittedColumn& column : columns) {
    line += (line.empty() ? "" : std::string(kGap, ' ')) + padded(column.heading, column.width, column.left);
  }
  line = coloured(may_colour, "1", line);
  end_line(line);
  return line;
}

std::string row_line(const std::vector<FittedColumn>& columns, std::size_t row, const char* colour, bool may_colour) {
  std::string line;
  for (const FittedColumn& column : columns) {
    line += (line.empty() ? "" : std::string(kGap, ' ')) +
            coloured(may_colour, column.colour != nullptr ? column.colour : colour,
                     padded(column.cells[row], column.width, column.left));
  }
  end_line(line);
  return line;
}

std::string shortened(const std::string& foreign, std::size_t width) {
  std::string text = printable(foreign);
  if (count_characters(text) <= width) return text;
  if (width == 0) return {};
  std::string cut;
  std::size_t count = 0;
  for (const char c : text) {
    const bool begins = (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
    if (begins && ++count == width) break;
    cut += c;
  }
  return cut + "…";
}

std::string coloured(bool may_colour, const char* code, const std::string& text) {
  return may_colour && code != nullptr ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
}

}  // namespace flyball
