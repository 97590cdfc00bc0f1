#include "draw/html_page.h"

#include <fmt/format.h>

#include "draw/style.h"
#include "draw/svg_canvas.h"

namespace flyball {

std::string html_document(const HtmlPage& page) {
  std::string out = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  out += "<meta name=\"color-scheme\" content=\"light dark\">\n";
  out += fmt::format("<title>{}</title>\n<style>{}{}{}</style>\n</head>\n<body>\n", escape_markup(page.title),
                     chart_css(), page_css(), page.css);
  out += fmt::format("<header>\n<h1>{}</h1>\n<p class=\"headline\">{}</p>\n</header>\n<main>\n",
                     escape_markup(page.title), page.headline);
  out += page.body;
  if (!page.commands.empty()) {
    out += "<h2>Made by</h2>\n<pre tabindex=\"0\">";
    for (const std::string& command : page.commands) out += escape_markup(command) + '\n';
    out += "</pre>\n";
  }
  out += page.closing;
  out += "</main>\n<div id=\"tip\" class=\"tip\" role=\"tooltip\" hidden></div>\n";
  if (!page.script.empty()) out += "<script>\n" + page.script + "</script>\n";
  out += "</body>\n</html>\n";
  return out;
}

HtmlTable::HtmlTable(const std::vector<std::string>& headings) {
  body_ = "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>";
  for (const std::string& heading : headings) {
    body_ += (&heading == &headings.front() ? "<th scope=\"col\" class=\"left\">" : "<th scope=\"col\">") + heading +
             "</th>";
  }
  body_ += "</tr></thead><tbody>\n";
}

void HtmlTable::row(const std::vector<std::string>& cells, std::string_view css) {
  body_ += "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    body_ += i == 0 ? fmt::format("<th scope=\"row\" class=\"left {}\">{}</th>", css, escape_markup(cells[0]))
                    : "<td>" + escape_markup(cells[i]) + "</td>";
  }
  body_ += "</tr>\n";
}

std::string HtmlTable::str() const { return body_ + "</tbody></table></div>\n"; }

}  // namespace flyball
