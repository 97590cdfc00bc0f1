// Owns the parts (journal, lease keeper, monitor, two power feeds, sessions, budgets) in the order in which they need
// each other, and puts one HTTP server before them. A guard checks budget and token before any route runs; each kind
// of error gets its HTTP status here.
#include "agent/agent.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <nlohmann/json.hpp>

#include "agent/log.h"
#include "agent/processes.h"
#include "agent/routes.h"
#include "base/contain.h"
#include "base/json_text.h"
#include "base/record.h"
#include "page/page.h"

namespace flyball {
namespace {

constexpr Seconds kRest{1.0};                 // how often samplers that nobody needs are looked for
constexpr std::size_t kOwnDescriptors = 256;  // beyond those of connections: for libraries, journals, processes

// Raises the limit of open descriptors as far as the system allows, and returns it.
std::size_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? SIZE_MAX : limit.rlim_cur;
}

ServerLimits limits_of(const AgentConfig& config) {
  ServerLimits limits = config.limits;
  if (config.token.empty() && config.tcp) limits.only_as = config.tcp->host;
  const std::size_t descriptors = raise_descriptor_limit();
  if (descriptors < limits.connections + kOwnDescriptors) {
    limits.connections = std::max<std::size_t>(descriptors, 2 * kOwnDescriptors) - kOwnDescriptors;
    log_event(LogLevel::kInfo, "connections_limited",
              {{"connections", fmt::to_string(limits.connections)}, {"reason", "RLIMIT_NOFILE"}});
  }
  return limits;
}

// Without a token every user of this machine, and every page in their browsers, can reach a port on loopback. Such
// requests may only read.
AccessRules rules_of(const AgentConfig& config) {
  AccessRules rules = config.access;
  rules.remote_lacks_token = rules.remote && config.token.empty();
  rules.remote = rules.remote && !config.token.empty();
  return rules;
}

AccountSessionLimits session_limits_of(const AgentConfig& config) {
  AccountSessionLimits limits = config.sessions;
  limits.remote = !config.token.empty();
  return limits;
}

void make_socket_folder(const std::filesystem::path& socket) {
  std::error_code error;
  std::filesystem::create_directories(socket.parent_path(), error);
  if (error && !std::filesystem::exists(socket.parent_path())) {
    throw SystemError(fmt::format("cannot make the socket's folder {}: {}; name another socket with --socket{}",
                                  socket.parent_path().string(), error.message(),
                                  ::geteuid() != 0 ? ", or start the agent as root" : ""));
  }
}

}  // namespace

const Claimant& Claimants::of(const Peer& peer) {
  const auto [found, is_new] = known_.try_emplace(peer.connection);
  Claimant& who = found->second;
  if (!is_new) return who;
  who.local = peer.local;
  who.uid = peer.uid;
  who.pid = peer.pid;
  who.connection = peer.connection;
  if (peer.local && peer.pid != 0) {
    const ProcessFacts facts = facts_of(peer.pid);
    who.name = facts.name;
    who.started = facts.started;
  } else {
    who.name = peer.address;
  }
  return who;
}

unsigned agent_status_of(const std::exception& error) {
  if (const auto* refused = dynamic_cast<const LeaseRefused*>(&error)) {
    switch (refused->reason()) {
      case LeaseRefused::Reason::kNoSuchGpu:
      case LeaseRefused::Reason::kNoSuchLease: return 404;
      case LeaseRefused::Reason::kEnded: return 410;
      case LeaseRefused::Reason::kForbidden: return 403;
      case LeaseRefused::Reason::kHeld: return 409;
    }
  }
  if (const auto* device = dynamic_cast<const DeviceError*>(&error)) {
    switch (device->fault()) {
      case DeviceFault::kPermission: return 403;
      case DeviceFault::kUnsupported:
      case DeviceFault::kInvalid: return 422;
      case DeviceFault::kLost:
      case DeviceFault::kNoDriver: return 503;
      case DeviceFault::kTimeout: return 504;
      case DeviceFault::kDriver: return 500;
    }
  }
  if (dynamic_cast<const JournalError*>(&error) != nullptr) return 507;
  return status_of(error);
}

Response agent_problem(const std::exception& error) {
  const unsigned status = agent_status_of(error);
  const auto* http = dynamic_cast<const HttpError*>(&error);
  std::vector<std::pair<std::string, std::string>> extra;
  const auto* refused = dynamic_cast<const LeaseRefused*>(&error);
  if (http != nullptr) return problem_response(error);
  if (refused != nullptr && refused->holder()) extra.emplace_back("holder", dump_json(to_json(*refused->holder())));
  if (const auto* device = dynamic_cast<const DeviceError*>(&error)) {
    extra.emplace_back("device", dump_json(device->device()));
    extra.emplace_back("fault", dump_json(key_of(device->fault())));
  }
  return problem_response(HttpError(status, error.what(), std::move(extra)));
}

