// Handlers only hand in and read out what Controller guards by its lock, so that none waits.
#include "controller/controller_server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/record.h"
#include "base/text.h"
#include "controller/cluster_metrics.h"
#include "controller/job_token.h"
#include "net/json_response.h"

namespace flyball {
namespace {

constexpr Seconds kGrace{2.0};

std::string shown_token(const Request& request) {
  const std::string_view given = request.header("authorization").value_or("");
  return given.starts_with("Bearer ") ? std::string(trim(given.substr(7))) : std::string();
}

// The user whose job has this token; nothing where it is another job's, or none.
std::optional<std::int64_t> user_of(std::string_view token, std::string_view secret, std::int64_t job) {
  const auto user = parse_integer(token.substr(0, token.find('.')));
  if (!user || *user < 0) return std::nullopt;
  const std::string right = job_token(secret, job, *user);
  return !right.empty() && equal_in_constant_time(token, right) ? user : std::nullopt;
}

bool is_open_to_others(const ControllerServerOptions& options) {
  return !options.listen_host.empty() && !is_loopback(resolve_host(options.listen_host));
}

// What anybody on this machine may ask, no page of another site may.
ServerLimits limits_of(const ControllerServerOptions& options) {
  ServerLimits limits{.connections_per_party = 1024};
  if (!is_open_to_others(options)) limits.only_as = options.listen_host;
  return limits;
}

}  // namespace

ControllerServer::ControllerServer(EventLoop& loop, Controller& controller, ControllerServerOptions options)
    : options_(std::move(options)), http_(loop, routes(controller), limits_of(options_)) {
  if (is_open_to_others(options_) && !options_.administrator_token && !options_.job_secret) {
    throw UsageError(
        fmt::format("{} is open to other machines, which could not show who they are; give the secret of the jobs' "
                    "tokens (--job-secret-file) or an administrator's token (--token-file), or listen on 127.0.0.1 "
                    "or a Unix socket (--socket)",
                    options_.listen_host));
  }
  if (!options_.listen_host.empty() && options_.job_secret && !options_.tls) {
    throw UsageError("jobs show their tokens by TLS only; give --tls-cert and --tls-key");
  }
  if (!options_.socket_path.empty()) http_.listen_unix(options_.socket_path, 0666);
  if (!options_.listen_host.empty()) {
    port_ = http_.listen_tcp(resolve_host(options_.listen_host), options_.listen_port, options_.tls);
  }
}

bool ControllerServer::is_administrator(const Request& request) const {
  if (request.peer.local && (request.peer.uid == 0 || request.peer.uid == ::geteuid())) return true;
  return options_.administrator_token && equal_in_constant_time(shown_token(request), *options_.administrator_token);
}

// Who reports for the job; nothing: whoever may report for all of them. Looked at before the body is.
std::optional<std::int64_t> ControllerServer::reporter(const Request& request, std::int64_t job) const {
  if (request.peer.local) return request.peer.uid;
  if (is_administrator(request)) return std::nullopt;
  if (!options_.job_secret) {
    throw HttpError(403,
                    "TCP does not tell who reports; report over the controller's Unix socket, or give the controller "
                    "the secret of the jobs' tokens (--job-secret-file)");
  }
  const std::string token = shown_token(request);
  if (token.empty()) {
    throw HttpError(401, fmt::format("show the job's token, as Authorization: Bearer; Slurm's plugin sets {} in jobs, "
                                     "where its line in plugstack.conf has secret=FILE",
                                     kJobTokenVariable));
  }
  const auto user = user_of(token, *options_.job_secret, job);
  if (user) return user;
  throw HttpError(403, fmt::format("this is not the token of job {}; where the job did not change it, the file of "
                                   "secret= on its node holds another secret than the controller's --job-secret-file",
                                   job));
}

Router ControllerServer::routes(Controller& controller) {
  Router router;
  router.add({"GET", "/healthz", [](const Request&) { return json_response(200, {{"status", "ok"}}); }});
  router.add({"GET", "/v1/cluster/status",
              [&controller](const Request&) { return json_response(200, to_json(controller.status())); }});
  router.add({"GET", "/metrics", [&controller](const Request&) {
                return text_response(kMetricsContentType, cluster_metrics(controller.status()));
              }});
  router.add({"POST", "/v1/cluster/jobs/{job}/report", [this, &controller](const Request& request) {
                const auto job = parse_integer(request.parameters.at("job"));
                if (!job || *job < 1) throw HttpError(404, "a job's number is from 1 up");
                const std::optional<std::int64_t> user = reporter(request, *job);
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
