// The planning server: its jobs and its interfaces on one event loop. `flyball serve` and tests run it.
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
#include "server/fleet_desk.h"
#include "server/job_book.h"

namespace flyball {

struct PlanningServerOptions {
  std::string listen_host = "127.0.0.1";  // an address, or a name that has one; empty: no TCP
  std::uint16_t listen_port = 4940;       // 0: a free one
  std::optional<TlsFiles> tls;            // if set, TCP speaks TLS only
  std::string socket_path;                // empty: no Unix socket
  std::string database;                   // empty: jobs do not survive the server
  std::optional<std::string> administrator_token;
  // To register a job, a client must show this token or the administrator's, if this one is set or TCP is open to other
  // machines.
  std::optional<std::string> registration_token;
  bool open_registration = false;  // if true, registering takes no token even then
  bool zeus = true;                // whether to serve Zeus's clients
  std::string zeus_plan;           // plan file; empty: none
  // How many requests each of these may make: one job by its token, beside what its ranks add; all who show the
  // administrator's token together; one address with the registration token; one address without any token.
  double requests_per_second = 500.0;
  double requests_per_second_rank = 20.0;  // what each rank adds to the rate of its job
  JobBook::Log log;                        // is told what an administrator should know
  JobBook::Limits book;
  FleetOptions fleet;  // the agents that are asked, and where the past is kept
  ServerLimits http{.connections_per_party = 1024};
};

class PlanningServer {
 public:
  // Opens the database, restores its jobs and listens. Throws DatabaseError, InputError, SystemError and UsageError,
  // the last also where TCP would be open to other machines and there is no administrator's token.
  PlanningServer(EventLoop& loop, PlanningServerOptions options);
  ~PlanningServer();
  PlanningServer(const PlanningServer&) = delete;
  PlanningServer& operator=(const PlanningServer&) = delete;

  [[nodiscard]] std::uint16_t port() const;  // 0 without TCP
  [[nodiscard]] std::size_t job_count() const;
  // Says what is wrong with jobs of the database that the server leaves out or gives no schedules, in words for the
  // administrator.
  [[nodiscard]] const std::vector<std::string>& troubles() const;

  // Ends waits with 503, lets requests under way finish, then calls `done`. Must be called in the loop's thread.
  void stop(std::function<void()> done);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flyball
