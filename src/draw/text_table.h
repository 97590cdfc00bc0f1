// Plain-text tables for terminals and logs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flyball {

// A table with columns as wide as their widest cell (counted in code points), aligned right for numbers and left for
// text.
class TextTable {
 public:
  // One heading for each column. '<' before it, which is not shown, says that the column is of text; '>' that it is of
  // numbers, as it is without either: for headings that are not ours.
  explicit TextTable(std::vector<std::string> headings);

  // Not more cells than columns; missing ones at the end are left empty. What a terminal would obey is escaped, line
  // ends included.
  void add_row(std::vector<std::string> cells);

  // Heading, rule, rows; every line ends with a newline, none with blanks.
  [[nodiscard]] std::string str() const;

 private:
  std::vector<std::string> headings_;
  std::vector<bool> of_text_;
  std::vector<std::vector<std::string>> rows_;
};

// Fixed decimals; "-" when not finite; never "-0.00".
[[nodiscard]] std::string format_fixed(double value, int decimals);
// Fixed decimals with a leading plus or minus, for changes in per cent.
[[nodiscard]] std::string format_signed(double value, int decimals);

}  // namespace flyball
