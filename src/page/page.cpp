// Files are put together once and answered from memory. A browser asks each time whether its copy is the newest (ETag),
// so that a program of another version never works with an older script.
#include "page/page.h"

#include <fmt/format.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "draw/html_page.h"

namespace flyball {
namespace {

constexpr const char* kStylePath = "/page/page.css";
constexpr const char* kScriptPath = "/page/page.js";
constexpr const char* kChartsPath = "/page/charts.js";

// Scripts and styles come from this server alone, nothing may be written into the page, and no other page may frame it.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri "
    "'none'; "
    "form-action 'none'; frame-ancestors 'none'";

std::string joined(std::initializer_list<std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) {
    text += page_file(name);
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

// A page with scripts of its own, the last of which fills it, after what all of them need.
void add_page(Router& router, std::initializer_list<std::string_view> scripts) {
  add_file(router, "/", "text/html; charset=utf-8", joined({"live/page.html"}));
  add_file(router, kStylePath, "text/css; charset=utf-8",
           joined({"dygraph.min.css", "chart.css", "page.css", "time_chart.css", "timeline.css", "live/page.css"}));
  add_file(router, kScriptPath, "text/javascript; charset=utf-8",
           joined({"tips.js", "elements.js", "renew.js", "texts.js", "time_chart.js", "live/elements.js",
                   "live/texts.js", "live/asker.js", "live/live_time.js", "live/event_list.js", "live/lease_list.js",
                   "live/node_view.js", "live/page.js"}) +
               joined(scripts));
  add_file(router, kChartsPath, "text/javascript; charset=utf-8", joined({"dygraph.min.js"}));
}

}  // namespace

void add_fleet_page(Router& router) {
  add_page(router,
           {"plan_set.js", "timeline_row.js", "timeline_pen.js", "operation_search.js", "timeline.js", "plan_picker.js",
            "live/source.js", "live/energy_used.js", "live/allocation_chart.js", "live/scheduler_panel.js",
            "live/fleet_view.js", "live/energy_chart.js", "live/frontier_chart.js", "live/pace_choice.js",
            "live/iteration_view.js", "live/job_view.js", "live/what_if_view.js", "live/fleet_page.js"});
}

void add_node_page(Router& router) { add_page(router, {"live/agent_source.js", "live/node_page.js"}); }

bool is_page_file(std::string_view path) {
  return path == "/" || path == kStylePath || path == kScriptPath || path == kChartsPath;
}

}  // namespace flyball
