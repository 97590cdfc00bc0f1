// Joins the job book, its HTTP routes, Zeus's interface and the limits on requests on one event loop. A guard before
// every route counts requests in a bucket by what the request shows: a job's token, the administrator's, the
// registration token of an address, or the address alone.
#include "server/planning_server.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/embedded.h"
#include "net/router.h"
#include "page/page.h"
#include "plan/plan_file.h"
#include "server/access.h"
#include "server/given_plan.h"
#include "server/job_routes.h"
#include "server/rate_limit.h"
#include "server/server_metrics.h"
#include "server/what_if.h"
#include "server/zeus_routes.h"

namespace flyball {
namespace {

constexpr Seconds kGrace{5.0};
constexpr double kBytesPerRequest = 8192.0;  // of a stranger's body, that count as one more request

std::optional<TokenHash> hash_of(const std::optional<std::string>& token) {
  return token ? std::optional(hash_token(*token)) : std::nullopt;
}

// A server that can be reached from beyond this machine could be filled by a stranger who registers jobs.
Access::Tokens tokens_of(const PlanningServerOptions& options) {
  const bool reachable = !options.listen_host.empty() && !is_loopback(resolve_host(options.listen_host));
  return {hash_of(options.administrator_token), hash_of(options.registration_token),
          options.open_registration || (!options.registration_token && !reachable)};
}

}  // namespace

class PlanningServer::Impl {
 public:
  Impl(EventLoop& loop, PlanningServerOptions options)
      : loop_(loop),
        options_(std::move(options)),
        access_(tokens_of(options_)),
        book_(loop, options_.database, options_.book, options_.log),
        fleet_(loop, book_, access_, options_.fleet),
        what_if_(book_, access_),
        begin_(std::chrono::steady_clock::now()) {
    book_.on_state([this](const Job& job) { fleet_.note(job); });
    if (!options_.administrator_token) options_.http.only_as = options_.listen_host;
    if (!options_.listen_host.empty()) options_.listen_host = resolve_host(options_.listen_host);
    if (!options_.listen_host.empty() && !is_loopback(options_.listen_host) && !options_.administrator_token) {
      throw UsageError(
          fmt::format("{} is open to other machines; give the server an administrator's token first "
                      "(--admin-token-file), or listen on 127.0.0.1",
                      options_.listen_host));
    }
    http_.emplace(loop, routes(), options_.http);
    if (!options_.socket_path.empty()) http_->listen_unix(options_.socket_path, 0666);
    if (!options_.listen_host.empty()) {
      port_ = http_->listen_tcp(options_.listen_host, options_.listen_port, options_.tls);
    }
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::size_t job_count() const { return book_.jobs().size(); }
  [[nodiscard]] const std::vector<std::string>& troubles() const { return book_.troubles(); }

  void stop(std::function<void()> done) {
    book_.release_waiting();
    what_if_.stop();
    if (zeus_) zeus_->release_waiting();
    http_->stop(kGrace, std::move(done));
  }

 private:
  Router routes() {
    Router router;
    add_job_routes(router, book_, access_);
    fleet_.add_routes(router);
    what_if_.add_routes(router);
    add_fleet_page(router);
    if (options_.zeus) {
      std::optional<GivenPlan> plan;
      if (!options_.zeus_plan.empty()) {
        plan = given_plan_of(read_plan_file(options_.zeus_plan), options_.zeus_plan);
      }
      zeus_.emplace(loop_, book_, access_, std::move(plan));
      zeus_->add_routes(router);
    }
    router.add({"GET", "/healthz", Handler([](const Request&) {
                  return text_response("application/json", R"({"status":"ok","version":")" FLYBALL_VERSION R"("})");
                })});
    // Promises and savings of single jobs are told to whoever may read each of them.
    router.add(
        {"GET", "/metrics", Handler([this](const Request& request) {
           const Seconds uptime(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count());
           return text_response(kMetricsContentType,
                                server_metrics(book_, access_.is_administrator(request), zeus_ ? zeus_->waiting() : 0,
                                               http_->counts(), refused_rate_, uptime));
         })});
    router.add({"GET", "/openapi.yaml", Handler([](const Request&) {
                  return text_response("application/yaml", std::string(server_openapi().front().contents));
                })});
    router.set_guard([this](const Request& request, const Route& route) {
      if (route.pattern != "/healthz") check_rate(request);  // a busy server must not be restarted because of it
    });
    return router;
  }

  // A client that shows a valid token has a share that nobody without the token can use up: that of its job, of the
  // administrator, or, for registering, of its address, since many may hold that token. All others share the rate of
  // their address, of which long bodies take more.
  void check_rate(const Request& request) {
    const auto now = RateLimit::Clock::now();
    const auto parameter = request.parameters.find("job");
    const Job* job = parameter == request.parameters.end() ? nullptr : book_.find_job(parameter->second);
    const double rate = options_.requests_per_second;
    bool admitted = false;
    if (job != nullptr && access_.shows_token_of(request, *job)) {
      const auto ranks = static_cast<double>(job->request().ranks());
      admitted = known_.admit("job " + job->id(), rate + ranks * options_.requests_per_second_rank, now);
    } else if (const std::string party = access_.party_of(request); party != request.peer.party) {
      admitted = known_.admit(party, rate, now);
    } else {
      // A request is read, and some are parsed, before it is known whether the client may send it.
      const double cost = 1.0 + static_cast<double>(request.body.size()) / kBytesPerRequest;
      admitted = strangers_.admit(party, rate, now, cost);
    }
    if (admitted) return;
    ++refused_rate_;
    throw HttpError(429, "too many requests; ask again in a second", {}, {{"Retry-After", "1"}});
  }

  EventLoop& loop_;
  PlanningServerOptions options_;
  Access access_;
  RateLimit known_;
  RateLimit strangers_;
  std::uint64_t refused_rate_ = 0;
  JobBook book_;
  FleetDesk fleet_;
  WhatIf what_if_;
  std::optional<ZeusDesk> zeus_;
  std::optional<HttpServer> http_;
  std::chrono::steady_clock::time_point begin_;
  std::uint16_t port_ = 0;
};

PlanningServer::PlanningServer(EventLoop& loop, PlanningServerOptions options) {
  // A client that goes away while it is written to, and a file that must not grow, are errors of that call only.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  impl_ = std::make_unique<Impl>(loop, std::move(options));
}

PlanningServer::~PlanningServer() = default;

std::uint16_t PlanningServer::port() const { return impl_->port(); }
std::size_t PlanningServer::job_count() const { return impl_->job_count(); }
const std::vector<std::string>& PlanningServer::troubles() const { return impl_->troubles(); }
void PlanningServer::stop(std::function<void()> done) { impl_->stop(std::move(done)); }

}  // namespace flyball
