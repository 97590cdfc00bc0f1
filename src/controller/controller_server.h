// The controller's HTTP interface: reports of jobs, orders of operators, status. It answers while a cycle waits for the
// cluster engine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "controller/controller.h"
#include "net/event_loop.h"
#include "net/server.h"

namespace flyball {

struct ControllerServerOptions {
  std::string listen_host = "127.0.0.1";  // empty: no TCP
  std::uint16_t listen_port = 4942;       // 0: a free one
  std::string socket_path;                // empty: no Unix socket
  std::optional<TlsFiles> tls;            // of TCP
  // Who shows it may order a budget, and report for any job; so may root and our own user on the Unix socket.
  std::optional<std::string> administrator_token;
  std::optional<std::string> job_secret;  // of the jobs' tokens (job_token.h)
};

// Lives in the loop's thread. A report must come from the job's own user, who is known on a Unix socket. TCP does not
// tell who reports: there a report must show the token of its job, or the administrator's.
class ControllerServer {
 public:
  // The controller must outlive this object. Throws SystemError where it cannot listen, InputError for a bad
  // certificate, and UsageError where TCP would be open to other machines without a token, or to jobs' tokens without
  // TLS.
  ControllerServer(EventLoop& loop, Controller& controller, ControllerServerOptions options);

  [[nodiscard]] std::uint16_t port() const { return port_; }
  // Lets requests under way finish, then calls `done`. Must be called in the loop's thread.
  void stop(std::function<void()> done);

 private:
  [[nodiscard]] Router routes(Controller& controller);
  [[nodiscard]] bool is_administrator(const Request& request) const;
  [[nodiscard]] std::optional<std::int64_t> reporter(const Request& request, std::int64_t job) const;

  ControllerServerOptions options_;
  std::uint16_t port_ = 0;
  HttpServer http_;
};

}  // namespace flyball
