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
  // Takes one heading for each column. A mark before a heading, which is not shown, says what the column holds: '<'
  // text, '>' numbers. Columns without a mark hold numbers; a heading that is not ours needs one, since it may begin
  // with either.
  explicit TextTable(std::vector<std::string> headings);

  // Adds a row of at most as many cells as there are columns; missing ones at its end are left empty. What a terminal
  // would obey is escaped, line ends included.
  void add_row(std::vector<std::string> cells);

  // Returns headings, rule and rows. Every line ends with a newline, and none with blanks before it.
  [[nodiscard]] std::string str() const;

 private:
  std::vector<std::string> headings_;
  std::vector<bool> of_text_;
  std::vector<std::vector<std::string>> rows_;
};

// Returns the number with fixed decimals; "-" where it is not finite, and never "-0.00".
[[nodiscard]] std::string format_fixed(double value, int decimals);
// Returns the number with fixed decimals and a leading plus or minus, for changes in per cent.
[[nodiscard]] std::string format_signed(double value, int decimals);

}  // namespace flyball
