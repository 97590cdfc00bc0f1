// One accept chain per listener, in the loop's thread. When descriptors run out, the longest idle connection is closed
// and accepting pauses for 50 ms. A Unix socket is bound under umask 0777 and gets its mode afterwards, so that nobody
// connects too early.
#include "net/server.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/contain.h"
#include "base/text.h"
#include "net/connection.h"
#include "net/event_loop_impl.h"
#include "net/tls.h"

namespace flyball {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr auto kAcceptPause = std::chrono::milliseconds(50);  // when descriptors have run out

// Whether somebody listens at the path.
bool answers(const std::string& path) {
  asio::io_context io;
  asio::local::stream_protocol::socket socket(io);
  error_code error;
  socket.connect(asio::local::stream_protocol::endpoint(path), error);
  return !error || error == asio::error::would_block || error == asio::error::try_again;
}

Peer peer_of(const asio::local::stream_protocol::socket& socket) {
  Peer peer;
  peer.address = "unix";
  ucred credentials{};
  socklen_t size = sizeof credentials;
  auto& native = const_cast<asio::local::stream_protocol::socket&>(socket);
  if (::getsockopt(native.native_handle(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0) {
    peer.local = true;
    peer.uid = credentials.uid;
    peer.pid = credentials.pid;
  }
  peer.party = peer.local ? fmt::format("uid {}", peer.uid) : peer.address;
  return peer;
}

std::string party_of(const asio::ip::address& address) {
  if (!address.is_v6()) return address.to_string();
  if (address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  auto bytes = address.to_v6().to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), std::uint8_t{0});
  return asio::ip::address_v6(bytes).to_string() + "/64";
}

Peer peer_of(const asio::ip::tcp::socket& socket) {
  Peer peer;
  error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  if (!error) peer.address = fmt::format("{}:{}", endpoint.address().to_string(), endpoint.port());
  if (!error) peer.party = party_of(endpoint.address());
  return peer;
}

void tune(asio::local::stream_protocol::socket&) {}
void tune(asio::ip::tcp::socket& socket) {
  error_code ignored;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
}

}  // namespace

class HttpServer::Impl : public std::enable_shared_from_this<HttpServer::Impl> {
 public:
  Impl(asio::io_context& io, Router router, const ServerLimits& limits)
      : core(std::make_shared<ServerCore>(io, std::move(router), limits)) {}

  template <class Acceptor>
  void accept(const std::shared_ptr<Acceptor>& acceptor, const std::shared_ptr<asio::ssl::context>& tls) {
    acceptor->async_accept([weak = weak_from_this(), acceptor, tls](error_code error, auto socket) {
      const auto self = weak.lock();
      if (!self || self->core->stopping || error == asio::error::operation_aborted) return;
      if (!error) {
        (void)contained("accepting a connection", [&] { self->admit(std::move(socket), tls.get()); });
        return self->accept(acceptor, tls);
      }
      // Out of descriptors: the kernel keeps the client waiting while another goes.
      self->core->make_room();
      const auto pause = std::make_shared<asio::steady_timer>(self->core->io, kAcceptPause);
      pause->async_wait([weak, acceptor, tls, pause](error_code) {
        if (const auto alive = weak.lock()) alive->accept(acceptor, tls);
      });
    });
  }

  template <class Socket>
  void admit(Socket socket, asio::ssl::context* tls) {
    Peer peer = peer_of(socket);
    if (!core->admits(peer.party)) {
      ++core->counts.refused;
      return;  // closed unanswered
    }
    tune(socket);
    peer.connection = ++core->counts.accepted;
    const auto id = peer.connection;
    auto connection = std::make_shared<Connection>(core, asio::generic::stream_protocol::socket(std::move(socket)),
                                                   std::move(peer), tls);
    core->open.emplace(id, connection);
    ++core->open_of_party[connection->party()];
    connection->start();
  }

  template <class Acceptor>
  void begin(const std::shared_ptr<Acceptor>& acceptor, const std::shared_ptr<asio::ssl::context>& tls) {
    closers.emplace_back([acceptor] {
      error_code ignored;
      acceptor->close(ignored);
    });
    accept(acceptor, tls);
  }

  void close_listeners() {
    for (const auto& close : closers) close();
    closers.clear();
    if (!unix_path.empty()) ::unlink(unix_path.c_str());
    unix_path.clear();
  }

