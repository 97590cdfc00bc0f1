// The planning server: its jobs, its interfaces, on one event loop. `flyball serve` runs it; so can a test.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "net/event_loop.h"
#include "net/server.h"
#include "server/job_book.h"

namespace flyball {

struct PlanningServerOptions {
  std::string listen_host = "127.0.0.1";  // an address, or a name that has one; empty: no TCP
  std::uint16_t listen_port = 4940;       // 0: a free one
  std::optional<TlsFiles> tls;            // TCP then speaks TLS only
  std::string socket_path;                // empty: no Unix socket
  std::string database;                   // empty: nothing survives
  std::optional<std::string> administrator_token;
  // Registering a job takes this token or the administrator's where there is one, or where TCP is open to other
  // machines.
  std::optional<std::string> registration_token;
  bool open_registration = false;  // it takes none all the same
  bool zeus = true;
  std::string zeus_plan;  // plan file; empty: none
  // Of one job with its token, besides what its ranks may; of all with the administrator's token; of one address with
  // the token for registering; and of one address without any of these.
  double requests_per_second = 500.0;
  double requests_per_second_rank = 20.0;  // what each rank adds to its job's
  JobBook::Log log;                        // what an administrator should know and nobody asked for
  JobBook::Limits book;
  ServerLimits http{.connections_per_party = 1024};
};

class PlanningServer {
 public:
  // Opens the database, takes up its jobs and listens. Throws DatabaseError, InputError, SystemError, UsageError; the
  // latter also where TCP would be open to other machines and there is no administrator's token.
  PlanningServer(EventLoop& loop, PlanningServerOptions options);
  ~PlanningServer();
  PlanningServer(const PlanningServer&) = delete;
  PlanningServer& operator=(const PlanningServer&) = delete;

  [[nodiscard]] std::uint16_t port() const;  // 0 without TCP
  [[nodiscard]] std::size_t job_count() const;
  // What is wrong with jobs in the database, that the server does without or gives no schedules, in words for the
  // administrator.
  [[nodiscard]] const std::vector<std::string>& troubles() const;

  // Loop's thread: ends waits with 503, lets requests under way finish, then calls `done`.
  void stop(std::function<void()> done);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flyball
