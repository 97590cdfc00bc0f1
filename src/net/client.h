// An HTTP/1.1 client over Unix sockets, TCP and TLS, whose calls block until the answer is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/units.h"
#include "net/http.h"

namespace flyball {

struct Endpoint {
  std::string socket_path;  // a Unix socket; or
  std::string host;         // a name or a numeric address, and
  std::uint16_t port = 0;
  bool tls = false;

  [[nodiscard]] std::string text() const;  // for messages
};

// Reads "/run/flyball/agent.sock" (anything with a slash), "unix:PATH", "HOST:PORT", "http://HOST:PORT",
// "https://HOST:PORT". Throws UsageError.
[[nodiscard]] Endpoint parse_endpoint(std::string_view text);

// Keeps one connection, which is opened when it is first needed. Not thread-safe, except for interrupt(). Every call
// throws SystemError where the server cannot be reached, shows a certificate that cannot be trusted, does not answer in
// time or breaks off.
class HttpClient {
 public:
  struct Options {
    Seconds timeout{5.0};  // for one whole request
    std::string token;     // sent as "Authorization: Bearer ..." unless empty
    std::size_t body_bytes = 16u << 20u;
    // A PEM file of the authorities that may have issued an https:// server's certificate; empty: the system's, or
    // those that the environment variable SSL_CERT_FILE names.
    std::string ca_file;
  };

  explicit HttpClient(Endpoint endpoint) : HttpClient(std::move(endpoint), Options{}) {}
  // Throws InputError and SystemError where the CA file cannot be used.
  HttpClient(Endpoint endpoint, Options options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Returns the answer, whatever its status. A GET on a kept connection that the server has closed meanwhile is sent
  // once more.
  Response request(std::string_view method, std::string_view target, std::string_view json_body = {});

  // Returns whether the connection of the last request is still there.
  [[nodiscard]] bool connected() const;
  void disconnect();
  void interrupt();  // may be called from any thread: soon ends the call under way, and those that follow

  [[nodiscard]] const Endpoint& endpoint() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flyball
