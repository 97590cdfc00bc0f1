// Handlers only hand in and read out what Controller guards by its lock, so that none waits.
#include "controller/controller_server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/record.h"
#include "base/text.h"
#include "net/json_response.h"

namespace flyball {
namespace {

constexpr Seconds kGrace{2.0};

std::string shown_token(const Request& request) {
  const std::string_view given = request.header("authorization").value_or("");
  return given.starts_with("Bearer ") ? std::string(trim(given.substr(7))) : std::string();
}

bool is_open_to_others(const ControllerServerOptions& options) {
  return !options.listen_host.empty() && !is_loopback(resolve_host(options.listen_host));
}

}  // namespace

ControllerServer::ControllerServer(EventLoop& loop, Controller& controller, ControllerServerOptions options)
    : options_(std::move(options)), http_(loop, routes(controller), {.connections_per_party = 1024}) {
  if (is_open_to_others(options_) && !options_.administrator_token) {
    throw UsageError(
        fmt::format("{} is open to other machines, where anybody could report for any job; give a token "
                    "(--token-file), or listen on 127.0.0.1 or a Unix socket (--socket)",
                    options_.listen_host));
  }
  if (!options_.socket_path.empty()) http_.listen_unix(options_.socket_path, 0666);
  if (!options_.listen_host.empty()) {
    port_ = http_.listen_tcp(resolve_host(options_.listen_host), options_.listen_port);
  }
}

bool ControllerServer::is_administrator(const Request& request) const {
  if (request.peer.local && (request.peer.uid == 0 || request.peer.uid == ::geteuid())) return true;
  return options_.administrator_token && equal_in_constant_time(shown_token(request), *options_.administrator_token);
}

Router ControllerServer::routes(Controller& controller) {
  Router router;
  router.add({"GET", "/healthz", [](const Request&) { return json_response(200, {{"status", "ok"}}); }});
  router.add({"GET", "/v1/cluster/status",
              [&controller](const Request&) { return json_response(200, to_json(controller.status())); }});
  router.add({"POST", "/v1/cluster/jobs/{job}/report", [this, &controller](const Request& request) {
                const auto job = parse_integer(request.parameters.at("job"));
                if (!job || *job < 1) throw HttpError(404, "a job's number is from 1 up");
                std::optional<std::int64_t> user;
                if (request.peer.local) {
                  user = request.peer.uid;
                } else if (options_.administrator_token && !is_administrator(request)) {
                  throw HttpError(401, "show the token, as Authorization: Bearer, or use the Unix socket");
                }
                const auto report = read_message<ElasticReport>(json_body(request));
                try {
                  return json_response(200, to_json(controller.report(*job, user, report)));
                } catch (const ReportRefusal& refusal) {
                  std::vector<Header> headers;
                  if (refusal.status() == 503) headers.push_back({"Retry-After", "1"});
                  throw HttpError(refusal.status(), refusal.what(), {}, std::move(headers));
                }
              }});
  router.add({"PUT", "/v1/cluster/budget", [this, &controller](const Request& request) {
                if (!is_administrator(request)) {
                  throw HttpError(403,
                                  "a budget is ordered by the administrator: by the token, or on the Unix socket "
                                  "by root or the controller's user");
                }
                controller.order_budget(read_message<BudgetOrder>(json_body(request)));
                return json_response(202, {{"taken", true}});
              }});
  return router;
}

void ControllerServer::stop(std::function<void()> done) { http_.stop(kGrace, std::move(done)); }

}  // namespace flyball
