// Each request starts Beast's asynchronous operations on a context of its own and runs that until they have ended:
// their time limit thereby holds for resolving, connecting, TLS and the message alike, and interrupt() can cancel them
// from another thread.
#include "net/client.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "base/text.h"
#include "net/byte_stream.h"
#include "net/server.h"
#include "net/tls.h"

namespace flyball {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

// The one handler of everything that is started on a stream: operations run one after the other, and every further type
// of handler would instantiate all of Beast once more.
struct StoreResult {
  error_code* result;
  void operator()(error_code error, std::size_t = 0) const { *result = error; }
};

}  // namespace

std::string Endpoint::text() const {
  if (!socket_path.empty()) return socket_path;
  return fmt::format("{}{}:{}", tls ? "https://" : "", host, port);
}

Endpoint parse_endpoint(std::string_view text) {
  Endpoint endpoint;
  const bool tls = text.starts_with("https://");
  if (text.starts_with("unix:")) {
    endpoint.socket_path = text.substr(5);
  } else if (tls || text.starts_with("http://")) {
    std::string_view authority = text.substr(text.find("//") + 2);
    if (authority.ends_with('/')) authority.remove_suffix(1);
    const HostPort parsed = parse_host_port("endpoint", authority);
    return {"", parsed.host, parsed.port, tls};
  } else if (text.find('/') != std::string_view::npos) {
    endpoint.socket_path = text;
  } else {
    const HostPort parsed = parse_host_port("endpoint", text);
    return {"", parsed.host, parsed.port, false};
  }
  if (endpoint.socket_path.empty()) throw UsageError("endpoint: no path given");
  return endpoint;
}

class HttpClient::Impl {
 public:
  Impl(Endpoint where, Options how) : endpoint(std::move(where)), options(std::move(how)) {
    if (endpoint.tls) tls = make_client_tls(options.ca_file);
  }

  [[noreturn]] void fail(const error_code& error) {
    stream.reset();
    if (error == beast::error::timeout) {
      throw SystemError(fmt::format("{} did not answer in {} s", endpoint.text(), options.timeout.value()));
    }
    throw SystemError(fmt::format("cannot talk to {}: {}", endpoint.text(), error.message()));
  }

  // Runs what was started on the stream to its end.
  void run() {
    io.restart();
    io.run();
  }