  std::shared_ptr<ServerCore> core;
  std::vector<std::function<void()>> closers;
  std::string unix_path;
  std::shared_ptr<asio::steady_timer> grace;
};

HttpServer::HttpServer(EventLoop& loop, Router router, const ServerLimits& limits)
    : impl_(std::make_shared<Impl>(loop.impl().io, std::move(router), limits)) {}

HttpServer::~HttpServer() {
  impl_->core->stopping = true;
  impl_->core->stopped = {};
  impl_->core->on_disconnect = {};
  impl_->close_listeners();
  if (impl_->core->pool) impl_->core->pool->join();
  if (impl_->core->senders) impl_->core->senders->join();
  const auto open = impl_->core->open;
  for (const auto& [id, connection] : open) connection->close();
}

void HttpServer::listen_unix(const std::string& path, unsigned mode) {
  sockaddr_un address{};
  if (path.size() >= sizeof address.sun_path) {
    throw SystemError(fmt::format("{}: a socket's path may have at most {} bytes", path, sizeof address.sun_path - 1));
  }
  struct stat there {};
  if (::lstat(path.c_str(), &there) == 0) {
    if (!S_ISSOCK(there.st_mode)) throw SystemError(path + ": exists and is no socket; name another path");
    if (answers(path)) throw SystemError(path + ": another process listens there; stop it or name another path");
    ::unlink(path.c_str());
  }
  auto acceptor = std::make_shared<asio::local::stream_protocol::acceptor>(impl_->core->io);
  error_code error;
  acceptor->open(asio::local::stream_protocol(), error);
  // No client may slip in before the mode is set.
  const mode_t old_mask = ::umask(0777);
  if (!error) acceptor->bind(asio::local::stream_protocol::endpoint(path), error);
  ::umask(old_mask);
  if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error) throw SystemError(fmt::format("cannot listen on {}: {}", path, error.message()));
  if (::chmod(path.c_str(), mode) != 0) {
    throw SystemError(fmt::format("cannot set the mode of {}: {}", path, std::strerror(errno)));
  }
  impl_->unix_path = path;
  impl_->begin(acceptor, nullptr);
}

std::uint16_t HttpServer::listen_tcp(const std::string& address, std::uint16_t port,
                                     const std::optional<TlsFiles>& tls) {
  const auto context = tls ? make_server_tls(*tls) : nullptr;
  error_code error;
  const asio::ip::tcp::endpoint endpoint(asio::ip::make_address(address, error), port);
  if (error) throw UsageError(fmt::format("{} is no numeric address such as 127.0.0.1 or [::1]", address));
  auto acceptor = std::make_shared<asio::ip::tcp::acceptor>(impl_->core->io);
  acceptor->open(endpoint.protocol(), error);
  if (!error) acceptor->set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor->bind(endpoint, error);
  if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error) throw SystemError(fmt::format("cannot listen on {} port {}: {}", address, port, error.message()));
  impl_->begin(acceptor, context);
  return acceptor->local_endpoint().port();
}

void HttpServer::on_disconnect(std::function<void(std::uint64_t)> action) {
  impl_->core->on_disconnect = std::move(action);
}

void HttpServer::pin(std::uint64_t connection, bool pinned) {
  const auto found = impl_->core->open.find(connection);
  if (found != impl_->core->open.end()) found->second->set_pinned(pinned);
}

void HttpServer::stop(Seconds grace, std::function<void()> done) {
  auto& core = *impl_->core;
  if (core.stopping) return;
  core.stopping = true;
  core.stopped = std::move(done);
  impl_->close_listeners();
  const auto open = core.open;
  for (const auto& [id, connection] : open) connection->finish();
  core.check_stopped();
  impl_->grace = std::make_shared<asio::steady_timer>(core.io, duration_of(grace));
  impl_->grace->async_wait([weak = std::weak_ptr(impl_)](error_code error) {
    const auto self = weak.lock();
    if (error || !self) return;
    const auto left = self->core->open;
    for (const auto& [id, connection] : left) connection->close();
  });
}

ServerCounts HttpServer::counts() const {
  ServerCounts counts = impl_->core->counts;
  counts.open_connections = impl_->core->open.size();
  return counts;
}

HostPort parse_host_port(const std::string& what, std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const long port = colon == std::string_view::npos ? -1 : parse_integer(text.substr(colon + 1)).value_or(-1);
  std::string host(text.substr(0, colon));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (port < 0 || port > 65535 || host.empty()) {
    throw UsageError(fmt::format("{}: '{}' is no HOST:PORT such as 127.0.0.1:4938 or [::1]:4938", what, text));
  }
  return {host, static_cast<std::uint16_t>(port)};
}

bool is_loopback(const std::string& address) {
  error_code error;
  const auto parsed = asio::ip::make_address(address, error);
  return !error && parsed.is_loopback();
}

std::string resolve_host(const std::string& host) {
  error_code error;
  (void)asio::ip::make_address(host, error);
  if (!error) return host;
  asio::io_context io;
  const auto found = asio::ip::tcp::resolver(io).resolve(host, "", error);
  if (error || found.empty()) {
    throw SystemError(fmt::format("there is no address of {}: {}; give a numeric one such as 127.0.0.1", host,
                                  error ? error.message() : "the system knows none"));
  }
  return found.begin()->endpoint().address().to_string();
}

}  // namespace flyball