void check_budget(const AgentParts& parts, const Request& request) {
  if (request.path == "/healthz") return;
  // The caller is known by its connection alone: to find its process costs more than most answers.
  Claimant connection;
  connection.local = request.peer.local;
  connection.uid = request.peer.uid;
  connection.connection = request.peer.connection;
  parts.budgets.check_request(request.peer, parts.keeper.held_by(connection), Sampler::now());
}

void check_token(const AgentConfig& config, const Request& request) {
  if (request.peer.local || config.token.empty()) return;
  for (const char* open : {"/discover", "/time", "/healthz", "/openapi.yaml"}) {
    if (request.path == open) return;
  }
  if (is_page_file(request.path)) return;
  const auto authorization = request.header("Authorization");
  constexpr std::string_view kScheme = "Bearer ";
  const bool right = authorization && authorization->starts_with(kScheme) &&
                     equal_in_constant_time(authorization->substr(kScheme.size()), config.token);
  if (right) return;
  throw HttpError(401,
                  authorization ? "the token is not this agent's"
                                : "a token is needed: send the header Authorization: Bearer TOKEN",
                  {}, {{"WWW-Authenticate", "Bearer realm=\"flyball\""}});
}

class Agent::Impl {
 public:
  Impl(EventLoop& the_loop, AgentConfig the_config, const AgentDevices& devices)
      : loop(the_loop),
        config(std::move(the_config)),
        journal(std::make_shared<const Journal>(config.state_dir, config.boot)),
        keeper(loop, devices.gpus, journal, rules_of(config), config.gpus, config.control),
        monitor(keeper, devices.cpus),
        feed(devices.gpus, devices.cpus, sampling_at(config.period)),
        glances(feed, std::max(feed.period(), kGlancePeriod)),
        sessions(loop, feed, session_limits_of(config)),
        budgets(config.per_user) {
    keeper.recover();
    Router router;
    AgentParts parts{loop,    config,   keeper,  monitor,   feed,
                     glances, sessions, budgets, claimants, [this] { return server->counts(); }};
    add_v1_routes(router, parts);
    add_session_routes(router, parts);
    add_node_page(router);
    if (config.zeusd) add_zeusd_routes(router, parts);
    router.set_guard([this, parts](const Request& request, const Route&) {
      check_budget(parts, request);
      check_token(config, request);
    });
    resting = loop.every(kRest, [this] {
      feed.rest();
      glances.rest();
    });
    server = std::make_unique<HttpServer>(loop, std::move(router), limits_of(config));
    server->on_disconnect([this](std::uint64_t connection) {
      claimants.forget(connection);
      keeper.connection_closed(connection);
    });
    keeper.on_pin([this](std::uint64_t connection, bool pinned) { server->pin(connection, pinned); });
    if (!config.socket_path.empty()) {
      make_socket_folder(config.socket_path);
      server->listen_unix(config.socket_path, config.socket_mode);
    }
    std::optional<TlsFiles> tls;
    if (!config.tls_cert.empty()) tls = TlsFiles{config.tls_cert, config.tls_key};
    if (config.tcp) port = server->listen_tcp(config.tcp->host, config.tcp->port, tls);
    log_event(LogLevel::kInfo, "listening",
              {{"socket", config.socket_path},
               {"tcp", config.tcp ? fmt::format("{}:{}", config.tcp->host, port) : "none"},
               {"gpus", fmt::to_string(devices.gpus.size())},
               {"cpus", fmt::to_string(devices.cpus.size())},
               {"zeusd", config.zeusd ? "yes" : "no"}});
  }

  EventLoop& loop;
  AgentConfig config;
  std::shared_ptr<const Journal> journal;
  LeaseKeeper keeper;
  DeviceMonitor monitor;
  PowerFeed feed;
  PowerFeed glances;
  AccountSessions sessions;
  UserBudgets budgets;
  Claimants claimants;
  EventLoop::Handle resting;
  std::unique_ptr<HttpServer> server;
  std::uint16_t port = 0;
};

Agent::Agent(EventLoop& loop, AgentConfig config, const AgentDevices& devices) {
  check_agent_config(config);
  tell_contained([](std::string_view where, std::string_view what) {
    log_event(LogLevel::kError, "exception", {{"in", std::string(where)}, {"error", std::string(what)}});
  });
  impl_ = std::make_unique<Impl>(loop, std::move(config), devices);
}

Agent::~Agent() = default;

void Agent::stop(Seconds most, std::function<void(bool)> done) {
  impl_->keeper.end_all(LeaseEnd::kAgentStop, most,
                        [this, done = std::move(done)](const std::vector<std::size_t>& left) {
                          for (const std::size_t gpu : left) {
                            log_event(LogLevel::kError, "left_unrestored",
                                      {{"gpu", fmt::to_string(gpu)}, {"next", "the agent's next start restores it"}});
                          }
                          impl_->server->stop(Seconds(1), [done, all = left.empty()] { done(all); });
                        });
}

bool Agent::idle() const { return impl_->keeper.idle(); }
std::uint16_t Agent::tcp_port() const { return impl_->port; }

}  // namespace flyball