  // Connects by hand. If the server's queue of new connections is full, connect(2) on a Unix socket does not end later,
  // as an asynchronous one expects, but has to be waited for in the call.
  void connect_local(error_code& error) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (endpoint.socket_path.size() >= sizeof address.sun_path) {
      error = boost::system::errc::make_error_code(boost::system::errc::filename_too_long);
      return;
    }
    endpoint.socket_path.copy(address.sun_path, endpoint.socket_path.size());
    const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto micros = static_cast<std::int64_t>(options.timeout.value() * 1e6);
    const timeval most{micros / 1'000'000, micros % 1'000'000};
    const bool connected = descriptor >= 0 &&
                           ::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most) == 0 &&
                           ::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    if (connected) {
      stream->socket().assign(asio::generic::stream_protocol(AF_UNIX, 0), descriptor, error);
      return;
    }
    error = errno == EAGAIN ? error_code(beast::error::timeout) : error_code(errno, boost::system::system_category());
    if (descriptor >= 0) ::close(descriptor);
  }

  void connect() {
    stream.emplace(io);
    buffer.clear();
    error_code error;
    stream->expires_after(duration_of(options.timeout));
    if (!endpoint.socket_path.empty()) {
      connect_local(error);
    } else {
      asio::ip::tcp::resolver resolver(io);
      const auto found = resolver.resolve(endpoint.host, std::to_string(endpoint.port), error);
      if (error) fail(error);
      error = asio::error::host_not_found;
      for (const auto& entry : found) {
        stream.emplace(io);
        stream->expires_after(duration_of(options.timeout));
        stream->async_connect(asio::generic::stream_protocol::endpoint(entry.endpoint()), StoreResult{&error});
        run();
        if (!error) break;
      }
      if (!error) {
        error_code ignored;
        stream->socket().set_option(asio::ip::tcp::no_delay(true), ignored);
      }
    }
    if (error) fail(error);
    if (endpoint.tls) shake_hands();
  }

  void shake_hands() {
    stream->begin_tls(*tls);
    SSL* connection = stream->tls()->native_handle();
    expect_host(connection, endpoint.host);
    error_code error;
    stream->expires_after(duration_of(options.timeout));
    stream->async_handshake(asio::ssl::stream_base::client, StoreResult{&error});
    run();
    if (!error) return;
    if (error == beast::error::timeout) fail(error);
    const std::string problem = handshake_problem(connection, error);
    stream.reset();
    throw SystemError(fmt::format("cannot talk to {}: {}", endpoint.text(), problem));
  }

  [[nodiscard]] http::request<http::string_body> message(std::string_view method, std::string_view target,
                                                         std::string_view body) const {
    http::request<http::string_body> request;
    request.version(11);
    request.method_string({method.data(), method.size()});
    request.target({target.data(), target.size()});
    request.set(http::field::host,
                endpoint.socket_path.empty() ? fmt::format("{}:{}", endpoint.host, endpoint.port) : "localhost");
    request.set(http::field::user_agent, "flyball/" FLYBALL_VERSION);
    if (!options.token.empty()) request.set(http::field::authorization, "Bearer " + options.token);
    if (!body.empty()) {
      request.set(http::field::content_type, "application/json");
      request.body() = std::string(body);
    }
    if (method != "GET") request.content_length(body.size());
    return request;
  }

  // The answer, or what went wrong before its first byte.
  std::optional<Response> exchange(http::request<http::string_body>& request, error_code& error) {
    http::response_parser<http::string_body> parser;
    parser.body_limit(options.body_bytes);
    stream->expires_after(duration_of(options.timeout));
    http::async_write(*stream, request, StoreResult{&error}, nullptr);
    run();
    if (interrupted) error = asio::error::operation_aborted;  // the interrupt came before there was a read to cancel
    if (!error) {
      http::async_read(*stream, buffer, parser, StoreResult{&error});
      run();
    }
    if (error) {
      if (parser.got_some()) fail(error);
      stream.reset();
      return std::nullopt;
    }
    auto& message = parser.get();
    Response response;
    response.status = message.result_int();
    response.body = std::move(message.body());
    for (const auto& field : message) {
      response.headers.push_back({std::string(field.name_string().data(), field.name_string().size()),
                                  std::string(field.value().data(), field.value().size())});
    }
    response.content_type = message[http::field::content_type];
    if (!message.keep_alive()) stream.reset();
    return response;
  }

  Endpoint endpoint;
  Options options;
  asio::io_context io{1};
  std::shared_ptr<asio::ssl::context> tls;  // null: plain
  std::optional<ByteStream> stream;
  beast::flat_buffer buffer;
  std::atomic<bool> interrupted{false};
};

HttpClient::HttpClient(Endpoint endpoint, Options options)
    : impl_(std::make_unique<Impl>(std::move(endpoint), std::move(options))) {}
HttpClient::~HttpClient() = default;

const Endpoint& HttpClient::endpoint() const { return impl_->endpoint; }

Response HttpClient::request(std::string_view method, std::string_view target, std::string_view json_body) {
  auto message = impl_->message(method, target, json_body);
  const bool kept = impl_->stream.has_value();
  if (!kept) impl_->connect();
  if (impl_->interrupted) throw SystemError(impl_->endpoint.text() + ": interrupted");
  error_code error;
  auto response = impl_->exchange(message, error);
  if (!response && kept && method == "GET" && error != beast::error::timeout && !impl_->interrupted) {
    impl_->connect();
    response = impl_->exchange(message, error);
  }
  if (!response) impl_->fail(error);
  return std::move(*response);
}

bool HttpClient::connected() const { return impl_->stream.has_value(); }
void HttpClient::disconnect() { impl_->stream.reset(); }

void HttpClient::interrupt() {
  impl_->interrupted = true;
  // Runs in the thread that is inside the context, if one is.
  asio::post(impl_->io, [this] {
    if (impl_->stream) impl_->stream->cancel();
  });
}

}  // namespace flyball
