// JSON over HTTP. A lease has a connection and a thread of its own, which sends four heartbeats per time-out; a mutex
// keeps heartbeats and settings apart on that connection. The thread ends with the first heartbeat that fails and
// leaves why, for the next call to throw.
#include "client/agent_client.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/record.h"
#include "net/json_response.h"

namespace flyball {
namespace {

constexpr double kBeatsPerTimeout = 4.0;  // up to three may come late

[[noreturn]] void refuse(unsigned status, const std::string& body) {
  throw AgentRefusal(status, "the agent refuses: " + detail_of_problem(body));
}

nlohmann::json call(HttpClient& http, std::string_view method, const std::string& target, std::string_view body = {}) {
  const Response response = http.request(method, target, body);
  if (response.status >= 300) refuse(response.status, response.body);
  return parse_json("the agent's answer", response.body);
}

std::string session_path(const std::string& name) { return "/v1/sessions/" + percent_encode(name); }

HttpClient::Options options_with_token(const std::string& token) {
  HttpClient::Options options;
  options.token = token;
  return options;
}

}  // namespace

Endpoint default_agent_endpoint() {
  const char* named = std::getenv("FLYBALL_AGENT");
  return parse_endpoint(named != nullptr && *named != '\0' ? named : kAgentSocket);
}

std::string default_agent_token() {
  const char* token = std::getenv("FLYBALL_AGENT_TOKEN");
  return token == nullptr ? "" : token;
}

// --- Lease ---------------------------------------------------------------------------------------------------------

class AgentLease::Impl {
 public:
  Impl(Endpoint endpoint, const HttpClient::Options& how, const LeaseRequest& request)
      : http(std::move(endpoint), how),
        info(read_message<LeaseInfo>(call(http, "POST", "/v1/leases", to_json(request).dump()))),
        path("/v1/leases/" + info.id) {
    heart = std::thread([this] { beat(); });
  }

  ~Impl() { stop_beating(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void beat() {
    const auto period = std::chrono::duration<double>(info.heartbeat_timeout.value() / kBeatsPerTimeout);
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, period, [this] { return stopping; })) {
      // The next caller is told that the lease is lost.
      try {
        call(http, "POST", path + "/heartbeat");
      } catch (const std::exception& error) {
        lost = error.what();
        return;
      }
    }
  }

  void stop_beating() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    wake.notify_all();
    if (heart.joinable()) heart.join();
  }

  void change(std::size_t gpu, const SettingsChange& wanted) {
    const std::lock_guard lock(mutex);
    if (!lost.empty()) throw SystemError("the lease is lost: " + lost);
    call(http, "PATCH", fmt::format("{}/gpus/{}", path, gpu), to_json(wanted).dump());
  }

  void release() {
    stop_beating();
    const std::lock_guard lock(mutex);
    if (released || !lost.empty()) return;
    released = true;
    call(http, "DELETE", path);
    http.disconnect();
  }

  std::mutex mutex;  // guards the connection and the members below it
  HttpClient http;
  LeaseInfo info;
  std::string path;
  std::string lost;
  bool stopping = false;
  bool released = false;
  std::condition_variable wake;
  std::thread heart;
};

AgentLease::AgentLease(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AgentLease::AgentLease(AgentLease&&) noexcept = default;
// Closing the connection ends the lease.
AgentLease::~AgentLease() = default;

void AgentLease::change(std::size_t gpu, const SettingsChange& change) { impl_->change(gpu, change); }

void AgentLease::lock_sm_clocks(std::size_t gpu, ClockBounds clocks) {
  SettingsChange change;
  change.sm_clocks = clocks;
  impl_->change(gpu, change);
}

void AgentLease::reset_sm_clocks(std::size_t gpu) {
  SettingsChange change;
  change.sm_clocks = std::optional<ClockBounds>();
  impl_->change(gpu, change);
}

void AgentLease::release() { impl_->release(); }
const LeaseInfo& AgentLease::info() const { return impl_->info; }

std::string AgentLease::lost() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->lost;
}

// --- Client --------------------------------------------------------------------------------------------------------

AgentClient::AgentClient(const Endpoint& endpoint, const std::string& token)
    : AgentClient(endpoint, options_with_token(token)) {}

AgentClient::AgentClient(const Endpoint& endpoint, HttpClient::Options how)
    : how_(std::move(how)), http_(endpoint, how_) {}

NodeStatus AgentClient::devices() { return read_message<NodeStatus>(call(http_, "GET", "/v1/devices")); }

GpuClocks AgentClient::clocks(std::size_t gpu) {
  return read_message<GpuClocks>(call(http_, "GET", fmt::format("/v1/gpus/{}/clocks", gpu)));
}

AgentLease AgentClient::lease(const LeaseRequest& request) {
  return AgentLease(std::make_unique<AgentLease::Impl>(http_.endpoint(), how_, request));
}

void AgentClient::end_lease(const std::string& id) { call(http_, "DELETE", "/v1/leases/" + id); }

Cap AgentClient::lift_cap(std::size_t gpu) {
  return read_message<Cap>(call(http_, "DELETE", fmt::format("/v1/gpus/{}/cap", gpu)));
}

AccountSessionInfo AgentClient::start_session(const AccountSessionRequest& request) {
  return read_message<AccountSessionInfo>(call(http_, "POST", "/v1/sessions", to_json(request).dump()));
}

AccountSessionInfo AgentClient::stop_session(const std::string& name) {
  return read_message<AccountSessionInfo>(call(http_, "POST", session_path(name) + "/stop"));
}

void AgentClient::drop_session(const std::string& name) { call(http_, "DELETE", session_path(name)); }

AccountSessionInfo AgentClient::session(const std::string& name) {
  return read_message<AccountSessionInfo>(call(http_, "GET", session_path(name)));
}

std::vector<AccountSessionInfo> AgentClient::sessions() {
  return read_message<AccountSessionList>(call(http_, "GET", "/v1/sessions")).sessions;
}

void AgentClient::session_trace(const std::string& name, const std::function<bool(const std::string&)>& on_piece) {
  std::size_t offset = 0;
  while (true) {
    const Response piece = http_.request("GET", fmt::format("{}/power.csv?offset={}", session_path(name), offset));
    if (piece.status != 200) refuse(piece.status, piece.body);
    if (piece.body.empty() || !on_piece(piece.body)) return;
    offset += piece.body.size();
  }
}

std::string AgentClient::session_trace(const std::string& name) {
  std::string trace;
  session_trace(name, [&trace](const std::string& piece) {
    trace += piece;
    return true;
  });
  return trace;
}

}  // namespace flyball
