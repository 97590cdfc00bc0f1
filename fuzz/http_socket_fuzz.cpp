// Any bytes as what a client sends, through a real socket to a real server: it stays, answers whoever comes next, and
// what it answers begins as HTTP does. One server for the process, one connection per input. The first byte says how
// the input is cut into what is sent at once.
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/contain.h"
#include "base/json_text.h"
#include "net/event_loop.h"
#include "net/json_response.h"
#include "net/router.h"
#include "net/server.h"

namespace {

using flyball::AsyncHandler;
using flyball::EventStream;
using flyball::Handler;
using flyball::Reply;
using flyball::Request;
using flyball::Response;
using flyball::StreamHandler;

Response shown(const Request& request) {
  nlohmann::ordered_json json = {{"path", request.path}, {"body", request.body}};
  for (const auto& [name, value] : request.query.pairs()) json["query"][name] = value;
  for (const auto& header : request.headers) json["headers"][header.name] = header.value;
  return flyball::json_response(200, json);
}

class Server {
 public:
  Server() {
    std::string folder = (std::filesystem::temp_directory_path() / "flyball_fuzz_XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) std::abort();
    path_ = folder + "/s";
    flyball::Router router;
    const auto add = [&router](const char* method, const char* pattern, auto handler) {
      flyball::Route route;
      route.method = method;
      route.pattern = pattern;
      route.handler = std::move(handler);
      router.add(std::move(route));
    };
    add("GET", "/a/{b}", Handler(shown));
    add("POST", "/a/{b}", Handler(shown));
    add("POST", "/json", Handler([](const Request& request) {
          return flyball::json_response(200, flyball::parse_json("the request", request.body));
        }));
    add("GET", "/later", AsyncHandler([this](const Request& request, const Reply& reply) {
          loop_.post([reply, response = shown(request)] { reply.send(response); });
        }));
    add("GET", "/dropped", AsyncHandler([](const Request&, const Reply&) {}));
    add("GET", "/events", StreamHandler([](const Request&) {
          return [](const std::shared_ptr<EventStream>& stream) {
            stream->send("name", "data");
            stream->close();
          };
        }));
    flyball::ServerLimits limits;
    limits.header_bytes = 4096;
    limits.body_bytes = 16384;
    limits.idle = limits.read = limits.write = flyball::Seconds(1);
    limits.connections_per_party = 64;
    server_.emplace(loop_, std::move(router), limits);
    server_->listen_unix(path_, 0600);
    std::thread([this] { loop_.run(); }).detach();
    static std::string left;
    left = folder;
    std::atexit([] {
      std::error_code ignored;
      std::filesystem::remove_all(left, ignored);
    });
  }

  [[nodiscard]] int connect() const {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    if (socket < 0 || ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) std::abort();
    return socket;
  }

 private:
  std::string path_;
  flyball::EventLoop loop_;
  std::optional<flyball::HttpServer> server_;
};

// What the server says to these bytes until it has no more to say.
std::string exchange(int socket, std::string_view bytes, std::size_t piece) {
  const timeval most{10, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket, bytes.data(), std::min(piece, bytes.size()), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;  // it has heard enough
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  ::shutdown(socket, SHUT_WR);
  std::string answer;
  std::array<char, 16384> block{};
  ssize_t count = 0;
  // libFuzzer's clock interrupts a socket that has a time limit.
  while ((count = ::read(socket, block.data(), block.size())) > 0 || (count < 0 && errno == EINTR)) {
    if (count > 0) answer.append(block.data(), static_cast<std::size_t>(count));
  }
  if (count < 0 && errno != ECONNRESET) std::abort();  // it neither answers nor closes
  ::close(socket);
  return answer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Server& server = *new Server;  // its loop runs until the process ends
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string answer = exchange(server.connect(), bytes, 1 + std::size_t{data[0]} * data[0]);
  if (!answer.empty() && !answer.starts_with("HTTP/1.1 ")) std::abort();
  if (flyball::contained_exceptions() > 0) std::abort();
  static unsigned inputs = 0;
  if (++inputs % 64 == 1) {
    const std::string honest =
        exchange(server.connect(), "GET /a/b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 65536);
    if (!honest.starts_with("HTTP/1.1 200 OK\r\n")) std::abort();
  }
  return 0;
}
