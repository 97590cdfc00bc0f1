// A table that is fitted to the width of a terminal: as long as it is too wide, columns that may be cut short are, from
// the right, and where that is not enough the least important column is left out.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace flyball {

struct FittedColumn {
  std::string heading;
  int keep;  // the column with the least goes first
  bool left = false;
  bool shrinks = false;
  std::vector<std::string> cells;
  const char* colour = nullptr;  // of its cells, an ANSI code; null: the row's
  std::size_t width = 0;         // set by fit_columns()

  // Whether no cell is cut short.
  [[nodiscard]] bool is_whole() const;
};

// Sets the columns' widths, so that a line has at most `width` characters; leaves out some.
void fit_columns(std::vector<FittedColumn>& columns, std::size_t width);

// Returns the headings, and the cells of a row, as a line without its end. `colour` is the row's, null for none.
// Without `may_colour` nothing is coloured.
[[nodiscard]] std::string heading_line(const std::vector<FittedColumn>& columns, bool may_colour);
[[nodiscard]] std::string row_line(const std::vector<FittedColumn>& columns, std::size_t row, const char* colour,
                                   bool may_colour);

// Returns the first `width` characters, of which the last tells whether there were more; control characters are
// escaped.
[[nodiscard]] std::string shortened(const std::string& foreign, std::size_t width);

// Returns the text in a colour, an ANSI code; null: as it is.
[[nodiscard]] std::string coloured(bool may_colour, const char* code, const std::string& text);

}  // namespace flyball
