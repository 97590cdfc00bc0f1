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
  // Who shows it may order a budget, and report for any job; so may root and our own user on the Unix socket.
  std::optional<std::string> administrator_token;
};

// Lives in the loop's thread. Over a Unix socket, a report must come from the job's own user. TCP does not tell who
// reports, so that it must be open to this machine only, unless there is a token, which reports must show then.
class ControllerServer {
 public:
  // The controller must outlive this object. Throws SystemError where it cannot listen, and UsageError where TCP would
  // be open to other machines without a token.
  ControllerServer(EventLoop& loop, Controller& controller, ControllerServerOptions options);

  [[nodiscard]] std::uint16_t port() const { return port_; }
  // Lets requests under way finish, then calls `done`. Must be called in the loop's thread.
  void stop(std::function<void()> done);

 private:
  [[nodiscard]] Router routes(Controller& controller);
  [[nodiscard]] bool is_administrator(const Request& request) const;

  ControllerServerOptions options_;
  std::uint16_t port_ = 0;
  HttpServer http_;
};

}  // namespace flyball
