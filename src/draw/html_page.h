// The page around every HTML report: one self-contained file (no network, no fonts, no dates) that follows the reader's
// light or dark setting.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flyball {

// All members except the title and the commands are markup, already escaped.
struct HtmlPage {
  std::string title;
  std::string headline;                 // the one sentence that a reader should take away
  std::string body;                     // sections, each under an <h2>
  std::vector<std::string> commands;    // that made the page; none: no "Made by"
  std::string closing;                  // after the commands: the explanation of words
  std::vector<std::string_view> files;  // for page_file(), beyond those that every page has
};

[[nodiscard]] std::string html_document(const HtmlPage& page);

// Returns a script or style by its name: of web/, or of the library of charts.
[[nodiscard]] std::string_view page_file(std::string_view name);

// A picture in two drawings, of which web/page.css shows the one that fits the window. `draw` makes one of the given
// width, in pixels.
template <class Draw>
[[nodiscard]] std::string in_both_widths(const Draw& draw) {
  return draw(1000).inlined("wide") + draw(380).inlined("narrow");
}

// Returns the JSON in a form that a script element can hold: nothing in its texts ends the element.
[[nodiscard]] std::string script_json(std::string json);

// A table whose first column is aligned left and whose other columns are aligned right. It scrolls by itself where the
// page is narrow.
class HtmlTable {
 public:
  explicit HtmlTable(const std::vector<std::string>& headings);  // markup
  // `css` are classes of the first cell.
  void row(const std::vector<std::string>& cells, std::string_view css = {});
  [[nodiscard]] std::string str() const;

 private:
  std::string body_;
};

}  // namespace flyball
