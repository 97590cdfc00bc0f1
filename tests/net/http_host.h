// A server in a thread of its own, and the routes that tests ask it for.
#pragma once

#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "net/client.h"
#include "net/server.h"
#include "support/temp_folder.h"

namespace flyball::testing {

inline Response text(std::string body) {
  Response response;
  response.content_type = "text/plain";
  response.body = std::move(body);
  return response;
}

inline Route route(std::string method, std::string pattern, std::variant<Handler, AsyncHandler, StreamHandler> handler,
                   Runs runs = Runs::kInLoop) {
  Route made;
  made.method = std::move(method);
  made.pattern = std::move(pattern);
  made.handler = std::move(handler);
  made.runs = runs;
  return made;
}

class Host {
 public:
  // TCP speaks TLS where files are given.
  explicit Host(Router router, const ServerLimits& limits = {}, const std::optional<TlsFiles>& tls = std::nullopt)
      : server_(loop_, std::move(router), limits) {
    server_.on_disconnect([this](std::uint64_t) {
      const std::lock_guard lock(mutex_);
      ++disconnects_;
      changed_.notify_all();
    });
    server_.listen_unix(path(), 0600);
    port_ = server_.listen_tcp("127.0.0.1", 0, tls);
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~Host() { stop(); }

  void stop() {
    if (!thread_.joinable()) return;
    loop_.post([this] { server_.stop(Seconds(5), [this] { loop_.stop(); }); });
    thread_.join();
  }
  [[nodiscard]] std::string path() const { return folder_ / "s"; }
  [[nodiscard]] Endpoint local() const { return parse_endpoint(path()); }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] Endpoint tcp() const { return parse_endpoint("127.0.0.1:" + std::to_string(port_)); }
  [[nodiscard]] ServerCounts counts() {
    std::promise<ServerCounts> counts;
    loop_.post([&] { counts.set_value(server_.counts()); });
    return counts.get_future().get();
  }
  [[nodiscard]] bool wait_disconnects(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return disconnects_ >= count; });
  }
  EventLoop& loop() { return loop_; }

 private:
  TempFolder folder_;
  EventLoop loop_;
  HttpServer server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int disconnects_ = 0;
};

}  // namespace flyball::testing
