// Files are put together once and answered from memory. A browser asks each time whether its copy is the newest (ETag),
// so that a server of another version never works with an older script.
#include "server/page.h"

#include <fmt/format.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "draw/web_files.h"

namespace flyball {
namespace {

// Scripts and styles come from this server alone, nothing may be written into the page, and no other page may frame it.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri "
    "'none'; "
    "form-action 'none'; frame-ancestors 'none'";

std::string joined(std::initializer_list<std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) {
    const bool is_chart = name.starts_with("dygraph");
    text += embedded_file(is_chart ? chart_library() : web_files(), name);
    text += '\n';
  }
  return text;
}

void add_file(Router& router, std::string path, std::string type, std::string text) {
  const auto body = std::make_shared<const std::string>(std::move(text));
  const std::string tag = fmt::format("\"{:016x}\"", std::hash<std::string>{}(*body));
  router.add({"GET", std::move(path), Handler([body, tag, type = std::move(type)](const Request& request) {
                Response response;
                response.content_type = type;
                response.headers = {{"ETag", tag},
                                    {"Cache-Control", "no-cache"},
                                    {"Content-Security-Policy", kPolicy},
                                    {"X-Content-Type-Options", "nosniff"},
                                    {"Referrer-Policy", "no-referrer"}};
                if (request.header("If-None-Match") == tag) {
                  response.status = 304;
                } else {
                  response.tail = body;
                }
                return response;
              })});
}

}  // namespace

void add_page_routes(Router& router) {
  add_file(router, "/", "text/html; charset=utf-8", joined({"live/page.html"}));
  add_file(router, "/page/page.css", "text/css; charset=utf-8",
           joined({"dygraph.min.css", "chart.css", "page.css", "live/page.css"}));
  add_file(
      router, "/page/page.js", "text/javascript; charset=utf-8",
      joined({"live/elements.js", "live/texts.js", "live/source.js", "live/time_chart.js", "live/frontier_chart.js",
              "live/fleet_view.js", "live/pace_choice.js", "live/job_view.js", "live/node_view.js", "live/page.js"}));
  add_file(router, "/page/charts.js", "text/javascript; charset=utf-8", joined({"dygraph.min.js"}));
}

}  // namespace flyball
