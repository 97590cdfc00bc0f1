// The page is put together as text, with its styles in the head and its scripts at its end, so that the scripts find
// the whole page when they start.
#include "draw/html_page.h"

#include <fmt/format.h>

#include "draw/svg_canvas.h"
#include "draw/web_files.h"

namespace flyball {
namespace {

// The contents of all the page's files with this ending, those of every page first.
std::string files_of(const HtmlPage& page, std::string_view ending) {
  std::string out;
  for (const std::string_view name : {"chart.css", "page.css", "tips.js"}) {
    if (name.ends_with(ending)) out += page_file(name);
  }
  for (const std::string_view name : page.files) {
    if (name.ends_with(ending)) out += page_file(name);
  }
  return out;
}

}  // namespace

std::string_view page_file(std::string_view name) {
  return embedded_file(name.starts_with("dygraph") ? chart_library() : web_files(), name);
}

std::string html_document(const HtmlPage& page) {
  std::string out = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  out += "<meta name=\"color-scheme\" content=\"light dark\">\n";
  out += fmt::format("<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n", escape_markup(page.title),
                     files_of(page, ".css"));
  out += fmt::format("<header>\n<h1>{}</h1>\n<p class=\"headline\">{}</p>\n</header>\n<main>\n",
                     escape_markup(page.title), page.headline);
  out += page.body;
  if (!page.commands.empty()) {
    out += "<h2>Made by</h2>\n<pre tabindex=\"0\">";
    for (const std::string& command : page.commands) out += escape_markup(command) + '\n';
    out += "</pre>\n";
  }
  out += page.closing;
  out += "</main>\n<script>\n" + files_of(page, ".js") + "</script>\n</body>\n</html>\n";
  return out;
}

std::string script_json(std::string json) {
  for (std::size_t k = json.find('<'); k != std::string::npos; k = json.find('<', k)) json.replace(k, 1, "\\u003c");
  return json;
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
