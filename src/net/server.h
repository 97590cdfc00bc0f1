// An HTTP/1.1 server on an EventLoop, over Unix sockets, TCP and TLS.
//
// One thread reads, dispatches and writes, and nothing in it blocks; others help to send where many clients wait for
// the same event. An idle client costs little. No client can make the server wait (time limits on reading, writing and
// idling) or fill its memory (limits on headers, bodies, connections and what a stream may queue).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/units.h"
#include "net/event_loop.h"
#include "net/router.h"

namespace flyball {

struct ServerLimits {
  // Requests over TCP have to name the server by a numeric address, "localhost" or this name; none: by any name. A page
  // of another site can have its own name stand for this machine (DNS rebinding): its requests are then its visitor's,
  // whom a server without a token serves.
  std::optional<std::string> only_as{};
  std::size_t header_bytes = 16u << 10u;
  std::size_t body_bytes = 1u << 20u;
  std::size_t stream_queue_bytes = 256u << 10u;  // a reader of a stream that is further behind is dropped
  std::size_t connections = 16384;               // beyond, the longest idle one (without a whole request) makes room
  // Connections of one party (Peer::party). Beyond, its longest idle one makes room; where it has none, the new one is
  // closed. 0: no limit of its own.
  std::size_t connections_per_party = 0;
  Seconds idle{120.0};           // between requests of a connection
  Seconds read{10.0};            // from a request's first byte to its last
  Seconds write{10.0};           // for a response, or for a stream to take anything at all
  Seconds stream_comment{15.0};  // how often a silent stream says that it is alive
  std::size_t pool_threads = 2;  // for Runs::kInPool; started with the first such request
  // Threads that send when hundreds of answers are due at once, the loop's among them; 0: one per processor, at most 4.
  std::size_t sending_threads = 0;
};

// Two PEM files: the certificate, followed by those that lead to its authority; and its key, without a passphrase.
struct TlsFiles {
  std::string certificate;
  std::string key;
};

struct ServerCounts {
  std::uint64_t requests = 0;
  std::uint64_t accepted = 0;      // connections
  std::uint64_t dropped_slow = 0;  // streams whose reader was too slow
  std::uint64_t dropped_idle = 0;  // connections closed to make room
  std::uint64_t refused = 0;       // connections beyond a limit, in all or of one party, closed unanswered
  std::uint64_t abandoned = 0;     // requests whose client went before the answer came
  std::uint64_t bad_requests = 0;  // requests that could not be parsed, and failed TLS handshakes
  std::size_t open_connections = 0;
};

// All methods are to be called in the loop's thread, or while the loop does not run.
class HttpServer {
 public:
  HttpServer(EventLoop& loop, Router router, const ServerLimits& limits);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Replaces a socket file that no process listens on; throws SystemError where one does, or where the path cannot be
  // used. The file is removed when the server stops.
  void listen_unix(const std::string& path, unsigned mode);
  // Listens on a numeric address; port 0 takes a free one. Returns the port. Speaks TLS where files are given. Throws
  // InputError where those cannot be used, UsageError for a bad address, SystemError where the port cannot be had.
  std::uint16_t listen_tcp(const std::string& address, std::uint16_t port,
                           const std::optional<TlsFiles>& tls = std::nullopt);

  // Called for every connection that ends.
  void on_disconnect(std::function<void(std::uint64_t connection)> action);
  // A pinned connection is never closed to make room, nor for being idle.
  void pin(std::uint64_t connection, bool pinned);

  // Takes no more connections, closes idle ones and streams, lets requests under way finish for at most `grace`, then
  // calls `done`. The server may be destroyed from then on.
  void stop(Seconds grace, std::function<void()> done);

  [[nodiscard]] ServerCounts counts() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

// An address and a port. parse_host_port() reads "[::1]:80" or "127.0.0.1:4938", and throws UsageError, which names
// `what`, for other texts.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
[[nodiscard]] HostPort parse_host_port(const std::string& what, std::string_view text);
[[nodiscard]] bool is_loopback(const std::string& address);  // a numeric address

// Returns a numeric address as it is, else the first address that the system finds for a name, which may take seconds.
// Throws SystemError.
[[nodiscard]] std::string resolve_host(const std::string& host);

}  // namespace flyball
