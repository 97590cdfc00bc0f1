// Lines "METHOD TARGET BODY" as requests to a planning server, one after the other: it answers each of them, never with
// 500, and is well at the end. A server of its own for every input, so that each can be played again.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "net/client.h"
#include "net/event_loop.h"
#include "server/planning_server.h"

namespace {

constexpr std::string_view kToken = "0123456789abcdef0123456789abcdef";
constexpr std::size_t kMostRequests = 40;

std::string socket_path() {
  static const std::string path =
      (std::filesystem::temp_directory_path() / ("flyball-fuzz-" + std::to_string(::getpid()) + ".sock")).string();
  return path;
}

flyball::PlanningServerOptions options() {
  flyball::PlanningServerOptions options;
  options.listen_host.clear();
  options.socket_path = socket_path();
  options.requests_per_second = 1e6;
  options.book.longest_wait = flyball::Seconds(0.01);
  return options;
}

// Up to the next separator, which is taken off as well.
std::string_view take(std::string_view& text, char separator) {
  const std::string_view piece = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(text.size(), piece.size() + 1));
  return piece;
}

bool can_be_sent(std::string_view word) {
  for (const char c : word) {
    if (c <= ' ' || c == '\x7f') return false;
  }
  return !word.empty();
}

void play(std::string_view text) {
  flyball::HttpClient::Options client_options;
  client_options.timeout = flyball::Seconds(2.0);
  client_options.token = kToken;
  flyball::HttpClient client({.socket_path = socket_path(), .host = {}}, client_options);
  for (std::size_t k = 0; k < kMostRequests && !text.empty(); ++k) {
    std::string_view line = take(text, '\n');
    const std::string_view method = take(line, ' ');
    const std::string_view target = take(line, ' ');
    // A stream and Zeus's schedule answer when there is something to say, which may be never.
    if (!can_be_sent(method) || !target.starts_with('/') || !can_be_sent(target)) continue;
    if (target.find("/events") != std::string_view::npos || target.starts_with("/schedule")) continue;
    try {
      if (client.request(method, target, line).status == 500) std::abort();
    } catch (const flyball::Error&) {
      client.disconnect();  // cut off for what it has sent
    }
  }
  flyball::HttpClient again({.socket_path = socket_path(), .host = {}});
  if (again.request("GET", "/healthz").status != 200) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  flyball::EventLoop loop;
  flyball::PlanningServer server(loop, options());
  std::thread thread([&loop] { loop.run(); });
  play({reinterpret_cast<const char*>(data), size});
  loop.post([&] { server.stop([&loop] { loop.stop(); }); });
  thread.join();
  return 0;
}
